"""One module per lesson: `examine` raises `Wrong` with a sentence, `HINTS` help before that."""
