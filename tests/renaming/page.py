"""The page that says what a name of older notes is called now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from renaming.table import MODULE_KINDS, Row

HEAD = """# Names that changed

Notes, issues and commit messages of before 2026-11-30 use older names. This page has those of modules,
classes, types, functions, methods, attributes, fields and constants. {tables} have those of parameters
and local variables too, with the reason of each. The page goes with the first release. It is written by

    python tests/rename.py page {arguments} > docs/renamed.md
"""
LEFT_OUT = ("parameter", "local")


def page(rows: Iterable[Row], tables: Sequence[str], moves: Mapping[str, str]) -> str:
    """Markdown: a table for each file, and one of moved files; `moves` has new folders."""
    rows = [row for row in rows if row.kind not in LEFT_OUT]
    moved = [row for row in rows if row.kind in MODULE_KINDS]
    named = sorted((row for row in rows if row.kind not in MODULE_KINDS), key=lambda row: row.path)
    head = HEAD.format(tables="\nand ".join(f"`{table}`" for table in tables[:2]), arguments=" ".join(tables))
    text = [head, "## Files", "", "| old | new |", "|---|---|"]
    renamed = {row.path: row.new_path for row in moved}
    final = {old: moves.get(new, new) for old, new in renamed.items()}
    final |= {old: new for old, new in moves.items() if old not in renamed.values()}
    text += sorted(f"| `{old}` | `{new}` |" for old, new in final.items())
    for path, of_file in groupby(named, key=lambda row: row.path):
        text += ["", f"## {path}", "", "| old | new |", "|---|---|"]
        text += [f"| `{_full(row, row.old)}` | `{row.new}` |" for row in of_file]
    return "\n".join(text)


def _full(row: Row, name: str) -> str:
    """A name with the class or function that it belongs to."""
    return f"{row.scope}.{name}" if row.scope else name
