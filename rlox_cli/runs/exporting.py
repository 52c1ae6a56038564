"""Export the policy of a run's checkpoint to files."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import rlox
from rlox.configs.text import is_text
from rlox.errors import ConfigError
from rlox_cli.commands.export import ExportConfig
from rlox_cli.runs import summary
from rlox_cli.runs.evaluation import find_checkpoint, read_run_config, text_files
from rlox_cli.runs.trust import resolve_trusted


def export_run(config: ExportConfig) -> None:
    """Write the files of a run's policy and print their paths."""
    run = Path(config.run)
    command = f"rlox export {summary.quote_path(run)}"
    run_config = replace(read_run_config(run), callbacks=())
    run_config = resolve_trusted(run_config, config.trust, None, run / "config.yaml", command)
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
