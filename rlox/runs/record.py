"""Datasets from a trained policy: whole episodes, as it plays them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from rlox.disk import replace_file
from rlox.envs.make import EnvSource, single_factory
from rlox.errors import ConfigError
from rlox.runs.algorithm import Algorithm
from rlox.sources.dataset_file import DATA, DOCUMENT, FORMAT, Dataset, digest_of, require_columns
from rlox.training.actor import ActorOf
from rlox.training.setup import env_name, torch_threads

if TYPE_CHECKING:  # a run of the native engine imports no torch
    import torch

__all__ = ["record", "write_dataset"]


def record(
    algorithm: Algorithm,
    episodes: int,
    seed: int = 1_000_000,
    deterministic: bool = True,
    env: EnvSource | None = None,
) -> Dataset:
    """Play `episodes` whole episodes of the algorithm's environment and keep every transition.

    Episode i starts from `reset(seed=seed + i)`, with the best action or a sampled one (keyed by the
    episode). `about` has the returns. `env` is needed where the algorithm was given an object;
    `about` names the environment that was played.
    """
    if episodes < 1:
        raise ConfigError(f"episodes={episodes}: expected at least 1")
    played = single_factory(algorithm.config.env, env)()
    rows: dict[str, list[Any]] = {}
    returns: list[float] = []
    try:
        with torch_threads(algorithm.config.torch_threads), algorithm.parts.actor.ready():
            for episode in range(episodes):
                generator = None
                if not deterministic:
                    device = str(algorithm.parts.actor.device)
                    generator = algorithm.streams.generator("record", seed + episode, device)
                returns.append(_play(algorithm, played, seed + episode, generator, rows))
    finally:
        played.close()
    columns = {name: np.array(column) for name, column in rows.items()}
    columns["rewards"] = columns["rewards"].astype(np.float32)
    about = {
        "format": FORMAT,
        "env": algorithm.config.env.id if env is None else env_name(env),
        "algo": algorithm.config.algo.name,
        "trained": algorithm.clock.counters,
        "seed": seed,
        "deterministic": deterministic,
        "returns": returns,
        "transitions": len(columns["rewards"]),
    }
    require_columns(columns, "the recording")
    return Dataset(columns, about, digest_of(columns))


def write_dataset(dataset: Dataset, folder: Path) -> None:
    """Write a dataset folder; its document last, so that half a dataset is none."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / DOCUMENT).unlink(missing_ok=True)
    replace_file(folder / DATA, safetensors.numpy.save(dict(dataset.columns)))
    document = {**dataset.about, "digest": dataset.digest}
    replace_file(folder / DOCUMENT, json.dumps(document, indent=1).encode())


def _play(
    algorithm: Algorithm,
    env: gym.Env[Any, Any],
    seed: int,
    generator: torch.Generator | None,
    rows: dict[str, list[Any]],
) -> float:
    """One episode into `rows`; its return."""
    actor, total = algorithm.parts.actor, 0.0
    seen = actor.observations.seen  # a dataset has no masks
    obs, player = _encoded(actor, env.reset(seed=seed)[0]), actor.player(1)
    while True:
        action = player.act(obs, generator)
        raw, reward, terminated, truncated, _ = env.step(actor.actions.each(action)[0])
        after = _encoded(actor, raw)
        row = {
            "obs": obs[0, :seen],
            "next_obs": after[0, :seen],
            "actions": actor.actions.of_env(action, 1)[0],
            "rewards": float(reward),
            "terminated": bool(terminated),
            "truncated": bool(truncated),
        }
        for name, value in row.items():
            rows.setdefault(name, []).append(value)
        total, obs = total + float(reward), after
        if terminated or truncated:
            return total


def _encoded(actor: ActorOf[Any], raw: Any) -> NDArray[np.float32]:
    row = actor.observations.rows(1)
    actor.observations.encode_into(raw, row[0])
    return row
