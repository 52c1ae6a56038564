"""`rlox evaluate`: play the saved policies of runs and write every episode's return."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlox.configs.params import param
from rlox.errors import ConfigError
from rlox_cli.config.schema import Schema
from rlox_cli.shell.command import Call, Command
from rlox_cli.shell.exit_codes import ENVIRONMENT, FAILED, NON_FINITE, OK, SIGNALS, STORAGE, WRONG_USE

if TYPE_CHECKING:
    from omegaconf import DictConfig


@dataclass(frozen=True)
class PlayedEnvConfig:
    """Settings in which the environment may differ from that of the run."""

    id: str | None = param(
        None, "another environment, or the run's own, repeated to import its code without trust=true"
    )
    kwargs: dict[str, Any] = param(
        doc="arguments of the environment, over those of the run: env.kwargs.g=9.8",
        default_factory=dict,
    )


@dataclass(frozen=True)
class DataConfig:
    """The dataset of an evaluation without an environment."""

    path: str | None = param(None, "method=fqe: the folder of a dataset", verbatim=True)


@dataclass(frozen=True)
class FQEConfig:
    """Settings of fitted Q evaluation."""

    gamma: float | None = param(None, "discount factor; null: the run's algo.gamma, or 0.99", within="[0, 1]")
    updates: int = param(20_000, "gradient steps", within="[1, inf)")
    members: int = param(
        20, "bootstrap resamples of the episodes, for the interval; it needs at least 19", within="[19, 1024]"
    )
    learning_rate: float = param(1e-3, "Adam step size", within="(0, inf)")
    net_arch: tuple[int, ...] = param((64, 64), "hidden layer widths of each Q-network", within="[1, 65536]")


@dataclass(frozen=True)
class EvaluateConfig:
    """Arguments of `rlox evaluate`."""

    run: str = param(doc="the run folder to evaluate; run= may be left out", verbatim=True)
    checkpoint: str = param("last", "last, best or the name of a checkpoint, e.g. step-000000100352")
    episodes: int = param(50, "episodes; all are finished and counted", within="[1, inf)")
    seed: int = param(100_000, "episode i starts from reset(seed=seed + i)", within="[0, 2147483647]")
    n_envs: int | None = param(
        None,
        "environments that are played at once; null: the run's eval.n_envs",
        within="[1, 65536]",
    )
    max_steps: int | None = param(
        None,
        "steps after which an episode is cut off and counted with its return so far; null: the run's "
        "eval.max_steps",
        within="[1, inf)",
    )
    deterministic: bool = param(
        True,
        "take the best actions; false: sample them by the seed, differently for each n_envs",
    )
    target_return: float | None = param(
        None,
        "target return of a decision transformer, in place of the run's",
        within="(-inf, inf)",
    )
    best_of: int | None = param(
        None,
        "language models: sample this many completions per prompt, and take the one with the highest reward",
        within="[2, 65536]",
    )
    video: bool = param(False, "also record the first episode, as mp4 under videos/")
    render: bool = param(False, "show the episodes in a window while they are played")
    device: str | None = param(None, "cpu, cuda, cuda:N or mps, in place of the run's torch device")
    trust: bool = param(
        False, "import the code that the run folder names, module:Name, and that is not repeated here"
    )
    method: str = param(
        "episodes",
        "episodes: play episodes; fqe: estimate the policy's value from a dataset, by fitted Q evaluation",
        choices=("episodes", "fqe"),
    )
    model: str | None = param(None, "present path of the model, for a run on text", verbatim=True)
    tokenizer: str | None = param(None, "present path of its tokenizer", verbatim=True)
    dataset: str | None = param(None, "present path of the text dataset", verbatim=True)
    eval_dataset: str | None = param(
        None, "a text file to evaluate on, in place of rows that are held out", verbatim=True
    )
    env: PlayedEnvConfig = param(doc="the environment", default_factory=PlayedEnvConfig)
    buffer: DataConfig = param(doc="the dataset", default_factory=DataConfig)
    fqe: FQEConfig = param(doc="fitted Q evaluation", default_factory=FQEConfig)


# Files beside the runs of a sweep, which a shell includes when it expands FOLDER/*.
SWEEP_FILES = ("multirun.yaml", "summary.csv", "summary.md")

# Keys that a run has in the group eval; they are accepted here with this prefix, too.
RUN_EVAL_KEYS = ("eval.episodes", "eval.seed", "eval.n_envs", "eval.max_steps")

SCHEMA = Schema("evaluate", EvaluateConfig, primary="evaluate")


def check(composed: DictConfig) -> EvaluateConfig:
    """Return the validated configuration of one evaluation."""
    from rlox.configs import make, require_device
    from rlox_cli.config import validate

    config = make(EvaluateConfig, validate.checked_data(composed, SCHEMA))
    if config.device is not None:
        require_device(config.device)
    _require_method(config)
    if not config.deterministic and (config.video or config.render):
        raise ConfigError(
            "deterministic=false cannot be combined with video=true or render=true: the sampled actions "
            "depend on how many episodes are played at a time"
        )
    return config


def _require_method(config: EvaluateConfig) -> None:
    """Refuse dataset keys without fitted Q evaluation, and keys of played episodes with it."""
    if config.method == "episodes":
        if config.buffer.path is not None or config.fqe != FQEConfig():
            raise ConfigError(
                "buffer.path and fqe.* need fitted Q evaluation: give method=fqe, or leave them out"
            )
        return
    if config.buffer.path is None:
        raise ConfigError("method=fqe: name a dataset, buffer.path=FOLDER")
    is_changed = {
        "episodes": config.episodes != 50,
        "n_envs": config.n_envs is not None,
        "max_steps": config.max_steps is not None,
        "deterministic": not config.deterministic,
        "target_return": config.target_return is not None,
        "best_of": config.best_of is not None,
        "video": config.video,
        "render": config.render,
        "env": config.env != PlayedEnvConfig(kwargs={}),
    }
    for key, changed in is_changed.items():
        if changed:
            raise ConfigError(f"method=fqe plays no episodes: leave {key} out")


def rewrite(overrides: Sequence[str], folders: Sequence[Path]) -> Iterator[str]:
    """Yield overrides in the syntax that Hydra accepts."""
    from rlox_cli.config.overrides import allow_open_keys, require_lists

    require_lists(SCHEMA, overrides, folders)
    for override in overrides:
        key, _, value = override.partition("=")
        if key in RUN_EVAL_KEYS:
            yield override.removeprefix("eval.")
        else:
            yield f"env.id={value}" if key == "env" else allow_open_keys(override)


def _run(call: Call) -> int:
    from rlox_cli.config import compose
    from rlox_cli.runs.evaluation import evaluate_run, require_playable
    from rlox_cli.runs.run_each import run_each

    runs, rest = compose.split_runs(call.args, call.command)
    runs = [run for run in runs if len(runs) == 1 or Path(run).name not in SWEEP_FILES]
    runs_to_check = runs[:] if len(runs) > 1 else []

    def evaluate(composed: DictConfig) -> None:
        config = check(composed)
        while runs_to_check:  # check all runs before one is played
            require_playable(replace(config, run=runs_to_check[0]))
            del runs_to_check[0]
        evaluate_run(config)

    return run_each(call, runs, rest, evaluate, lambda: bool(runs_to_check))


COMMAND = Command(
    name="evaluate",
    summary="play the policies of runs and write every return",
    description=(
        "Plays the policy of each RUN and writes every return to RUN/eval/<checkpoint>.json, and to a\n"
        "file of its own for each checkpoint, seed, number of episodes and way to play. Every RUN is\n"
        "checked before any is played. If one then fails, its error is printed and the next is played."
    ),
    examples=(
        "rlox evaluate runs/CartPole-v1/ppo/NAME episodes=100",
        "rlox evaluate runs/Pendulum-v1/ppo/* deterministic=false",
        "rlox evaluate runs/text-copy/sft/NAME best_of=8",
        "rlox evaluate runs/Pendulum-v1/iql/NAME method=fqe buffer.path=data/replay",
    ),
    schema=SCHEMA,
    codes=(OK, FAILED, WRONG_USE, NON_FINITE, ENVIRONMENT, STORAGE, *SIGNALS),
    check=check,
    run=_run,
    rewrite=rewrite,
    usage_arguments="RUN ...",
)
