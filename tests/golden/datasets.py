"""Writes the datasets beside it: some episodes of untrained policies, for tests of offline learning.

`python tests/golden/datasets.py` with `tests` on the path.
"""

from __future__ import annotations

from pathlib import Path

from rlox.algorithms import PPO
from rlox.runs.record import record, write_dataset

HERE = Path(__file__).parent / "datasets"
EPISODES = {"CartPole-v1": 12, "Pendulum-v1": 1}


def main() -> None:
    for env, episodes in EPISODES.items():
        dataset = record(PPO(env, seed=1), episodes, seed=1, deterministic=False)
        write_dataset(dataset, HERE / env)


if __name__ == "__main__":
    main()
