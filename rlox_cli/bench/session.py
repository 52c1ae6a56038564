"""One use of `rlox bench`: passes, a comparison, and a second look at whatever became slower."""

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
from rlox.configs.check import plain
from rlox.disk import replace_file
from rlox.errors import ConfigError, StorageError
from rlox_cli.bench import process, table
from rlox_cli.bench.config import BenchConfig
from rlox_cli.bench.gate import NOISY, SLOWER, UNPROVEN, Verdict, comparable_counts, judge
from rlox_cli.bench.record import Baseline, Record, read_baseline
from rlox_cli.exit_codes import FAILED, OK
from rlox_cli.provenance import git_state
from rlox_cli.signals import Interrupted

AGAIN = 2  # times as many rounds in the second look
CHECKOUT = "Cargo.toml"  # beside rlox_cli it is a checkout, elsewhere a commit is somebody else's


def bench(config: BenchConfig) -> int:
    """Measure, write and compare; the exit code."""
    baseline = read_baseline(Path(config.baseline)) if config.baseline else None
    if baseline and baseline.suite != config.suite.name:
        raise ConfigError(
            f"baseline={config.baseline}: of suite={baseline.suite}, not {config.suite.name}; "
            "a case is held against the same case only"
        )
    if config.cases:
        print("\n".join(_names(config)))
        return OK
    for path in filter(None, (config.out, config.summary)):
        _require_writable(Path(path))
    record = _new_record(config)
    with _partial(record, config):
        for number in range(config.suite.passes):
            _pass(record, config, number)
        if config.instructions:
            _count(record, config)
        verdicts = _verdicts(record, baseline, config) if baseline else []
    shown = table.render(record, verdicts, baseline)
    replace_file(Path(config.out), (json.dumps(record.document(), indent=1) + "\n").encode())
    print(shown)
    if config.summary:
        _append(Path(config.summary), shown)
    return FAILED if any(verdict.state == SLOWER for verdict in verdicts) else OK


def _new_record(config: BenchConfig) -> Record:
    root = Path(__file__).resolve().parents[2]
    git = git_state(root) if (root / CHECKOUT).is_file() else None
    commit = None if git is None else f"{git['sha']}{' with changes' if git['dirty'] else ''}"
    date = datetime.now(UTC).isoformat(timespec="seconds")
    return Record(config.suite.name, plain(config.suite), date, commit)


def _names(config: BenchConfig) -> list[str]:
    (event,) = process.events(_request(config, "list"))
    return list(_chosen(event, config))


def _request(config: BenchConfig, mode: str, **more: Any) -> dict[str, Any]:
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
        **more,
    }


def _chosen(event: dict[str, Any], config: BenchConfig) -> list[str]:
    """The cases that a process is about to measure; `ConfigError` if there is none."""
    if not event["names"]:
        raise ConfigError(
            f"only={config.only}: no case of suite={config.suite.name} has that in its name"
            f"{nearest(str(config.only), event['known'])}; rlox bench cases=true names them"
        )
    return list(event["names"])


def _pass(record: Record, config: BenchConfig, number: int) -> None:
    """One process that measures every case."""
    begun = time.monotonic()
    for event in process.events(_request(config, "measure", first=number == 0)):
        if event["event"] == "cases":
            names = _chosen(event, config)
            record.absent = event["absent"]
        elif event["event"] == "about":
            record.machine, record.versions = event["machine"], event["versions"]
        else:
            record.case(event["name"]).add(event)
    took = time.monotonic() - begun
    _say(f"pass {number + 1} of {config.suite.passes}: {len(names)} cases, {took:.0f} s")


def _count(record: Record, config: BenchConfig) -> None:
    """Instructions of the cases that run without torch."""
    if process.valgrind() is None:
        _say("instructions are not counted: valgrind is not installed")
        return
    begun = time.monotonic()
    for event in process.events(_request(config, "count")):
        if event["event"] == "count":
            record.case(event["name"]).instructions = event["instructions"]
    _say(f"instructions counted, {time.monotonic() - begun:.0f} s")


def _verdicts(record: Record, baseline: Baseline, config: BenchConfig) -> list[Verdict]:
    """How each case stands; one that looks slower, or is too noisy to say, is measured once more."""
    counts = comparable_counts(baseline, record.versions, record.machine)

    def judged(of: Record) -> dict[str, Verdict]:
        return {c.name: judge(c, baseline, config.tolerance, counts) for c in of.measured}

    first = judged(record)
    doubtful = [name for name, v in first.items() if v.state in (SLOWER, NOISY, UNPROVEN)]
    if not doubtful:
        return list(first.values())
    _say(f"measuring again, as they look slower or are too noisy: {len(doubtful)} cases")
    again = _second_look(record, config, doubtful)
    return list((first | judged(again)).values())


def _second_look(record: Record, config: BenchConfig, names: Collection[str]) -> Record:
    """As many passes with more rounds, by themselves: what chance did once it seldom does again."""
    again = _new_record(config)
    rounds = AGAIN * config.suite.rounds
    for _ in range(config.suite.passes):
        request = _request(config, "measure", names=list(names), peers=False, rounds=rounds)
        for event in process.events(request):
            if event["event"] == "case":
                again.case(event["name"]).add(event)
    for name in names:
        again.case(name).instructions = record.case(name).instructions
    return again


@contextmanager
def _partial(record: Record, config: BenchConfig) -> Iterator[None]:
    """What a signal leaves is shown, and written nowhere: a baseline has to be whole."""
    try:
        yield
    except Interrupted:
        passes = min((len(c.passes["cpu"]) for c in record.cases.values()), default=0)
        if record.measured:
            print(table.render(record, [], None))
        _say(f"stopped with {passes} of {config.suite.passes} passes; nothing was written")
        raise


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _require_writable(path: Path) -> None:
    """`StorageError` before minutes are spent on what cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        made = not path.exists()
        with path.open("ab"):
            pass
        if made:
            path.unlink()
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}") from error


def _append(path: Path, text: str) -> None:
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(text + "\n")
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}") from error
