"""Writes a dataset of whole episodes that the policy of a trained run plays.

    python experiments/behavioural_cloning/record.py RUN FOLDER --episodes 50

RUN is a run folder or a checkpoint; `rlox train algo=bc buffer.path=FOLDER env=...` learns from FOLDER.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from rlox.algorithms import ALGORITHMS
from rlox.runs.checkpoint import read_checkpoint, resolve_checkpoint
from rlox.runs.record import record, write_dataset


def main() -> None:
    """Record and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="run folder or checkpoint")
    parser.add_argument("folder", type=Path, help="where the dataset is written")
    parser.add_argument("--episodes", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1_000_000, help="of the first episode's start")
    parser.add_argument("--sampled", action="store_true", help="sampled actions, not the best ones")
    given = parser.parse_args()
    checkpoint = resolve_checkpoint(given.run)
    facade = ALGORITHMS[read_checkpoint(checkpoint).config["algo"]["name"]]
    algorithm = facade.from_checkpoint(checkpoint, replay=False)
    dataset = record(algorithm, given.episodes, given.seed, deterministic=not given.sampled)
    write_dataset(dataset, given.folder)
    returns = dataset.about["returns"]
    print(
        f"{given.folder}: {len(dataset.columns['rewards']):,} transitions of {given.episodes} episodes, "
        f"mean return {np.mean(returns):.1f}"
    )


if __name__ == "__main__":
    main()
