"""`rlox report`: write a page, figures and tables of runs, from their logs alone."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlox.configs.params import param
from rlox.errors import ConfigError
from rlox_cli.config.schema import Schema
from rlox_cli.shell.command import Call, Command
from rlox_cli.shell.exit_codes import FAILED, OK, SIGNALS, STORAGE, WRONG_USE

if TYPE_CHECKING:
    from omegaconf import DictConfig

LIST_KEYS = ("runs", "formats")
FORMATS = ("png", "pdf", "svg")
# keys below which the user chooses the names
OPEN_KEY = re.compile(r"^\+*(?P<key>baseline|ranges)(?P<rest>[.=])")


@dataclass(frozen=True)
class ReportConfig:
    """Arguments of `rlox report`."""

    runs: tuple[str, ...] = param(
        doc="run folders, sweep folders, folders of these, other programs' logs; runs= may be left out"
    )
    baseline: dict[str, Any] = param(
        doc="runs to compare with, by name: baseline.SB3=FOLDER, or {path, env, algo, pattern, ...}",
        default_factory=dict,
    )
    out: str | None = param(
        None,
        "the output folder; null: report/ in the given folder, or here if several paths or a file are given",
        verbatim=True,
    )
    title: str | None = param(None, "title of the page", verbatim=True)
    expected: str | None = param(
        None, "a file of expected results (numbers); the report compares its own with them", verbatim=True
    )
    strict: bool = param(False, "exit code 1 if an expected result differs or is missing")
    normalize: str = param(
        "minmax",
        "scale of scores over several tasks; minmax: 0 and 1 are each task's lowest and highest run",
        choices=("minmax", "none"),
    )
    ranges: dict[str, Any] = param(
        doc="scores of a task that count as 0 and 1 instead: 'ranges.CartPole-v1=[0,500]'",
        default_factory=dict,
    )
    resamples: int = param(2000, "bootstrap resamples of each interval", within="[100, 1000000]")
    seed: int = param(0, "seed of the bootstrap", within="[0, 2147483647]")
    formats: tuple[str, ...] = param(FORMATS, "formats of the figures beside the page: png, pdf, svg")


SCHEMA = Schema("report", ReportConfig, primary="report")


def check(composed: DictConfig) -> ReportConfig:
    """Return the validated configuration of one report."""
    from rlox.configs import make
    from rlox_cli.config import validate

    config = make(ReportConfig, validate.checked_data(composed, SCHEMA))
    if not config.runs:
        raise ConfigError("runs=[]: name the runs to report: rlox report RUN ...")
    if unknown := [name for name in config.formats if name not in FORMATS]:
        raise ConfigError(f"formats: {unknown[0]}: expected some of {', '.join(FORMATS)}")
    for task, bounds in config.ranges.items():
        _require_range(task, bounds)
    if config.strict and config.expected is None:
        raise ConfigError("strict=true needs expected results; give expected=FILE")
    return config


def rewrite(overrides: Sequence[str], folders: Sequence[Path]) -> Iterator[str]:
    """Yield the overrides in Hydra's syntax.

    The user chooses the names of baselines and tasks, so these keys are new to Hydra and need `++`.
    """
    from rlox_cli.config.verbatim import quote

    for override in overrides:
        name, _, value_text = override.lstrip("+").partition("=")
        if name in LIST_KEYS and value_text[:1] == "{":  # Hydra's error would be unclear
            raise ConfigError(f"{override}: expected a list, e.g. {name}=[...]")
        match = OPEN_KEY.match(override)
        if not match:
            yield override
            continue
        key, _, value = override.lstrip("+").partition("=")
        is_path = match["key"] == "baseline" and match["rest"] == "." and value[:1] != "{"
        yield f"++{key}={quote(value) if is_path else value}"


def _require_range(task: str, bounds: Any) -> None:
    are_numbers = isinstance(bounds, list) and all(
        isinstance(end, int | float) and not isinstance(end, bool) for end in bounds
    )
    if not are_numbers or len(bounds) != 2 or not bounds[0] < bounds[1]:
        raise ConfigError(f"ranges.{task}={bounds}: expected [LOW, HIGH], e.g. [0, 500]")


def _run(call: Call) -> int:
    from rlox_cli.config import compose
    from rlox_cli.config.verbatim import quote, quote_existing_path

    flags, arguments = compose.split_flags(call.args, call.command)
    paths = [
        a
        for a in arguments
        # `Path` raises for text that is longer than a file name may be
        if os.path.exists(a) or ("=" not in a and (a[:1] not in "~+" or a[:2] == "~/"))  # noqa: PTH110
    ]
    rest = [*flags, *(a for a in arguments if a not in paths)]
    if paths and any(argument.startswith("runs=") for argument in rest):
        raise ConfigError(f"{paths[0]} and runs= both name runs; name all of them without runs=")
    if paths:
        rest.append(f"runs=[{','.join(map(quote, map(quote_existing_path, paths)))}]")
    codes: list[int] = []

    def report(composed: DictConfig) -> None:
        from rlox_cli.report import build

        codes.append(build.report(check(composed)))

    compose.run(replace(call, args=rest), report)
    return max(codes, default=OK)


COMMAND = Command(
    name="report",
    summary="write a page, figures and tables of runs, from their logs",
    description=(
        "Reads the logs of runs, of rlox or other programs, and writes report.html, which needs no network,\n"
        "and figures, tables and report.json beside it. Nothing is trained or played."
    ),
    examples=(
        "rlox report runs/sweeps/NAME",
        "rlox report runs/sweeps/NAME baseline.SB3=logs/sb3 out=report",
    ),
    schema=SCHEMA,
    codes=(OK, FAILED, WRONG_USE, STORAGE, *SIGNALS),
    check=check,
    run=_run,
    rewrite=rewrite,
    usage_arguments="RUN_OR_SWEEP ...",
)
