"""Run a benchmark command."""

import sys

from benchmarks.td3_bench import main

sys.exit(main())
