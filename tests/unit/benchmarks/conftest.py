"""The benchmarks are beside `src`, not in it: they are imported from the repository's root."""

import sys
from pathlib import Path

ROOT = str(Path(__file__).parents[3])
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)
