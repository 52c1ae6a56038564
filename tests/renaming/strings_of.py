"""The strings of a file."""

from __future__ import annotations

import ast
import tokenize
from collections.abc import Iterator
from io import BytesIO

from renaming.scopes import Function
from renaming.sources import Source


def string_places(source: Source) -> Iterator[tuple[int, int]]:
    """Byte ranges of all strings that are not docstrings."""
    documented = set()
    for node in ast.walk(source.tree):
        if (
            isinstance(node, ast.Module | ast.ClassDef | Function)
            and ast.get_docstring(node, clean=False) is not None
        ):
            documented.add((node.body[0].lineno, node.body[0].col_offset))
    text_lines = source.text.splitlines(keepends=True)
    for token in tokenize.tokenize(BytesIO(source.data).readline):
        if token.type == tokenize.STRING:
            first, last = (
                source.offset(row, len(text_lines[row - 1][:column].encode()))
                for row, column in (token.start, token.end)
            )
            if (token.start[0], first - source.line_starts[token.start[0] - 1]) not in documented:
                yield first, last
