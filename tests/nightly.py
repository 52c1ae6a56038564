"""Runs what CI leaves out, one stage at a time, and keeps a report: `.ci/nightly` calls this.

    .ci/nightly                   every stage that has not ended with this code on such a machine
    .ci/nightly unit learning     these stages, also those that have ended
    .ci/nightly --again           every stage
    .ci/nightly --list            each stage, what it shows and how it ended last

A stage is a process with a log and a file of results below `.cache/nightly`. When a stage ends, this script
writes its outcome into the report, `benchmarks/reliability/nightly.json`. A stop loses only the running
stage; the same command begins with that stage again. After a failed stage the others still run. Exit code 1
if a requested stage has failed, 2 for wrong use, 128 plus its number for a signal.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

TESTS = Path(__file__).resolve().parent
sys.path.insert(0, str(TESTS))

from fresh_environments import NOT_AVAILABLE  # noqa: E402
from helpers.checkout import code, machine  # noqa: E402

REPORT = Path("benchmarks", "reliability", "nightly.json")
REPORTS = (REPORT, REPORT.with_name("report.json"))  # written by tests; not part of the code
CACHE = Path(".cache", "nightly")
SECONDS = 6 * 3600.0  # only a hung stage takes so long; pytest-timeout ends tests much earlier
GRACE = 30.0  # seconds for a stopped stage to clean up
GOLDEN = "tests/reliability/test_golden_runs.py"
CODE = ("rlox", "rlox_cli")
LIBRARIES = "rust/tensor-libraries"
MAX_NAMED_FAILURES = 20  # failed tests that the report names; the log names all


@dataclass(frozen=True)
class Stage:
    """A command whose exit code 0 shows something.

    In the command `{python}` stands for the interpreter of the development environment, `{junit}` for the
    file into which pytest writes its results, and `{record}` for the file into which a script writes counts
    as JSON.
    """

    name: str
    shows: str
    command: tuple[str, ...]


def tests(*arguments: str) -> tuple[str, ...]:
    """Return the command of pytest in the development environment."""
    return ("{python}", "-m", "pytest", "--junitxml={junit}", *arguments)


def folders(*names: str) -> tuple[str, ...]:
    """Return the command of all tests of folders, with whole matrices and slow tests, in two processes."""
    return tests("-n", "2", "-m", "not alone", *(f"tests/{name}" for name in names))


def cargo(workspace: str) -> tuple[str, ...]:
    """Return the command of the Rust tests of a workspace that CI does not build."""
    return ("cargo", "test", "--quiet", "--locked", "--manifest-path", f"{workspace}/Cargo.toml")


def fresh_environment(name: str) -> tuple[str, ...]:
    """Return the command of tests in a fresh environment."""
    return ("{python}", "tests/fresh_environments.py", name, "{junit}")


def script(name: str, *arguments: str) -> tuple[str, ...]:
    """Return the command of a test script that writes counts."""
    return ("{python}", f"tests/{name}.py", "--record", "{record}", *arguments)


def rust(check: str, *record: str) -> tuple[str, ...]:
    """Return the command of a check of the Rust code with a tool that CI does not have."""
    return ("{python}", "tests/rust_tools.py", check, *record)


def mutants(seed: int) -> tuple[str, ...]:
    """Return the command of ten mutants of all Python code: with few mutants a stop loses little."""
    draw_arguments = ("--seed", str(seed), "--count", "10", "--least", "6", *CODE)
    return script("mutants", "-n", "2", "--nightly", *draw_arguments)


STAGES = (
    Stage("unit", "each piece does what it says", folders("unit")),
    Stage("contract", "every implementation keeps its contract", folders("contract")),
    Stage("parity", "updates are the papers' and Stable-Baselines3's", folders("parity")),
    Stage("property", "properties hold for random inputs", folders("property")),
    Stage("learning", "training reaches the scores", folders("learning")),
    Stage(
        "reliability", "kills, faults and signals change nothing",
        (*folders("reliability"), f"--ignore={GOLDEN}"),
    ),
    Stage("golden", "training gives the recorded numbers on this CPU", tests(GOLDEN)),
    Stage("security", "hostile input is a typed error", folders("security", "meta")),
    Stage("packaging", "wheel and sdist work without the checkout", folders("packaging")),
    Stage("tensor-libraries", "the engines of Candle and Burn keep the contract", cargo(LIBRARIES)),
    Stage("fuzz", "no file makes its reader panic or hang", rust("fuzz", "--record", "{record}")),
    Stage("deny", "dependencies are as deny.toml says", rust("deny", "--record", "{record}")),
    Stage("miri", "unsafe copies and claims to memory are sound", rust("miri", "--record", "{record}")),
    Stage("alone", "tests that need the machine to themselves", tests("-m", "alone", "tests")),
    Stage("envpool", "the tests that need EnvPool", fresh_environment("envpool")),
    Stage("sb3-contrib", "the tests that need sb3-contrib", fresh_environment("sb3-contrib")),
    Stage("python3.12", "the wheel under Python 3.12", fresh_environment("python3.12")),
    Stage("python3.13", "the wheel under Python 3.13", fresh_environment("python3.13")),
    Stage("python3.14", "the wheel under Python 3.14", fresh_environment("python3.14")),
    Stage(
        "lowest",
        "the lowest versions of the packages that rlox needs in any case",
        fresh_environment("lowest"),
    ),
    Stage("negative-controls", "tests notice broken algorithms", script("negative_controls", "-n", "2")),
    *(
        Stage(f"mutants-{seed}", "tests notice changes of the code", mutants(seed))
        for seed in (1, 2, 3)
    ),
)  # fmt: skip


def counts(junit: Path, record: Path) -> dict[str, Any]:
    """Return how many tests passed, failed and were skipped, the failed ones, and a script's counts."""
    entry: dict[str, Any] = {}
    with contextlib.suppress(OSError, ElementTree.ParseError):
        cases = list(ElementTree.parse(junit).iter("testcase"))

        def cases_with(*kinds: str) -> list[str]:
            return [
                f"{case.get('classname')}::{case.get('name')}"
                for case in cases
                if any(case.find(kind) is not None for kind in kinds)
            ]

        failed, skipped = cases_with("failure", "error"), len(cases_with("skipped"))
        passed = len(cases) - len(failed) - skipped
        entry = {"passed": passed, "failed": len(failed), "skipped": skipped}
        entry |= {"failures": failed[:MAX_NAMED_FAILURES]} if failed else {}
    with contextlib.suppress(OSError, json.JSONDecodeError):
        entry["counts"] = json.loads(record.read_text(encoding="utf-8"))
    return entry


