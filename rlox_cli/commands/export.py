"""`rlox export`: write the policy of a run as a file that needs neither Python nor torch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rlox.configs.params import param
from rlox.errors import ConfigError
from rlox_cli.config.schema import Schema
from rlox_cli.shell.command import Call, Command
from rlox_cli.shell.exit_codes import ENVIRONMENT, FAILED, OK, SIGNALS, STORAGE, WRONG_USE

if TYPE_CHECKING:
    from omegaconf import DictConfig


@dataclass(frozen=True)
class ExportConfig:
    """Arguments of `rlox export`."""

    run: str = param(doc="the run folder of the policy; run= may be left out", verbatim=True)
    checkpoint: str = param("last", "last, best or the name of a checkpoint, e.g. step-000000100352")
    format: str = param(
        "safetensors",
        "safetensors, which Rust reads and plays; onnx (needs the extra onnx); all: both",
        choices=("safetensors", "onnx", "all"),
    )
    out: str | None = param(None, "the folder of policy.safetensors; without it RUN/export", verbatim=True)
    model: str | None = param(None, "present path of the model, for a run on text", verbatim=True)
    tokenizer: str | None = param(None, "present path of its tokenizer", verbatim=True)
    trust: bool = param(False, "import the code that the run folder names, module:Name")


SCHEMA = Schema("export", ExportConfig, primary="export")


def check(composed: DictConfig) -> ExportConfig:
    """Return the validated configuration of one export."""
    from rlox.configs import make
    from rlox_cli.config import validate

    return make(ExportConfig, validate.checked_data(composed, SCHEMA))


def _run(call: Call) -> int:
    from rlox_cli.config import compose
    from rlox_cli.config.verbatim import quote_existing_path
    from rlox_cli.runs.exporting import export_run

    runs, rest = compose.split_runs(call.args, call.command)
    if len(runs) > 1:
        raise ConfigError(f"{runs[1]}: one run at a time; call it once for each")
    args = [f"run={quote_existing_path(runs[0])}", *rest] if runs else rest
    compose.run(replace(call, args=args), lambda composed: export_run(check(composed)))
    return OK


COMMAND = Command(
    name="export",
    summary="write the policy of a run to a file that needs no Python",
    description=(
        "Writes the deterministic policy of RUN, its normaliser and the bounds of its actions to\n"
        "RUN/export/policy.safetensors, which Rust reads and plays, or as ONNX. Each file contains\n"
        "observations with their actions, and is checked by them; a policy that it cannot express is\n"
        "refused. A language model becomes a folder that transformers loads, adapters one that peft loads."
    ),
    examples=(
        "rlox export runs/CartPole-v1/ppo/NAME",
        "rlox export runs/Pendulum-v1/sac/NAME checkpoint=best format=all out=policies",
    ),
    schema=SCHEMA,
    codes=(OK, FAILED, WRONG_USE, ENVIRONMENT, STORAGE, *SIGNALS),
    check=check,
    run=_run,
    usage_arguments="RUN",
)
