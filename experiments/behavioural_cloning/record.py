"""Writes a dataset of whole episodes that the policy of a trained run plays.

    python experiments/behavioural_cloning/record.py RUN FOLDER --episodes 50

RUN is a run folder or a checkpoint; `rlox train algo=bc buffer.path=FOLDER env=...` learns from FOLDER.
A dataset that is in FOLDER already is kept, unless --overwrite is given. Exit code 2 for wrong use, 1
where recording fails.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import numpy as np

from rlox.algorithms import ALGORITHMS
from rlox.errors import CheckpointError, ConfigError, RloxError
from rlox.runs.checkpoint import read_checkpoint, resolve_checkpoint
from rlox.runs.record import record, write_dataset
from rlox.sources.dataset_file import DATA, DOCUMENT


def main(argv: Sequence[str] | None = None) -> int:
    """Record and write; the exit code."""
    try:
        print(_record(_arguments(argv)))
    except (OSError, RloxError) as error:
        told = " ".join(str(error).split())
        print(f"record.py: {told}", file=sys.stderr)
        return 2 if isinstance(error, (CheckpointError, ConfigError, OSError)) else 1
    return 0


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    def refuse(message: str) -> NoReturn:
        raise ConfigError(f"{message}; record.py --help")

    parser = argparse.ArgumentParser(prog="record.py", description=str(__doc__).splitlines()[0])
    parser.error = refuse  # type: ignore[method-assign]
    parser.add_argument("run", type=Path, help="run folder or checkpoint")
    parser.add_argument("folder", type=Path, help="where the dataset is written")
    parser.add_argument("--episodes", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1_000_000, help="of the first episode's start")
    parser.add_argument("--sampled", action="store_true", help="sampled actions, not the best ones")
    parser.add_argument("--overwrite", action="store_true", help="replace the dataset in FOLDER")
    return parser.parse_args(argv)


def _record(given: argparse.Namespace) -> str:
    """Write the dataset; what was written, in a line."""
    _require_free(given.folder, given.overwrite)
    if given.episodes < 1:
        raise ConfigError(f"--episodes {given.episodes}: expected at least 1")
    checkpoint = resolve_checkpoint(given.run)
    facade = ALGORITHMS[read_checkpoint(checkpoint).config["algo"]["name"]]
    algorithm = facade.from_checkpoint(checkpoint, replay=False)
    dataset = record(algorithm, given.episodes, given.seed, deterministic=not given.sampled)
    write_dataset(dataset, given.folder)
    return (
        f"{given.folder}: {len(dataset.columns['rewards']):,} transitions of {given.episodes} episodes, "
        f"mean return {np.mean(dataset.about['returns']):.1f}"
    )


def _require_free(folder: Path, overwrite: bool) -> None:
    """Before anything is played: a place where a dataset can be written and none is lost."""
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder} is a file, expected a folder or a name that is free")
    if not overwrite and any((folder / name).exists() for name in (DATA, DOCUMENT)):
        raise ConfigError(f"{folder} has a dataset already; choose another folder or --overwrite")


if __name__ == "__main__":
    sys.exit(main())
