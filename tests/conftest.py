"""What all tests share."""

import signal

# Runs under nohup inherit that SIGHUP is ignored, and then td3 ignores it too, on purpose.
if hasattr(signal, "SIGHUP"):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
