"""``python -m tests.fuzz --calls 20000 --seed 1``."""

import argparse
import sys

from tests.fuzz.run import fuzz

parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
parser.add_argument("--calls", type=int, default=20_000)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--first", type=int, default=0, help="number of the first call")
given = parser.parse_args()
report = fuzz(given.calls, given.seed, given.first, every=1000)
print(report)
sys.exit(bool(report.failures))
