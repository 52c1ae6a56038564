"""The proof that only names of Rust code changed: tokens are equal but for rows of the table.

rust-analyzer renames; comments, the order of imports, and the commas and braces that rustfmt moves are left
aside. Where two identifiers differ, a row has to have both. A field that is written short (`Point { x }`) may
become long (`Point { x: column }`), and the other way round.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from renaming.table import Row

TOKEN = re.compile(
    r"(?P<skipped>\s+|//[^\n]*)"
    r"|b?r(?P<hashes>#*)\".*?\"(?P=hashes)"
    r"|[bc]?\"(?:[^\"\\]|\\.)*\""
    r"|b?'(?:[^'\\\n]|\\x..|\\u\{[^}]*\}|\\.)'"
    r"|'?\w+|.",
    re.DOTALL,
)
BLOCK_COMMENT = re.compile(r"/\*(?:[^*]|\*(?!/))*\*/")
MOVED_BY_RUSTFMT = {",", "{", "}"}
CAPTURED = re.compile(r"(?<!\{)\{([A-Za-z_]\w*)")  # a variable in a format string

Pairs = set[tuple[str, str]]


def read_rust_table(path: Path) -> list[Row]:
    """The rows about Rust files."""
    with path.open(encoding="utf-8", newline="") as file:
        lines = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [Row(line["kind"], line["path"], line["scope"], line["old"], line["new"]) for line in lines]


def tokens(text: str) -> list[str]:
    """Tokens of a file without comments, and without what rustfmt moves."""
    found = (match for match in TOKEN.finditer(BLOCK_COMMENT.sub(" ", text)) if not match["skipped"])
    return [match.group() for match in found if match.group() not in MOVED_BY_RUSTFMT]


def without_imports(found: list[str]) -> tuple[list[str], Counter[str]]:
    """The tokens outside `use` statements, in order, and those inside."""
    rest, imports, is_import = list[str](), Counter[str](), False
    for token in found:
        is_import = is_import or token == "use"
        if is_import:
            imports[token] += 1
        else:
            rest.append(token)
        is_import = is_import and token != ";"
    return rest, imports


def difference(before: str, after: str, pairs: Pairs) -> str:
    """The first place where a file changed otherwise than by rows of the table; empty if there is none."""
    (old, old_imports), (new, new_imports) = (without_imports(tokens(text)) for text in (before, after))
    if mismatch := _imports_differ(old_imports, new_imports, pairs):
        return f"imports: {mismatch}"
    i = j = 0
    while i < len(old) and j < len(new):
        a, b = old[i], new[j]
        if a == b or _is_renamed_text(a, b, pairs):
            if new[j + 1 : j + 2] == [":"] and old[i + 1 : i + 2] != [":"] and (a, new[j + 2]) in pairs:
                j += 2  # `x` became `x: column`
            elif old[i + 1 : i + 2] == [":"] and new[j + 1 : j + 2] != [":"] and (old[i + 2], b) in pairs:
                i += 2  # `x: column` became `x`
            i, j = i + 1, j + 1
        elif (a, b) not in pairs:
            return f"{' '.join(old[max(i - 4, 0) : i + 4])} -> {' '.join(new[max(j - 4, 0) : j + 4])}"
        elif _is_written_out(old[i : i + 2], new[j : j + 3], pairs):
            i, j = i + 1, j + 3  # `x` became `column: x` or `column: value`
        elif old[i + 1 : i + 3] == [":", b] and new[j + 1 : j + 2] != [":"]:
            i, j = i + 3, j + 1  # `x: column` became `column`
        else:
            i, j = i + 1, j + 1
    return "" if i == len(old) and j == len(new) else f"the end: {old[i : i + 8]} -> {new[j : j + 8]}"


def _is_written_out(old: list[str], new: list[str], pairs: Pairs) -> bool:
    """Whether `x` became `column: x`, or `column: value` where both names are new ones of `x`."""
    is_long = len(new) == 3 and new[1] == ":" and old[1:] != [":"]
    return is_long and (new[2] == old[0] or (old[0], new[2]) in pairs)


def _imports_differ(old: Counter[str], new: Counter[str], pairs: Pairs) -> str:
    gone, come = old - new, new - old
    for token in [*gone.elements()]:
        target = next((b for b in come if (token, b) in pairs), None)
        if target is not None:
            gone -= Counter([token])
            come -= Counter([target])
    return " ".join([*gone, "->", *come]) if gone or come else ""


def _is_renamed_text(old: str, new: str, pairs: Pairs) -> bool:
    """Whether two format strings differ by names of variables only."""
    if not (old.endswith('"') and new.endswith('"')):
        return False
    captured = zip(CAPTURED.findall(old), CAPTURED.findall(new), strict=False)
    same = all(a == b or (a, b) in pairs for a, b in captured)
    return same and CAPTURED.sub("{", old) == CAPTURED.sub("{", new)


def compare_rust(before: Mapping[str, str], after: Mapping[str, str], rows: Iterable[Row]) -> dict[str, str]:
    """For each file that changed otherwise than by the rows: where."""
    pairs = {(row.old, row.new) for row in rows}
    found = {path: "the file is gone" for path in before if path not in after}
    found |= {path: "a new file" for path in after if path not in before}
    for path in before:
        if (
            path in after
            and before[path] != after[path]
            and (place := difference(before[path], after[path], pairs))
        ):
            found[path] = place
    return found
