"""`rlox evaluate`: play the saved policies of runs and write every episode's return."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlox.configs.params import param
from rlox.errors import ConfigError
from rlox_cli.command import Call, Command
from rlox_cli.exit_codes import ENVIRONMENT, FAILED, OK, SIGNALS, STORAGE, WRONG_USE
from rlox_cli.schema import Schema

if TYPE_CHECKING:
    from omegaconf import DictConfig


@dataclass(frozen=True)
class PlayedEnvConfig:
    """What may differ from the environment of the run."""

    id: str | None = param(None, "another environment, or the run's own again where it names code")
    kwargs: dict[str, Any] = param(
        doc="arguments of the environment, over those of the run: env.kwargs.g=9.8",
        default_factory=dict,
    )


@dataclass(frozen=True)
class EvaluateConfig:
    """What `rlox evaluate` takes."""

    run: str = param(doc="the run folder to evaluate, also without run=", verbatim=True)
    checkpoint: str = param(
        "last", "last, best or the name of a checkpoint, e.g. step-000000100352"
    )
    episodes: int = param(50, "episodes; all are finished and counted", within="[1, inf)")
    seed: int = param(
        100_000, "episode i starts from reset(seed=seed + i)", within="[0, 2147483647]"
    )
    deterministic: bool = param(True, "the best actions; false: sampled ones, keyed by the seed")
    video: bool = param(False, "also film the first episode, as mp4 under videos/")
    render: bool = param(False, "show the episodes in a window while they are played")
    device: str | None = param(None, "cpu, cuda, cuda:N or mps, in place of the run's torch device")
    trust: bool = param(False, "import what the run folder names, module:Name, not repeated here")
    env: PlayedEnvConfig = param(doc="the environment", default_factory=PlayedEnvConfig)


# What lies beside the runs of a sweep, where a shell writes out FOLDER/*.
OF_SWEEPS = ("multirun.yaml", "summary.csv", "summary.md")

SCHEMA = Schema("evaluate", EvaluateConfig, primary="evaluate")


def check(composed: DictConfig) -> EvaluateConfig:
    """The validated configuration of one evaluation."""
    from rlox.configs import make, require_device
    from rlox_cli import validate

    config = make(EvaluateConfig, validate.known_data(composed, SCHEMA))
    if config.device is not None:
        require_device(config.device)
    if not config.deterministic and (config.video or config.render):
        raise ConfigError(
            "deterministic=false goes with neither video=true nor render=true: what is sampled depends on "
            "how many episodes are played at a time"
        )
    return config


def rewrite(overrides: Sequence[str], folders: Sequence[Path]) -> Iterator[str]:
    """Overrides in spellings that Hydra takes."""
    from rlox_cli.overrides import open_keys

    for override in overrides:
        key, _, value = override.partition("=")
        yield f"env.id={value}" if key == "env" else open_keys(override)


def _run(call: Call) -> int:
    from rlox_cli import compose
    from rlox_cli.evaluation import evaluate_run, trained_config

    runs, rest = compose.runs_named(call.args, call.command)
    runs = [run for run in runs if len(runs) == 1 or Path(run).name not in OF_SWEEPS]
    for run in runs[1:] and runs:
        trained_config(Path(run).expanduser())  # all of them are there before one is played
    for one in [[f"run={run}", *rest] for run in runs] or [rest]:
        compose.run(replace(call, args=one), lambda composed: evaluate_run(check(composed)))
    return OK


COMMAND = Command(
    name="evaluate",
    summary="play the policies of runs and write every return",
    notes=(
        "Plays the policy of each RUN and writes every return to RUN/eval/<checkpoint>.json, and to a\n"
        "file of its own for each checkpoint, seed, number of episodes and way to play."
    ),
    examples=(
        "rlox evaluate runs/CartPole-v1/ppo/NAME episodes=100",
        "rlox evaluate runs/Pendulum-v1/ppo/* deterministic=false",
    ),
    schema=SCHEMA,
    codes=(OK, FAILED, WRONG_USE, ENVIRONMENT, STORAGE, *SIGNALS),
    check=check,
    run=_run,
    rewrite=rewrite,
    takes="RUN ...",
)
