"""`python -m td3` is the `td3` command."""

import sys

from td3.cli import main

sys.exit(main())
