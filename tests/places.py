"""The folders that tests read: the repository and its tests."""

from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).parent
ROOT: Final = TESTS.parent
