"""`rlox evaluate`: play a saved policy and write every episode's return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlox.configs.params import param
from rlox_cli.command import Call, Command
from rlox_cli.exit_codes import ENVIRONMENT, FAILED, OK, SIGINT, SIGTERM, STORAGE, WRONG_USE
from rlox_cli.schema import Schema

if TYPE_CHECKING:
    from omegaconf import DictConfig


@dataclass(frozen=True)
class EvaluateConfig:
    """What `rlox evaluate` takes."""

    run: str = param(doc="the run folder to evaluate", path=True)
    checkpoint: str = param(
        "last", "last, best or the name of a checkpoint, e.g. step-000000100352"
    )
    episodes: int = param(50, "episodes; all are finished and counted", within="[1, inf)")
    seed: int = param(
        100_000, "episode i starts from reset(seed=seed + i)", within="[0, 2147483647]"
    )
    video: bool = param(False, "also film the first episode, as mp4 under videos/")


SCHEMA = Schema("evaluate", EvaluateConfig, primary="evaluate")


def check(composed: DictConfig) -> EvaluateConfig:
    """The validated configuration of one evaluation."""
    from rlox.configs import make
    from rlox_cli import validate

    return make(EvaluateConfig, validate.known_data(composed, SCHEMA))


def _run(call: Call) -> int:
    from rlox_cli import compose
    from rlox_cli.evaluation import evaluate_run

    compose.run(call, lambda composed: evaluate_run(check(composed)))
    return OK


COMMAND = Command(
    name="evaluate",
    summary="play the policy of a run and write every return",
    notes="Plays the policy of a run and writes every return to RUN/eval/<checkpoint>.json.",
    examples=("rlox evaluate run=runs/CartPole-v1/ppo/NAME episodes=100",),
    schema=SCHEMA,
    codes=(OK, FAILED, WRONG_USE, ENVIRONMENT, STORAGE, SIGINT, SIGTERM),
    check=check,
    run=_run,
)
