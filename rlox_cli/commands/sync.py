"""`rlox sync`: send what the loggers of runs missed, each row once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlox.configs.params import param
from rlox_cli.config.schema import Schema
from rlox_cli.shell.command import Call, Command
from rlox_cli.shell.exit_codes import FAILED, OK, SIGNALS, STORAGE, WRONG_USE

if TYPE_CHECKING:
    from omegaconf import DictConfig


@dataclass(frozen=True)
class WandbTarget:
    """Destination of W&B runs."""

    mode: str = param(
        "auto",
        "online: to the server of WANDB_BASE_URL, or W&B's own; offline: to the file in the run folder; "
        "auto: online where there is a key, in WANDB_API_KEY or netrc",
        choices=("auto", "online", "offline"),
    )


@dataclass(frozen=True)
class MlflowTarget:
    """Destination of MLflow runs."""

    tracking_uri: str | None = param(
        None,
        "address of a server or store; null: MLFLOW_TRACKING_URI for a run that was sent to one",
    )


@dataclass(frozen=True)
class SyncConfig:
    """Arguments of `rlox sync`."""

    run: str = param(doc="the run folder; run= may be left out", verbatim=True)
    timeout: float = param(
        300.0, "seconds after which the remaining rows are left for another call", within="(0, inf)"
    )
    wandb: WandbTarget = param(doc="Weights & Biases", default_factory=WandbTarget)
    mlflow: MlflowTarget = param(doc="MLflow", default_factory=MlflowTarget)


SCHEMA = Schema("sync", SyncConfig, primary="sync")


def check(composed: DictConfig) -> SyncConfig:
    """Return the validated configuration for one run."""
    from rlox.configs import make
    from rlox_cli.config import validate

    return make(SyncConfig, validate.checked_data(composed, SCHEMA))


def _run(call: Call) -> int:
    from rlox_cli.config import compose
    from rlox_cli.runs.run_each import run_each
    from rlox_cli.runs.syncing import sync_run

    runs, rest = compose.split_runs(call.args, call.command)
    complete = [True]
    code = run_each(call, runs, rest, lambda composed: complete.append(sync_run(check(composed))))
    return code if all(complete) else max(code, FAILED)


COMMAND = Command(
    name="sync",
    summary="send what the loggers of runs missed",
    description=(
        "Sends the rows of metrics.jsonl that the loggers of each RUN lack, each row once, and results,\n"
        "plots and videos that are new. Keys come from the environment, and so do addresses that are\n"
        "not given: none is read from a run folder."
    ),
    examples=(
        "rlox sync runs/CartPole-v1/ppo/NAME",
        "rlox sync runs/CartPole-v1/ppo/* mlflow.tracking_uri=http://localhost:5000",
    ),
    schema=SCHEMA,
    codes=(OK, FAILED, WRONG_USE, STORAGE, *SIGNALS),
    check=check,
    run=_run,
    usage_arguments="RUN ...",
)
