"""What makes each algorithm that algorithm, broken on purpose: a test has to notice every time.

    python tests/negative_controls.py

makes each change of negative_controls.toml in a copy of the tree, one at a time, and runs the test files
that it names, which have to pass without it. Exit code 1 if a change went unnoticed.
"""

from __future__ import annotations

import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).resolve().parent
sys.path.insert(0, str(TESTS))

from mutants import copied, run  # noqa: E402

LIST = TESTS / "negative_controls.toml"
SECONDS = 600.0  # for one run of the tests


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


def main() -> int:
    """Try all, and tell."""
    every, unnoticed = controls(), 0
    with tempfile.TemporaryDirectory() as folder:
        root = copied(TESTS.parent, Path(folder) / "tree")
        files = sorted({file for control in every for file in control.tests})
        if (how := run(root, files, SECONDS)) != "survived":
            print(f"negative_controls: without any change the tests fail: {how}", file=sys.stderr)
            return 2
        for control in every:
            path = root / control.file
            source = path.read_text(encoding="utf-8")
            path.write_text(control.broken(source), encoding="utf-8")
            how = run(root, control.tests, SECONDS)
            path.write_text(source, encoding="utf-8")
            unnoticed += how == "survived"
            print(f"{control.name}: {how}", flush=True)
    print(f"{len(every) - unnoticed} of {len(every)} noticed")
    return int(unnoticed > 0)


if __name__ == "__main__":
    sys.exit(main())