def stop(child: subprocess.Popen[bytes]) -> None:
    """End a stage and its children."""
    for number in (signal.SIGINT, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(GRACE)


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into an exit that stops the stage too."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    for number in handlers:
        signal.signal(number, lambda received, _: sys.exit(128 + received))
    try:
        yield
    finally:
        for number, previous in handlers.items():
            signal.signal(number, previous)


def exit_code(command: Sequence[str], root: Path, log: Path, seconds: float) -> int | None:
    """Run a command with output to `log`; return its exit code, or None if it was stopped after `seconds`."""
    env = os.environ | {"RLOX_NIGHTLY": "1", "CI": os.environ.get("CI", "true")}
    with log.open("wb") as out:
        child = subprocess.Popen(
            command, cwd=root, env=env, stdin=subprocess.DEVNULL, stdout=out,
            stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=_heed_interrupts,
        )  # fmt: skip
    try:
        return child.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if child.returncode is None:
            stop(child)


def _heed_interrupts() -> None:
    """Handle SIGINT again, because a shell makes a background job ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def cpu_seconds() -> float:
    """Return the CPU seconds of all children that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run(stage: Stage, root: Path, seconds: float = SECONDS) -> dict[str, Any]:
    """Run a stage and return its entry in the report."""
    folder = root / CACHE
    folder.mkdir(parents=True, exist_ok=True)
    files = {
        kind: folder / f"{stage.name}.{suffix}" for kind, suffix in (("junit", "xml"), ("record", "json"))
    }
    for file in files.values():
        file.unlink(missing_ok=True)
    log = folder / f"{stage.name}.log"
    substitutions = {"python": sys.executable, **{kind: str(path) for kind, path in files.items()}}
    start, cpu_before, code_state = time.monotonic(), cpu_seconds(), code(root, REPORTS)
    outcomes: dict[int | None, str] = {0: "passed", NOT_AVAILABLE: "not available"}
    status = exit_code([argument.format(**substitutions) for argument in stage.command], root, log, seconds)
    entry = {
        "outcome": outcomes.get(status, "failed"),
        **counts(**files),
        "seconds": round(time.monotonic() - start, 1),
        "cpu_seconds": round(cpu_seconds() - cpu_before, 1),
        **code_state,
        "machine": machine(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    if status is None:
        entry["why"] = f"stopped after {seconds:g} s"
    elif status:
        last_lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
        # The report contains no folders of this machine.
        entry["why"] = re.sub(r"(?<![\w.])/\S*/", "", last_lines[0]) if last_lines else f"exit code {status}"
    return entry


def entries(root: Path) -> dict[str, dict[str, Any]]:
    """Return the entry of each stage in the report."""
    try:
        report: dict[str, dict[str, Any]] = json.loads((root / REPORT).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return report


def add(root: Path, name: str, entry: dict[str, Any]) -> None:
    """Replace a stage's entry; a reader sees the report before or after the change, never a part."""
    text = json.dumps(dict(sorted({**entries(root), name: entry}.items())), indent=1)
    temporary = root / REPORT.with_suffix(".new")
    temporary.write_text(text + "\n", encoding="utf-8")
    temporary.replace(root / REPORT)


def has_ended(entry: Mapping[str, Any], tree: str) -> bool:
    """Return whether a stage ended with this code on such a machine; a missing part may exist now."""
    tree_and_machine = entry.get("tree"), entry.get("machine")
    return tree_and_machine == (tree, machine()) and entry["outcome"] != "not available"


def row(name: str, entry: Mapping[str, Any], tree: str) -> str:
    """Return a line of the table; if the entry's code is not `tree`, it names the commit."""
    if not entry:
        return f"{name:<18} not run"
    cells = [f"{entry['outcome']:<14}"]
    cells += [f"{entry[kind]:>6} {kind}" for kind in ("passed", "failed", "skipped") if kind in entry]
    cells += [f"{key} {value}" for key, value in entry.get("counts", {}).items() if isinstance(value, int)]
    cells += [f"{entry['seconds'] / 60:.1f} min, {entry['cpu_seconds'] / 60:.1f} CPU min"]
    cells += [] if entry["tree"] == tree else [f"of {entry['commit'][:8]}{' + changes' * entry['changed']}"]
    cells += [entry["why"]] if "why" in entry else []
    return f"{name:<18} {'  '.join(cells)}"


def arguments(argv: Sequence[str], names: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("nightly", description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "stages", nargs="*",
        help=f"of {', '.join(names)}; default: stages without a result for this code and machine",
    )  # fmt: skip
    parser.add_argument("--list", action="store_true", help="list the stages, run nothing")
    parser.add_argument("--again", action="store_true", help="run finished stages again")
    options = parser.parse_args(argv)
    if unknown := [name for name in options.stages if name not in names]:
        parser.error(f"no stage {', '.join(unknown)}: expected {', '.join(names)}")
    return options


def main(argv: Sequence[str], stages: Sequence[Stage] = STAGES, root: Path = TESTS.parent) -> int:
    """Run the requested stages and print how all stages ended."""
    by_name = {stage.name: stage for stage in stages}
    options = arguments(argv, list(by_name))
    tree = code(root, REPORTS)["tree"]
    if options.list:
        for stage in stages:
            print(f"{stage.name:<18} {stage.shows}")
            print(f"{'':<18} {row('', entries(root).get(stage.name, {}), tree).strip()}")
        return 0
    with stoppable():
        for name in options.stages or by_name:
            if has_ended(entries(root).get(name, {}), tree) and not (options.again or options.stages):
                print(f"== {name}: has ended with this code on this machine", flush=True)
                continue
            print(f"== {name}: {by_name[name].shows} ({CACHE / f'{name}.log'})", flush=True)
            add(root, name, run(by_name[name], root))
    outcomes = {name: entries(root).get(name, {}) for name in options.stages or by_name}
    print("\n".join(["", *(row(name, entry, tree) for name, entry in outcomes.items())]))
    return int(any(entry["outcome"] == "failed" for entry in outcomes.values()))


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        print("nightly: stopped; the report has the stages that had ended", file=sys.stderr)
        sys.exit(130)
