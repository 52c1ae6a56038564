"""Counts the files and functions of rlox that a training enters: what a reader has to read to follow it.

    python benchmarks/entered_functions.py [--functions]

Each training runs in a process of its own. A file counts if one of its functions was called, in any thread.
Lines are those of the called functions, from the first decorator or `def` to the last statement, with
docstrings and comments. Those of a called inner function count with the outer one too. Bodies of modules
and classes do not count. `--functions` lists the files with their called functions.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SAC = """
from rlox.algorithms.sac import SAC
SAC("Pendulum-v1", backend="torch", learning_starts=1000).train(1200)
"""
PPO = """
from rlox.algorithms.ppo import PPO
PPO("CartPole-v1", backend="torch").train(4096)
"""
COMMAND = """
from rlox_cli.main import main
arguments = "train algo=ppo env=CartPole-v1 tuned=null algo.backend=torch total_steps=4096"
assert main(arguments.split()) == 0
"""
TRAININGS = {
    "SAC, Pendulum-v1, 1,200 steps": ("rlox", SAC),
    "PPO, CartPole-v1, 4,096 steps": ("rlox", PPO),
    "rlox train of it, runner": ("rlox_cli", COMMAND),
}


class CalledFunctions:
    """Records the code of each called function whose file is in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.prefix, self.codes = f"{folder}{os.sep}", set[CodeType]()

    def profile(self, frame: FrameType, event: str, arg: Any) -> None:
        """Record a call; the argument of `sys.setprofile`."""
        if event == "call" and frame.f_code.co_flags & inspect.CO_OPTIMIZED:  # no class or module body
            self.codes.add(frame.f_code)

    def by_file(self) -> dict[str, dict[str, int]]:
        """Return the number of lines of each called function, by file."""
        files: dict[str, dict[str, int]] = {}
        for code in self.codes:
            if code.co_filename.startswith(self.prefix) and not code.co_name.startswith("<"):
                lines = [line for *_, line in code.co_lines() if line is not None]
                name = f"{code.co_qualname}:{code.co_firstlineno}"
                file = code.co_filename.removeprefix(self.prefix)
                files.setdefault(file, {})[name] = max(lines) - code.co_firstlineno + 1
        return files


def record(package: str, script: str) -> None:
    """Run `script` in this process and print what it called in `package` as JSON."""
    import threading

    import rlox

    called = CalledFunctions(Path(rlox.__file__).resolve().parents[1] / package)
    output, sys.stdout = sys.stdout, sys.stderr
    threading.setprofile(called.profile)
    sys.setprofile(called.profile)
    exec(compile(script, "training", "exec"), {"__name__": "training"})
    sys.setprofile(None)
    print(json.dumps(called.by_file()), file=output)


def count(package: str, script: str) -> dict[str, dict[str, int]]:
    """Return the lines of each called function of `package`, by file, from a new process."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, Path(__file__), "--record", package]
        output = subprocess.run(
            command, input=script, cwd=folder, text=True, stdout=subprocess.PIPE, check=True
        ).stdout
    files: dict[str, dict[str, int]] = json.loads(output)
    return files


def main() -> None:
    """Print a line for each training."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--functions", action="store_true", help="list the called functions of each file")
    parser.add_argument("--record", metavar="PACKAGE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.record:
        record(options.record, sys.stdin.read())
        return
    print("| training | files | functions | lines |\n|---|---|---|---|")
    for name, (package, script) in TRAININGS.items():
        files = count(package, script)
        functions = [lines for of_file in files.values() for lines in of_file.values()]
        print(f"| {name} | {len(files)} | {len(functions)} | {sum(functions):,} |", flush=True)
        for file, of_file in sorted(files.items()) if options.functions else ():
            print(f"  {file}: {', '.join(sorted(of_file))}")


if __name__ == "__main__":
    main()
