"""Golden files: `python tests/golden make|list|compare|keep`; `--help` says more."""

from __future__ import annotations

import sys
from pathlib import Path

TESTS = str(Path(__file__).resolve().parents[1])
# For `python tests/golden`, which puts this folder into the path instead of `tests`.
if TESTS not in sys.path:
    sys.path[0] = TESTS

from golden.commands import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
