"""An export: the policy of a run's checkpoint, and the files that it becomes."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import rlox
from rlox.configs.text import is_text
from rlox.errors import ConfigError
from rlox_cli import summary
from rlox_cli.commands.export import ExportConfig
from rlox_cli.evaluation import checkpoint_of, text_files, trained_config
from rlox_cli.trust import allowed


def export_run(config: ExportConfig) -> None:
    """Write the files of a run's policy, and say where they are."""
    run = Path(config.run)
    command = f"rlox export {summary.typed(run)}"
    trained = replace(trained_config(run), callbacks=())
    trained = allowed(trained, config.trust, None, run / "config.yaml", command)
    from rlox.algorithms import ALGORITHMS
    from rlox.export import export_policy, require_onnx

    text = is_text(trained.env.id)
    if text and config.format != "safetensors":
        raise ConfigError(
            f"format={config.format}: a model of text is written as transformers has it; leave it out"
        )
    if config.format != "safetensors":
        require_onnx()
    checkpoint = checkpoint_of(run, config.checkpoint)
    name = checkpoint.resolve().name
    told = {"checkpoint": name, "rlox": rlox.__version__}
    load = ALGORITHMS[trained.algo.name].from_checkpoint
    folder = run / "export" if config.out is None else Path(config.out)
    again: dict[str, Any] = dict(text_files(config, trained))
    if text and folder.is_file():
        raise ConfigError(f"out={folder}: a file, expected a folder")
    with closing(
        load(checkpoint, replay=False, trust=config.trust, device="cpu", **again)
    ) as algorithm:
        write = _model if text else export_policy
        files = write(algorithm, folder, config.format, told)
    print(
        f"{trained.algo.name} on {trained.env.id}, checkpoint {name}\n"
        + "\n".join(f"  file    {path}" for path in files)
    )


def _model(algorithm: Any, folder: Path, *_: object) -> list[Path]:
    """A language model with its tokenizer as transformers loads them, or adapters as peft does."""
    algorithm.save_pretrained(folder)
    return sorted(path for path in folder.iterdir() if path.is_file())
