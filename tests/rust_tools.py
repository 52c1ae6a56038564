"""Checks of the Rust code with tools that CI does without: a fuzzer, cargo-deny, miri.

    python tests/rust_tools.py fuzz --record RECORD [--runs N] [--seconds S] [TARGET ...]
    python tests/rust_tools.py deny --record RECORD
    python tests/rust_tools.py miri --record RECORD

The script installs a missing tool below `.cache/cargo`, and a part of the nightly toolchain by rustup. If
that fails, it prints a line that begins with `not available:` and exits with code 69.

`fuzz` runs each target of `rust/fuzz` on its corpus and on N inputs made from it, for at most S seconds. An
input that ends in a panic, or takes 10 s or a gigabyte, is a finding: the script leaves it in `.cache/fuzz`,
with the target's name first. The campaign of a release uses `--runs 10000000`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from fresh_environments import NOT_AVAILABLE, NotAvailableError, command_output  # noqa: E402

FUZZ = ROOT / "rust/fuzz"
TOOLS = ROOT / ".cache/cargo"
FINDINGS = ROOT / ".cache/fuzz"
RUNS, SECONDS = 1_000_000, 900
MAX_INPUT_BYTES = 8192  # larger than the inputs of the corpus
# libFuzzer's exit code for the input that ended it.
HANG_EXIT_CODE = 70
LIMITS = ("-timeout=10", f"-timeout_exitcode={HANG_EXIT_CODE}", "-rss_limit_mb=1024")
# The workspaces; each has its own lock file.
MANIFESTS = ("Cargo.toml", "rust/tensor-libraries/Cargo.toml", "rust/fuzz/Cargo.toml")
# Miri runs these: the streaming copies of rows, and the claims to NumPy's memory.
MIRI_TESTS = (("rlox-core", "--lib", "row_copy"), ("rlox-python", "--test=claims_model", "claims"))


def environment() -> dict[str, str]:
    """Return the variables for the tools, with the tools installed here in the path."""
    return os.environ | {"PATH": f"{TOOLS / 'bin'}{os.pathsep}{os.environ['PATH']}"}


def run(*command: str | Path, cwd: Path = ROOT) -> int:
    """Run a command with the output of this process and return its exit code."""
    print("+", *command, flush=True)
    return subprocess.run(command, cwd=cwd, env=environment(), check=False).returncode


def need_nightly() -> None:
    if not command_output("cargo", "+nightly", "--version"):
        raise NotAvailableError("no nightly toolchain: `rustup toolchain install nightly`")


def need_tool(name: str) -> None:
    """Install a subcommand of cargo if it is missing."""
    if shutil.which(name, path=environment()["PATH"]) is None and run(
        "cargo", "install", "--quiet", "--locked", "--root", TOOLS, name
    ):
        raise NotAvailableError(f"{name} is not installed, and cargo could not install it")


def targets() -> list[str]:
    """Return the names of the fuzz targets."""
    bins = tomllib.loads((FUZZ / "Cargo.toml").read_text(encoding="utf-8"))["bin"]
    return [entry["name"] for entry in bins if entry["path"].startswith("targets/")]


def count_executions(output: str) -> int:
    """Return how many inputs libFuzzer tried, from its output."""
    matches = re.findall(r"^stat::number_of_executed_units:\s*(\d+)", output, re.M)
    numbers = matches or re.findall(r"^#(\d+)", output, re.M)
    return int(numbers[-1]) if numbers else 0


def fuzz_target(name: str, runs: int, seconds: int) -> tuple[int, int]:
    """Return the number of executions and the exit code of a target."""
    host = re.findall(r"^host: (.*)$", command_output("rustc", "+nightly", "-vV"), re.M)[0]
    target_folder = FINDINGS / name
    target_folder.mkdir(parents=True, exist_ok=True)
    bounds = (
        f"-runs={runs}",
        f"-max_total_time={seconds}",
        f"-max_len={MAX_INPUT_BYTES}",
        "-seed=1",
    )
    command = (
        FUZZ / "target" / host / "release" / name, target_folder, FUZZ / "corpus" / name,
        f"-artifact_prefix={FINDINGS / name}-", "-print_final_stats=1", *bounds, *LIMITS,
    )  # fmt: skip
    print("+", *command, flush=True)
    process = subprocess.run(command, cwd=FINDINGS, stderr=subprocess.PIPE, text=True, check=False)
    print(process.stderr[-4000:], flush=True)
    return count_executions(process.stderr), process.returncode


def fuzz(names: Sequence[str], runs: int, seconds: int) -> dict[str, object]:
    need_nightly()
    need_tool("cargo-fuzz")
    # Built without a sanitizer, which makes it twice as fast. The code is safe except for functions that no
    # target reaches.
    if run("cargo", "+nightly", "fuzz", "build", "--fuzz-dir", FUZZ, "-s", "none"):
        raise SystemExit("the fuzz targets do not build")
    executions: dict[str, int] = {}
    crashes = hangs = 0
    for name in names or targets():
        executions[name], code = fuzz_target(name, runs, seconds)
        if code == 0 and not executions[name]:
            raise SystemExit(f"the fuzz target {name} tried no input")
        hangs += code == HANG_EXIT_CODE
        crashes += code not in (0, HANG_EXIT_CODE)
    total = sum(executions.values())
    return {"executions": total, "crashes": crashes, "hangs": hangs, "of": executions}


def deny() -> dict[str, object]:
    """Check licences, sources and bans of every workspace, and advisories if the database can be fetched.

    The working directory selects deny.toml, because the place of the option for it differs between versions
    of cargo-deny.
    """
    need_tool("cargo-deny")
    failed = n_checked = 0
    for manifest in MANIFESTS:
        deny_command = ("cargo", "deny", "--locked", "--manifest-path", manifest)
        failed += run(*deny_command, "check", "bans", "licenses", "sources") != 0
        has_advisories = run(*deny_command, "fetch", "db") == 0
        n_checked += has_advisories
        failed += has_advisories and run(*deny_command, "check", "advisories") != 0
    if n_checked < len(MANIFESTS):
        print("not available: the database of advisories, which cargo-deny could not fetch")
    return {"workspaces": len(MANIFESTS), "failures": failed, "advisories_checked": n_checked}


def miri() -> dict[str, object]:
    need_nightly()
    if not command_output("cargo", "+nightly", "miri", "--version") and run(
        "rustup", "component", "add", "miri", "rust-src", "--toolchain", "nightly"
    ):
        raise NotAvailableError("no miri: `rustup component add miri rust-src --toolchain nightly`")
    passed = {tests[0]: run_miri_tests(*tests) for tests in MIRI_TESTS}
    return {"passed": passed, "failures": sum(not count for count in passed.values())}


def run_miri_tests(*tests: str) -> int:
    """Return how many tests passed under miri; 0 if one failed, or if no test has that name."""
    command = ("cargo", "+nightly", "miri", "test", "--locked", "-p", *tests)
    print("+", *command, flush=True)
    process = subprocess.run(
        command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True, check=False
    )
    print(process.stdout, flush=True)
    passed = sum(map(int, re.findall(r"^test result: ok\. (\d+) passed", process.stdout, re.M)))
    return passed if process.returncode == 0 else 0


def main(argv: Sequence[str]) -> int:
    """Run a check; return 1 if it found something, `NOT_AVAILABLE` if its tool is missing."""
    parser = argparse.ArgumentParser("rust_tools", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("check", choices=("fuzz", "deny", "miri"), help="which tool")
    parser.add_argument(
        "targets", nargs="*", choices=[[], *targets()], metavar="TARGET",
        help="fuzz targets; default: all",
    )  # fmt: skip
    parser.add_argument("--record", type=Path, help="file for the counts, as JSON")
    parser.add_argument("--runs", type=int, default=RUNS, help="inputs of each target")
    parser.add_argument("--seconds", type=int, default=SECONDS, help="time limit of each target")
    options = parser.parse_args(argv)
    try:
        if options.check == "fuzz":
            counts = fuzz(options.targets, options.runs, options.seconds)
        else:
            counts = {"deny": deny, "miri": miri}[options.check]()
    except NotAvailableError as error:
        print(f"not available: {error}")
        return NOT_AVAILABLE
    print(json.dumps(counts))
    if options.record:
        options.record.write_text(json.dumps(counts), encoding="utf-8")
    return int(any(counts.get(kind) for kind in ("crashes", "hangs", "failures")))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
