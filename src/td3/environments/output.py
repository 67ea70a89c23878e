"""Where the output of environments goes."""

import contextlib
import ctypes
import os
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def output_to_stderr() -> Iterator[None]:
    """Send to stderr what environments print: stdout is for the result of a command.

    Also for what C code and processes that are started meanwhile write.
    """
    with redirected({1: 2}), contextlib.redirect_stdout(sys.stderr):
        yield


@contextlib.contextmanager
def no_output() -> Iterator[None]:
    """Discard what is printed."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    try:
        with redirected({1: devnull, 2: devnull}):
            yield
    finally:
        os.close(devnull)


@contextlib.contextmanager
def redirected(targets: dict[int, int]) -> Iterator[None]:
    """Let descriptors stand for others."""
    sys.stdout.flush()
    sys.stderr.flush()
    saved = {descriptor: os.dup(descriptor) for descriptor in targets}
    try:
        for descriptor, target in targets.items():
            os.dup2(target, descriptor)
        yield
    finally:
        ctypes.CDLL(None).fflush(None)
        for descriptor, copy in saved.items():
            with contextlib.suppress(OSError):  # an environment may have closed it
                os.dup2(copy, descriptor)
                os.close(copy)
