"""Breaks a defining line of each algorithm; a test must fail each time.

    python tests/negative_controls.py [--record FILE]

makes each change of negative_controls.toml in a copy of the tree, one at a time, and runs the test files that
the entry names, without slow tests. They must pass without the change. `--record FILE` writes the counts and
the changes that no test noticed as JSON. Exit code 1 if there were any.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).resolve().parent
sys.path.insert(0, str(TESTS))

from mutants import Trial, copy_tree  # noqa: E402

LIST = TESTS / "negative_controls.toml"
SECONDS = 3600.0  # for one run of the tests


@dataclass(frozen=True)
class Control:
    """Replaces `old`, which occurs once in `file`, by `new`; one of `tests` must fail."""

    name: str
    file: Path
    old: str
    new: str
    tests: tuple[Path, ...]

    def apply(self, source: str) -> str:
        """Return the source with the change."""
        if source.count(self.old) != 1:
            raise ValueError(f"{self.name}: {self.file} has {self.old!r} {source.count(self.old)} times")
        return source.replace(self.old, self.new)


def controls() -> list[Control]:
    """Return the controls of the list."""
    entries = tomllib.loads(LIST.read_text(encoding="utf-8"))["control"]
    return [
        Control(c["name"], Path(c["file"]), c["old"], c["new"], tuple(map(Path, c["tests"]))) for c in entries
    ]


def main(argv: Sequence[str]) -> int:
    """Try all controls and print the result."""
    parser = argparse.ArgumentParser("negative_controls", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--record", type=Path, help="the file that gets the counts, as JSON")
    parser.add_argument("-n", type=int, default=0, dest="processes", help="pytest's processes")
    options = parser.parse_args(argv)
    every, unnoticed, trial = controls(), list[str](), Trial(SECONDS, options.processes)
    with tempfile.TemporaryDirectory() as folder:
        root = copy_tree(TESTS.parent, Path(folder) / "tree")
        files = sorted({file for control in every for file in control.tests})
        if (outcome := trial.run(root, files)) != "survived":
            print(f"negative_controls: without any change the tests fail: {outcome}", file=sys.stderr)
            return 2
        for control in every:
            path = root / control.file
            source = path.read_text(encoding="utf-8")
            path.write_text(control.apply(source), encoding="utf-8")
            outcome = trial.run(root, control.tests)
            path.write_text(source, encoding="utf-8")
            unnoticed += [control.name] if outcome == "survived" else []
            print(f"{control.name}: {outcome}", flush=True)
    summary = {
        "controls": len(every),
        "noticed": len(every) - len(unnoticed),
        "unnoticed": unnoticed,
    }
    print(f"{summary['noticed']} of {len(every)} noticed")
    if options.record is not None:
        options.record.write_text(json.dumps(summary), encoding="utf-8")
    return int(bool(unnoticed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
