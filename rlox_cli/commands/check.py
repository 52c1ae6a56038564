"""`rlox check`: look for errors in an environment."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from rlox.configs import EnvConfig
from rlox.configs.params import param
from rlox_cli.config.run_schema import ENV, single_env_rewriter
from rlox_cli.config.schema import Schema
from rlox_cli.shell.command import Call, Command
from rlox_cli.shell.exit_codes import FAILED, OK, SIGNALS, STORAGE, WRONG_USE

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from rlox.envs.check.findings import Finding
    from rlox.envs.check.run_checks import CheckResult

WIDTH = 100


def check_environment(config: CheckConfig) -> int:
    """Check the environment, print each finding as soon as it is known, and return the number of errors."""
    from rlox.envs.check.subprocess_check import check_in_subprocess  # slow to import

    on_finding = (lambda finding: None) if config.json else _print_finding
    result = check_in_subprocess(config.env, config.steps, config.seed, on_finding)
    if config.json:
        print(json.dumps(_document(config, result), indent=2))
    else:
        print("\n".join(_closing_lines(config, result)))
    return result.errors


def _print_finding(finding: Finding) -> None:
    print(f"{finding.severity:<7}  {finding.code}")
    print(textwrap.indent("\n".join(textwrap.wrap(finding.message, WIDTH - 9)), " " * 9), flush=True)


def _closing_lines(config: CheckConfig, result: CheckResult) -> Iterator[str]:
    """Yield the spaces, the suitable algorithms and the counts of findings, steps and episodes."""
    if result.observation_space:
        yield f"observations  {result.observation_space}"
        yield f"actions       {result.action_space}"
        suitable_algorithms = [name for name, reason in result.algorithms.items() if not reason]
        yield f"algorithms    {', '.join(suitable_algorithms) or 'none'}"
    warnings = len(result.findings) - result.errors
    counts_text = ", ".join(
        f"{n} {noun}{'s' * (n > 1)}" for n, noun in ((result.errors, "error"), (warnings, "warning")) if n
    )
    played_text = (
        f"{_count_text(result.steps, 'step')}, {_count_text(result.episodes, 'episode')}, seed {config.seed}"
    )
    yield (
        f"{config.env.id}: {counts_text or 'nothing found'} ({played_text if result.steps else 'not played'})"
    )


def _count_text(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'s' * (n != 1)}"


def _document(config: CheckConfig, result: CheckResult) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "env": config.env.id,
        "seed": config.seed,
        "steps": result.steps,
        "episodes": result.episodes,
        "errors": result.errors,
        "warnings": len(result.findings) - result.errors,
        "observation_space": result.observation_space or None,
        "action_space": result.action_space or None,
        "algorithms": {name: reason or None for name, reason in result.algorithms.items()},
        "findings": [asdict(finding) for finding in result.findings],
    }


@dataclass(frozen=True)
class CheckConfig:
    """Arguments of `rlox check`."""

    steps: int = param(
        1000,
        "random steps whose values are all checked; other checks take some hundred more",
        within="[1, inf)",
    )
    seed: int = param(0, "seed of the actions and of the resets", within="[0, 2147483647]")
    json: bool = param(False, "one JSON object on standard output, for programs")
    env: EnvConfig = param(doc="the environment", default_factory=EnvConfig)


SCHEMA = Schema("check", CheckConfig, primary="check", groups=(ENV,))


def check(composed: DictConfig) -> CheckConfig:
    """Return the validated configuration of one check."""
    from rlox.configs import make
    from rlox.envs.engines.factories import require_env
    from rlox_cli.config import validate

    config = make(CheckConfig, validate.checked_data(composed, SCHEMA))
    require_env(config.env)
    return config


def _run(call: Call) -> int:
    from rlox_cli.config import compose

    flags, arguments = compose.split_flags(call.args, call.command)
    args = [*flags, *(f"env={a}" if "=" not in a and a[:1] not in "~+" else a for a in arguments)]
    errors: list[int] = []
    compose.run(
        replace(call, args=args),
        lambda composed: errors.append(check_environment(check(composed))),
    )
    return FAILED if any(errors) else OK


COMMAND = Command(
    name="check",
    summary="look for errors in an environment",
    description=(
        "Plays an environment for some seconds, in a process of its own, and reports its errors and the\n"
        "algorithms that take its spaces. Exits with 1 if there are errors; a warning is about something\n"
        "that works but is probably unintended. env.n_envs, workers, precision and normalize_* have no\n"
        "effect; with env.backend=envpool or ale that engine's game is played."
    ),
    examples=("rlox check env=my_pkg:MyEnv-v0",),
    schema=SCHEMA,
    codes=(OK, FAILED, WRONG_USE, STORAGE, *SIGNALS),
    failure_meaning="an error was found",
    check=check,
    run=_run,
    rewrite=single_env_rewriter(SCHEMA),
    usage_arguments="[ENV]",
    is_print_only=lambda args: True,
)
