"""`rlox export`: write the policy of a run as a file that needs neither Python nor torch."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlox.configs.env import is_text
from rlox.configs.params import param
from rlox.errors import ConfigError
from rlox_cli.config.schema import Schema
from rlox_cli.shell.command import Call, Command
from rlox_cli.shell.exit_codes import ENVIRONMENT, FAILED, OK, SIGNALS, STORAGE, WRONG_USE

if TYPE_CHECKING:
    from omegaconf import DictConfig


def export_run(config: ExportConfig) -> None:
    """Write the files of a run's policy and print their paths."""
    from rlox_cli.runs import summary  # these are slow to import
    from rlox_cli.runs.evaluation import find_checkpoint, read_run_config, text_files
    from rlox_cli.runs.trust import resolve_trusted

    run = Path(config.run)
    command = f"rlox export {summary.quote_path(run)}"
    run_config = replace(read_run_config(run), callbacks=())
    run_config = resolve_trusted(run_config, config.trust, None, run / "config.yaml", command)
    import rlox
    from rlox.algorithms import ALGORITHMS
    from rlox.export import export_policy, require_onnx

    is_text_run = is_text(run_config.env.id)
    if is_text_run and config.format != "safetensors":
        raise ConfigError(
            f"format={config.format}: a text model is only exported in transformers' format; leave it out"
        )
    if config.format != "safetensors":
        require_onnx()
    checkpoint = find_checkpoint(run, config.checkpoint)
    name = checkpoint.resolve().name
    metadata = {"checkpoint": name, "rlox": rlox.__version__}
    load = ALGORITHMS[run_config.algo.name].from_checkpoint
    folder = run / "export" if config.out is None else Path(config.out)
    load_options: dict[str, Any] = dict(text_files(config, run_config))
    if is_text_run and folder.is_file():
        raise ConfigError(f"out={folder} is a file, expected a folder")
    with closing(
        load(checkpoint, replay=False, trust=config.trust, device="cpu", **load_options)
    ) as algorithm:
        write = _export_model if is_text_run else export_policy
        files = write(algorithm, folder, config.format, metadata)
    print(
        f"{run_config.algo.name} on {run_config.env.id}, checkpoint {name}\n"
        + "\n".join(f"  file    {path}" for path in files)
    )


def _export_model(algorithm: Any, folder: Path, *_: object) -> list[Path]:
    """Write a model and tokenizer in transformers' format, or adapters in peft's; return the files."""
    algorithm.save_pretrained(folder)
    return sorted(path for path in folder.iterdir() if path.is_file())


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
