"""Code inside strings: the expressions of f-strings, and annotations in quotes, at their real positions.

Before Python 3.12 `ast` gives expressions of f-strings positions that are off; they are parsed again here.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator

from renaming.sources import Source

_PREFIX = re.compile(rb"""(?P<prefix>[A-Za-z]*)(?P<quote>\"{3}|'{3}|"|')""")


def repair_fstrings(source: Source, tree: ast.AST) -> None:
    """Replace the expressions of f-strings in `tree` by the same with their real positions."""
    for node in list(_outermost(tree)):
        fields = [field for field in _fields(node)]
        places = list(_expressions(source, node))
        if len(fields) != len(places):
            line = getattr(node, "lineno", 0)
            raise ValueError(f"{source.path}:{line}: {len(fields)} expressions, {len(places)} found")
        for field, (start, end) in zip(fields, places, strict=True):
            field.value = parse_at(source, start, end)


def parse_at(source: Source, start: int, end: int) -> ast.expr:
    """The expression between two byte offsets, with positions in the file."""
    line = source.line_of(start)
    column = start - source.line_starts[line - 1]
    text = b"(\n" + b" " * column + source.data[start:end] + b"\n)"
    tree = ast.parse(text, mode="eval")
    ast.increment_lineno(tree, line - 2)
    repair_fstrings(source, tree)
    return tree.body


def _outermost(tree: ast.AST) -> Iterator[ast.JoinedStr]:
    stack = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.JoinedStr):
            yield node
        else:
            stack.extend(ast.iter_child_nodes(node))


def _fields(node: ast.JoinedStr) -> Iterator[ast.FormattedValue]:
    for value in node.values:
        if isinstance(value, ast.FormattedValue):
            yield value
            if isinstance(value.format_spec, ast.JoinedStr):
                yield from _fields(value.format_spec)


def string_tokens(data: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Byte ranges of the string tokens of one (implicitly joined) literal."""
    text = b"(" + data[start:end] + b")"
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    lines = text.decode().splitlines(keepends=True)
    for token in tokenize.generate_tokens(io.StringIO(text.decode()).readline):
        if token.type == tokenize.STRING:
            first, last = (
                starts[row - 1] + len(lines[row - 1][:column].encode())
                for row, column in (token.start, token.end)
            )
            yield start + first - 1, start + last - 1


def _expressions(source: Source, node: ast.JoinedStr) -> Iterator[tuple[int, int]]:
    """Byte ranges of the expressions of an f-string, in their order."""
    data = source.data
    start = source.offset(node.lineno, node.col_offset)
    end = source.offset(node.end_lineno or node.lineno, node.end_col_offset or 0)
    for first, last in string_tokens(data, start, end):
        matched = _PREFIX.match(data, first)
        if matched is None or b"f" not in matched["prefix"].lower():
            continue
        is_raw = b"r" in matched["prefix"].lower()
        yield from _scan(data, matched.end(), last - len(matched["quote"]), is_raw, 0)[1]


def _scan(data: bytes, at: int, end: int, is_raw: bool, depth: int) -> tuple[int, list[tuple[int, int]]]:
    """Literal text with fields, to `end` or to the brace that ends the format: where, and the expressions."""
    found: list[tuple[int, int]] = []
    while at < end:
        character = data[at : at + 1]
        if not is_raw and data[at : at + 3] == b"\\N{":
            at = data.index(b"}", at) + 1
        elif depth == 0 and data[at : at + 2] in (b"{{", b"}}"):
            at += 2
        elif character == b"}" and depth:
            return at, found
        elif character == b"{":
            stop = _end_of_expression(data, at + 1)
            found.append((at + 1, _without_equals(data, at + 1, stop)))
            if data[stop : stop + 1] == b"!":
                stop += 2
            if data[stop : stop + 1] == b":":
                stop, inner = _scan(data, stop + 1, end, is_raw, depth + 1)
                found += inner
            at = stop + 1
        else:
            at += 1
    return at, found


def _end_of_expression(data: bytes, at: int) -> int:
    """Where the expression ends: at `}`, `!r` or `:` outside brackets and strings."""
    depth = 0
    while True:
        character = data[at : at + 1]
        if character in (b"'", b'"'):
            quote = data[at : at + 3] if data[at : at + 3] in (b"'''", b'"""') else character
            at = data.index(quote, at + len(quote)) + len(quote)
            continue
        if depth == 0 and (
            character in (b"}", b":") or (character == b"!" and data[at + 1 : at + 2] != b"=")
        ):
            return at
        if character in (b"(", b"[", b"{"):
            depth += 1
        elif character in (b")", b"]", b"}"):
            depth -= 1
        at += 1


def _without_equals(data: bytes, start: int, stop: int) -> int:
    """The end of the expression without the `=` of `{value=}`."""
    text = data[start:stop].rstrip()
    if text.endswith(b"=") and text[-2:-1] not in (b"=", b"!", b"<", b">"):
        return start + len(text) - 1
    return stop


def quoted_expression(source: Source, node: ast.Constant) -> ast.expr | None:
    """The annotation that a string holds; None where it is not a plain name or type."""
    segment = source.segment(node)
    matched = _PREFIX.match(segment)
    if matched is None or matched["prefix"] or b"\\" in segment or not isinstance(node.value, str):
        return None
    start = source.offset(node.lineno, node.col_offset) + matched.end()
    end = source.offset(node.end_lineno or 0, node.end_col_offset or 0) - len(matched["quote"])
    if source.data[start:end] != node.value.encode():
        return None
    try:
        return parse_at(source, start, end)
    except SyntaxError:
        return None
