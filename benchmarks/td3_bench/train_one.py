"""The command `td3` in a child process that stops when its parent has died."""

import os
import signal
import sys
import threading
import time

from td3.cli import main

POLL_SECONDS = 0.5


def stop_with_parent() -> None:
    """Ask this process to save and exit when the parent has died."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(POLL_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    stop_with_parent()
    sys.exit(main())
