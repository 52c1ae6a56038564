"""The Python files of a repository: their names as modules, their text, and positions in it."""

from __future__ import annotations

import ast
import bisect
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

# Folders whose modules are imported by their own name, as pytest's `pythonpath` has them; innermost last.
SEARCH_PATH = ("", "tests", "benchmarks", "benchmarks/learning", "examples/plugin")
EXAMPLES_AS_PRINTED = "tests/meta/snippets/"


def module_name(path: str) -> str:
    """The name under which other modules import the file at `path`."""
    roots = [root for root in SEARCH_PATH if not root or path.startswith(root + "/")]
    inside = path.removeprefix(max(roots, key=len)).lstrip("/").removesuffix(".py")
    return inside.removesuffix("/__init__").replace("/", ".").replace("-", "_")


@dataclass
class Source:
    """One Python file; positions are those of `ast`, with columns in bytes of UTF-8."""

    path: str
    text: str
    tree: ast.Module
    line_starts: list[int] = field(default_factory=list)  # byte offset of each line
    data: bytes = b""

    @classmethod
    def parse(cls, path: str, text: str) -> Source:
        """The file with its tree."""
        data = text.encode()
        starts = [0]
        for line in data.splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        return cls(path, text, ast.parse(text), starts, data)

    @property
    def module(self) -> str:
        """Dotted name."""
        return module_name(self.path)

    @property
    def is_package(self) -> bool:
        """Whether it is the `__init__` of a folder."""
        return self.path.endswith("/__init__.py")

    def offset(self, line: int, column: int) -> int:
        """Byte offset of a position."""
        return self.line_starts[line - 1] + column

    def line_of(self, offset: int) -> int:
        """Line of a byte offset."""
        return bisect.bisect_right(self.line_starts, offset)

    def segment(self, node: ast.AST) -> bytes:
        """The bytes of a node."""
        start = self.offset(node.lineno, node.col_offset)  # type: ignore[attr-defined]
        return self.data[start : self.offset(node.end_lineno, node.end_col_offset)]  # type: ignore[attr-defined]

    def find_word(self, word: str, start: int) -> int:
        """Offset of the identifier `word` at or after the offset `start`; -1 where there is none."""
        target = word.encode()
        at = self.data.find(target, start)
        while at >= 0:
            before, after = (
                self.data[at - 1 : at],
                self.data[at + len(target) : at + len(target) + 1],
            )
            if not (_is_word(before) or _is_word(after)):
                return at
            at = self.data.find(target, at + 1)
        return -1


def _is_word(character: bytes) -> bool:
    return character.isalnum() or character == b"_" or character >= b"\x80"


def tracked_files(root: Path, suffix: str = ".py") -> list[str]:
    """Files that git tracks, without examples that stay as they were printed."""
    ended = subprocess.run(
        ["git", "ls-files", "-z", f"*{suffix}"],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    )
    names = [name for name in ended.stdout.split("\0") if name and (root / name).is_file()]
    return [name for name in names if not name.startswith(EXAMPLES_AS_PRINTED)]


def read_sources(root: Path) -> dict[str, Source]:
    """All Python files of the repository by path."""
    sources = {}
    for path in tracked_files(root):
        if not any(part.is_symlink() for part in (root / path).parents if part != root):
            sources[path] = Source.parse(path, (root / path).read_text(encoding="utf-8"))
    return sources
