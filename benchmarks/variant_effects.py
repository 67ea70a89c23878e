"""Compare the returns of the built-in variants with TD3: python -m benchmarks.variant_effects

Trains what is missing in FOLDER (ten seeds each, about ten minutes on one core), writes the
evaluations of every seed to a CSV file, and the table of docs/guide/variants.md from that file.
"""

import csv
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro

from td3.intervals import standard_errors
from td3.report.evaluations import read_evaluations

ROOT = Path(__file__).parents[1]
STORED = ROOT / "benchmarks/results/variant-effects-pendulum.csv"
PAGE = ROOT / "docs/guide/variants.md"
START, END = "<!-- effects -->\n", "<!-- /effects -->"
VARIANTS = ("td3", "huber", "layer_norm", "lap", "ensemble")
