"""`rlox check`: look for errors in an environment."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rlox.configs import EnvConfig
from rlox.configs.params import param
from rlox_cli.config.run_schema import ENV, single_env_rewriter
from rlox_cli.config.schema import Schema
from rlox_cli.shell.command import Call, Command
from rlox_cli.shell.exit_codes import FAILED, OK, SIGNALS, STORAGE, WRONG_USE

if TYPE_CHECKING:
    from omegaconf import DictConfig


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
    from rlox_cli.health.env_check import check_environment

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
