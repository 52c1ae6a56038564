"""The command line of the golden files."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from golden import files, making
from golden.files import UnknownCase


def main(line: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code, 2 for wrong use."""
    asked = _parser().parse_args(line)
    try:
        code: int = asked.run(asked)
    except UnknownCase as error:
        print(error, file=sys.stderr)
        return 2
    except subprocess.CalledProcessError as error:  # it has printed the reason
        print(f"failed: {' '.join(map(str, error.cmd))}", file=sys.stderr)
        return 1
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python tests/golden",
        description="A CASE is a file's name without .npz (runs/discrete.after), its last part (discrete), "
        "or a pattern ('runs/native_*'); without one it is all of them.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, run: object, told: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=told, description=told)
        command.set_defaults(run=run)
        return command

    make = add("make", _make, "make cases with pinned kernels, print what changed, write it and the index")
    make.add_argument("case", nargs="*", metavar="CASE")
    add("list", _list, "show the index: what each file is and what made it")
    compare = add("compare", _compare, "make cases at COMMIT and here on this machine and compare every bit")
    compare.add_argument("commit", metavar="COMMIT")
    compare.add_argument("case", nargs="*", metavar="CASE")
    compare.add_argument(
        "--python", metavar="PATH", help="an interpreter in which that commit is installed already"
    )
    keep = add("keep", _keep, "write old/NAME: what the present code leaves on a user's disk")
    keep.add_argument("name", nargs="?", metavar="NAME", help="today's date by default")
    trace = add("trace", _trace, "make cases in this process below FOLDER, for the others")
    trace.add_argument("folder", type=Path, metavar="FOLDER")
    trace.add_argument("case", nargs="*", metavar="CASE")
    return parser


def _make(asked: argparse.Namespace) -> int:
    _check(asked.case)
    return making.make(asked.case)


def _check(names: Sequence[str]) -> None:
    from golden.cases import select

    select(names)


def _compare(asked: argparse.Namespace) -> int:
    from golden.compare import compare

    _check(asked.case)
    return compare(asked.commit, asked.case, asked.python)


def _list(asked: argparse.Namespace) -> int:
    index = files.load_index()
    for name, row in sorted(index["files"].items()):
        made = index["made"][row["made"]]
        kernels = "pinned" if made["pinned"] else "not pinned"
        cpu = f"{made['cpu']} ({kernels})" if made["cpu"] else "CPU not recorded"
        print(f"{name}  {row['format']}  {made['commit']}  {cpu}  {row['sha256'][:12]}")
    return 0


def _keep(asked: argparse.Namespace) -> int:
    from golden.keep import keep

    return keep(asked.name)


def _trace(asked: argparse.Namespace) -> int:
    making.trace(asked.folder, asked.case)
    return 0
