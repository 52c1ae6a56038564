"""Breaks a defining line of each algorithm; a test must fail each time.

    python tests/negative_controls.py [--record FILE]

makes each change of negative_controls.toml in a copy of the tree, one at a time, and runs the test files
that it names, without slow tests; they have to pass without the change. `--record FILE` writes the counts
and the changes that went unnoticed as JSON. Exit code 1 if there were any.
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

from mutants import Trial, copied  # noqa: E402

LIST = TESTS / "negative_controls.toml"
SECONDS = 3600.0  # for one run of the tests


@dataclass(frozen=True)
class Control:
    """In `file` the one place with `old` becomes `new`, and one of `tests` has to fail."""

    name: str
    file: Path
    old: str
    new: str
    tests: tuple[Path, ...]

    def broken(self, source: str) -> str:
        """The file with the change made."""
        if source.count(self.old) != 1:
            raise ValueError(
                f"{self.name}: {self.file} has {self.old!r} {source.count(self.old)} times"
            )
        return source.replace(self.old, self.new)


def controls() -> list[Control]:
    """Those of the list."""
    found = tomllib.loads(LIST.read_text(encoding="utf-8"))["control"]
    return [
        Control(c["name"], Path(c["file"]), c["old"], c["new"], tuple(map(Path, c["tests"])))
        for c in found
    ]


def main(argv: Sequence[str]) -> int:
    """Try all, and tell."""
    parser = argparse.ArgumentParser(
        "negative_controls", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--record", type=Path, help="the file that gets the counts, as JSON")
    parser.add_argument("-n", type=int, default=0, dest="processes", help="pytest's processes")
    asked = parser.parse_args(argv)
    every, unnoticed, trial = controls(), list[str](), Trial(SECONDS, asked.processes)
    with tempfile.TemporaryDirectory() as folder:
        root = copied(TESTS.parent, Path(folder) / "tree")
        files = sorted({file for control in every for file in control.tests})
        if (how := trial.run(root, files)) != "survived":
            print(f"negative_controls: without any change the tests fail: {how}", file=sys.stderr)
            return 2
        for control in every:
            path = root / control.file
            source = path.read_text(encoding="utf-8")
            path.write_text(control.broken(source), encoding="utf-8")
            how = trial.run(root, control.tests)
            path.write_text(source, encoding="utf-8")
            unnoticed += [control.name] if how == "survived" else []
            print(f"{control.name}: {how}", flush=True)
    found = {"controls": len(every), "noticed": len(every) - len(unnoticed), "unnoticed": unnoticed}
    print(f"{found['noticed']} of {len(every)} noticed")
    if asked.record is not None:
        asked.record.write_text(json.dumps(found), encoding="utf-8")
    return int(bool(unnoticed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
