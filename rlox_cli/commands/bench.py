"""`rlox bench`: compare speed with other libraries, and find what became slower since an earlier run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlox_cli.bench.config import SUITES, BenchConfig, bench_config
from rlox_cli.config.schema import Group, Schema
from rlox_cli.shell.command import Call, Command
from rlox_cli.shell.exit_codes import FAILED, OK, SIGNALS, STORAGE, WRONG_USE

if TYPE_CHECKING:
    from omegaconf import DictConfig

SCHEMA = Schema("bench", BenchConfig, primary="bench", groups=(Group("suite", SUITES),))


def check(composed: DictConfig) -> BenchConfig:
    """Return the validated configuration of one measurement."""
    from rlox_cli.config import validate

    return bench_config(validate.checked_data(composed, SCHEMA))


def _run(call: Call) -> int:
    from rlox_cli.bench.session import run_bench
    from rlox_cli.config import compose

    codes: list[int] = []
    compose.run(call, lambda composed: codes.append(run_bench(check(composed))))
    return max(codes, default=OK)  # empty if Hydra only printed something


COMMAND = Command(
    name="bench",
    summary="compare speed with other libraries and with an earlier run",
    description=(
        "Measures a suite of cases, and compares it with other libraries and with yardsticks, work that\n"
        "never changes. With baseline=FILE, the out= of an earlier run on this kind of machine, it names\n"
        "the cases that became slower; if there are any, it exits with 1."
    ),
    examples=(
        "rlox bench suite=ci",
        "rlox bench suite=ci baseline=before.json",
    ),
    schema=SCHEMA,
    codes=(OK, FAILED, WRONG_USE, STORAGE, *SIGNALS),
    failure_meaning="something became slower",
    check=check,
    run=_run,
)
