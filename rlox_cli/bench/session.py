"""One `rlox bench`: measure passes, compare, and measure again what became slower."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rlox.configs import nearest
from rlox.configs.check import to_plain
from rlox.disk import replace_file
from rlox.errors import ConfigError, StorageError
from rlox_cli.bench import process, table
from rlox_cli.bench.config import BenchConfig
from rlox_cli.bench.gate import NOISY, SLOWER, UNPROVEN, BaselineVerdict, comparable_counts, judge
from rlox_cli.bench.record import Baseline, BenchRecord, read_baseline
from rlox_cli.runs.provenance import git_state
from rlox_cli.runs.signals import SignalInterrupt
from rlox_cli.shell.exit_codes import FAILED, OK

REMEASURE_FACTOR = 2  # times as many rounds in the second measurement
CHECKOUT_FILE = "Cargo.toml"  # beside rlox_cli in a checkout; without it, a commit is another project's


def run_bench(config: BenchConfig) -> int:
    """Measure, write and compare; return the exit code."""
    baseline = read_baseline(Path(config.baseline)) if config.baseline else None
    if baseline and baseline.suite != config.suite.name:
        raise ConfigError(
            f"baseline={config.baseline}: it is of suite={baseline.suite}, not {config.suite.name}; "
            "only the same cases can be compared"
        )
    if config.cases:
        print("\n".join(_case_names(config)))
        return OK
    for path in filter(None, (config.out, config.summary)):
        _require_writable(Path(path))
    record = _new_record(config)
    with _print_partial_on_signal(record, config):
        for number in range(config.suite.passes):
            _run_pass(record, config, number)
        if config.instructions:
            _count_instructions(record, config)
        verdicts = _verdicts(record, baseline, config) if baseline else []
    text = table.render(record, verdicts, baseline)
    replace_file(Path(config.out), (json.dumps(record.to_dict(), indent=1) + "\n").encode())
    print(text)
    if config.summary:
        _append(Path(config.summary), text)
    return FAILED if any(verdict.state == SLOWER for verdict in verdicts) else OK


def _new_record(config: BenchConfig) -> BenchRecord:
    root = Path(__file__).resolve().parents[2]
    git = git_state(root) if (root / CHECKOUT_FILE).is_file() else None
    commit = None if git is None else f"{git['sha']}{' with changes' if git['dirty'] else ''}"
    date = datetime.now(UTC).isoformat(timespec="seconds")
    return BenchRecord(config.suite.name, to_plain(config.suite), date, commit)


def _case_names(config: BenchConfig) -> list[str]:
    (event,) = process.run_request(_request(config, "list"))
    return list(_selected_cases(event, config))


def _request(config: BenchConfig, mode: str, **fields: Any) -> dict[str, Any]:
    suite = config.suite
    return {
        "suite": suite.name,
        "mode": mode,
        "only": config.only,
        "names": None,
        "rounds": suite.rounds,
        "sample_seconds": suite.sample_ms / 1e3,
        "peers": True,
        "first": False,
        **fields,
    }


def _selected_cases(event: dict[str, Any], config: BenchConfig) -> list[str]:
    """Return the cases that a process is about to measure; raise `ConfigError` if there is none."""
    if not event["names"]:
        raise ConfigError(
            f"only={config.only}: no case of suite={config.suite.name} has that in its name"
            f"{nearest(str(config.only), event['known'])}; rlox bench cases=true names them"
        )
    return list(event["names"])


def _run_pass(record: BenchRecord, config: BenchConfig, number: int) -> None:
    """Measure every case in one process."""
    start = time.monotonic()
    for event in process.run_request(_request(config, "measure", first=number == 0)):
        if event["event"] == "cases":
            names = _selected_cases(event, config)
            record.absent = event["absent"]
        elif event["event"] == "about":
            record.machine, record.versions = event["machine"], event["versions"]
        else:
            record.case_measurements(event["name"]).add(event)
    took = time.monotonic() - start
    _print_progress(f"pass {number + 1} of {config.suite.passes}: {len(names)} cases, {took:.0f} s")


def _count_instructions(record: BenchRecord, config: BenchConfig) -> None:
    """Count the instructions of the cases that run without torch."""
    if process.find_valgrind() is None:
        _print_progress("instructions are not counted: valgrind is not installed")
        return
    start = time.monotonic()
    for event in process.run_request(_request(config, "count")):
        if event["event"] == "count":
            record.case_measurements(event["name"]).instructions = event["instructions"]
    _print_progress(f"instructions counted, {time.monotonic() - start:.0f} s")


def _verdicts(record: BenchRecord, baseline: Baseline, config: BenchConfig) -> list[BaselineVerdict]:
    """Return a verdict for each case; measure again the cases that look slower or are too noisy."""
    counts = comparable_counts(baseline, record.versions, record.machine)

    def judge_all(cases_record: BenchRecord) -> dict[str, BaselineVerdict]:
        return {c.name: judge(c, baseline, config.tolerance, counts) for c in cases_record.measured_cases}

    first = judge_all(record)
    doubtful = [name for name, v in first.items() if v.state in (SLOWER, NOISY, UNPROVEN)]
    if not doubtful:
        return list(first.values())
    _print_progress(f"measuring {len(doubtful)} cases again, as they look slower or are too noisy")
    second_record = _measure_again(record, config, doubtful)
    return list((first | judge_all(second_record)).values())


def _measure_again(record: BenchRecord, config: BenchConfig, names: Collection[str]) -> BenchRecord:
    """Measure some cases alone, in as many passes with more rounds: chance seldom repeats itself."""
    second_record = _new_record(config)
    rounds = REMEASURE_FACTOR * config.suite.rounds
    for _ in range(config.suite.passes):
        request = _request(config, "measure", names=list(names), peers=False, rounds=rounds)
        for event in process.run_request(request):
            if event["event"] == "case":
                second_record.case_measurements(event["name"]).add(event)
    for name in names:
        second_record.case_measurements(name).instructions = record.case_measurements(name).instructions
    return second_record


@contextmanager
def _print_partial_on_signal(record: BenchRecord, config: BenchConfig) -> Iterator[None]:
    """After a signal print partial results, but write no file: a baseline has to be whole."""
    try:
        yield
    except SignalInterrupt:
        passes = min((len(c.passes["cpu"]) for c in record.cases.values()), default=0)
        if record.measured_cases:
            print(table.render(record, [], None))
        _print_progress(f"stopped with {passes} of {config.suite.passes} passes; nothing was written")
        raise


def _print_progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _require_writable(path: Path) -> None:
    """Raise `StorageError` for a file that cannot be written, before minutes of measuring."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        is_new = not path.exists()
        with path.open("ab"):
            pass
        if is_new:
            path.unlink()
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}") from error


def _append(path: Path, text: str) -> None:
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(text + "\n")
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}") from error
