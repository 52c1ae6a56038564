"""Renames Python names by a table, proves that nothing else changed, and draws names for readers.

    python tests/rename.py apply TABLE.tsv [--package rlox/envs] [--dry-run] [--report FILE]
    python tests/rename.py prove BEFORE_COMMIT TABLE.tsv
    python tests/rename.py prove-rust BEFORE_COMMIT RUST_TABLE.tsv
    python tests/rename.py page TABLE.tsv RUST_TABLE.tsv MOVES.tsv > docs/renamed.md
    python tests/rename.py draw identifiers|messages|help|docstrings [COMMIT] [--seed 1] [--count 20]

The table has the columns kind, path, scope, old, new, why. `apply` edits the files in place at exact
positions. mypy says which class an attribute belongs to. A row that would make two names meet, or that
changes what is typed or saved, is refused. Places that need a person are listed. `prove` compares the syntax
trees of the commit and of the working tree, `prove-rust` the tokens of Rust files, which rust-analyzer
renamed. `page` writes the table for readers. `draw` prints a sample of the names that the code of a commit
declares, or of its sentences, for a reader to judge. Exit code 1: a proof found another change. 2: wrong use.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

TESTS = Path(__file__).resolve().parent
sys.path.insert(0, str(TESTS))

from renaming.apply import make_plan, places_in_text, write  # noqa: E402
from renaming.draw import KINDS, draw, texts_of  # noqa: E402
from renaming.page import page  # noqa: E402
from renaming.plan import lines  # noqa: E402
from renaming.proof import prove  # noqa: E402
from renaming.rust import compare_rust, read_rust_table  # noqa: E402
from renaming.table import read_table  # noqa: E402


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--root", type=Path, default=TESTS.parent)
    parser.add_argument("--cache", type=Path, help="for what mypy found (default: .cache/rename of the root)")
    commands = parser.add_subparsers(dest="command", required=True)
    apply = commands.add_parser("apply", help="edit the files")
    apply.add_argument("table", type=Path)
    apply.add_argument("--package", action="append", default=[], help="only rows about files in this folder")
    apply.add_argument("--dry-run", action="store_true", help="report only")
    apply.add_argument("--report", type=Path, help="where all lists go (default: rename.txt of the cache)")
    proof = commands.add_parser("prove", help="compare with a commit")
    proof.add_argument("before")
    proof.add_argument("table", type=Path)
    rust_proof = commands.add_parser("prove-rust", help="compare Rust files with a commit")
    rust_proof.add_argument("before")
    rust_proof.add_argument("table", type=Path)
    markdown = commands.add_parser("page", help="the tables in Markdown")
    markdown.add_argument("table", type=Path)
    markdown.add_argument("rust_table", type=Path)
    markdown.add_argument("moves", type=Path, help="old and new path of files that moved to another folder")
    sample = commands.add_parser("draw", help="names or sentences, drawn by a seed")
    sample.add_argument("kind", choices=sorted(KINDS))
    sample.add_argument("commit", nargs="?", help="default: the working tree")
    sample.add_argument("--seed", type=int, default=1)
    sample.add_argument("--count", type=int, default=20)
    return parser.parse_args(arguments)


def apply_table(options: argparse.Namespace, cache: Path) -> int:
    """Apply the table; report the changes and the places that are left."""
    rows = read_table(options.table, options.package)
    program, plan = make_plan(options.root, rows, cache)
    if not options.dry_run:
        write(options.root, program, plan, cache / "record.json")
    choice = plan.choice
    in_text = places_in_text(options.root, plan)
    lists = {
        "applied": [str(row) for row in plan.applied],
        "skipped": list(lines(choice.skipped)),
        "refused": list(lines(choice.refused)),
        "unresolved places": plan.unresolved,
        "notes": plan.notes,
        "documents and comments": in_text,
    }
    report = options.report or cache / "rename.txt"
    report.parent.mkdir(parents=True, exist_ok=True)
    parts = [f"== {title}: {len(found)}\n" + "\n".join(found) + "\n" for title, found in lists.items()]
    report.write_text("\n".join(parts), encoding="utf-8")
    print(f"rows: {len(rows)}")
    for title, found in lists.items():
        print(f"{title}: {len(found)}")
    print(f"edits: {sum(map(len, plan.edits.values()))} in {sum(map(bool, plan.edits.values()))} files")
    print(f"lists: {report}")
    return 0


def prove_rust(root: Path, before: str, table: Path) -> int:
    """Print the changes that the table does not explain."""
    texts = [texts_of(root, commit) for commit in (before, None)]
    old, new = ({path: text for path, text in part.items() if path.endswith(".rs")} for part in texts)
    rows = read_rust_table(table)
    found = compare_rust(old, new, rows)
    for path, place in found.items():
        print(f"{path}: {place}")
    changed = sum(old[path] != new[path] for path in old.keys() & new.keys())
    print(f"{len(rows)} rows; {changed} of {len(old)} files changed, {len(found)} otherwise than by the rows")
    return int(bool(found))


def main(arguments: Sequence[str]) -> int:
    """Run a command."""
    options = parse(arguments)
    options.root = options.root.resolve()
    cache = (options.cache or options.root / ".cache" / "rename").resolve()
    if options.command == "page":
        rows = [*read_table(options.table), *read_rust_table(options.rust_table)]
        tables = [options.table, options.rust_table, options.moves]
        moves = dict(line.split("\t") for line in options.moves.read_text("utf-8").splitlines()[1:])
        print(page(rows, [table.as_posix() for table in tables], moves))
        return 0
    if options.command == "draw":
        for path, line, text in draw(options.root, options.kind, options.commit, options.seed, options.count):
            print(f"{path}:{line}: {text}")
        return 0
    if options.command == "prove-rust":
        return prove_rust(options.root, options.before, options.table)
    if options.command == "prove":
        return prove(options.root, options.before, read_table(options.table), cache / "record.json")
    return apply_table(options, cache)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
