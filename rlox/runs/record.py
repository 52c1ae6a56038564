"""Datasets of whole episodes, as a trained policy plays them, or anything else that acts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from rlox.configs.check import require_bools
from rlox.disk import replace_file
from rlox.envs.base import reset_of, step_of
from rlox.envs.failures import close_or_warn, encoded, raised
from rlox.envs.identity import require_apart
from rlox.envs.make import EnvSource, single_factory
from rlox.errors import ConfigError, EnvError, RloxError
from rlox.runs.algorithm import Algorithm
from rlox.sources.dataset_file import DATA, DOCUMENT, FORMAT, Dataset, digest_of, require_columns
from rlox.sources.dataset_folder import renewed
from rlox.training.actor import ActorOf, player_of
from rlox.training.evaluate import Evaluator
from rlox.training.setup import env_name, torch_threads

if TYPE_CHECKING:  # a run of the native engine imports no torch
    import torch

__all__ = ["Rows", "dataset_of", "env_of", "play", "record", "write_dataset"]

BLOCK = 4096  # rows that are held apart until they are an array


class Rows:
    """Columns that grow by a row."""

    def __init__(self) -> None:
        self._blocks: list[dict[str, NDArray[Any]]] = []
        self._at = BLOCK

    def __len__(self) -> int:
        return BLOCK * len(self._blocks) - (BLOCK - self._at) if self._blocks else 0

    def add(self, row: Mapping[str, Any]) -> None:
        """Another row; the first one says of which types and shapes they are."""
        if self._at == BLOCK:
            kinds = {name: np.asarray(value) for name, value in row.items()}
            self._blocks.append(
                {name: np.empty((BLOCK, *kind.shape), kind.dtype) for name, kind in kinds.items()}
            )
            self._at = 0
        for name, value in row.items():
            self._blocks[-1][name][self._at] = value
        self._at += 1

    def columns(self) -> dict[str, NDArray[Any]]:
        """All rows, `[n, ...]` each."""
        *whole, last = self._blocks
        last = {name: column[: self._at] for name, column in last.items()}
        return {name: np.concatenate([b[name] for b in (*whole, last)]) for name in last}


def record(
    algorithm: Algorithm,
    episodes: int | None = None,
    seed: int = 1_000_000,
    deterministic: bool = True,
    env: EnvSource | None = None,
    steps: int | None = None,
    told: Callable[[int, float], None] = lambda rows, mean: None,
) -> Dataset:
    """Play whole episodes of the algorithm's environment and keep every transition.

    `episodes` of them, or until there are `steps` transitions at least. Episode i starts from
    `reset(seed=seed + i)`, with the best action or a sampled one (keyed by the episode). `about` has the
    returns. `env` is another environment than the algorithm's; `about` names the one that was played. `told`
    hears after each episode how many transitions there are, and the mean return.
    """
    if (episodes is None) == (steps is None):
        raise ConfigError(f"episodes={episodes} and steps={steps}: give one of them")
    for name, given in (("episodes", episodes), ("steps", steps)):
        if given is not None and given < 1:
            raise ConfigError(f"{name}={given}: expected at least 1")
    require_bools(deterministic=deterministic)
    actor = player_of(algorithm.parts.actor, algorithm.name)
    rows, returns = Rows(), list[float]()
    total = 0.0

    def sampling(episode: int) -> torch.Generator | None:
        if deterministic:
            return None
        return algorithm.streams.generator("record", seed + episode, str(actor.device))

    threads = torch_threads(algorithm.config.torch_threads)
    with env_of(algorithm, env) as played, threads, actor.ready():
        while len(returns) < (episodes or 1) or len(rows) < (steps or 0):
            number = len(returns)
            returns.append(play(actor, played, seed + number, sampling(number), rows))
            total += returns[-1]  # a mean of all after each of many episodes would be slow
            told(len(rows), total / len(returns))
    about = {
        "env": algorithm.config.env.id if env is None else env_name(env),
        "algo": algorithm.config.algo.name,
        "trained": algorithm.clock.counters,
        "seed": seed,
        "deterministic": deterministic,
        "returns": returns,
    }
    return dataset_of(rows.columns(), about)


@contextmanager
def env_of(algorithm: Algorithm, source: EnvSource | None = None) -> Iterator[gym.Env[Any, Any]]:
    """An environment to play in, closed at the end: of `source`, else what the algorithm was given.

    With `eval.reuse_env` one of training, which has it back at the end.
    """
    evaluate, config = algorithm.parts.evaluate, algorithm.config.env
    if source is None and isinstance(evaluate, Evaluator):
        if evaluate.settings.reuse_env:
            with evaluate.lent() as env:
                yield env
            return
        source = evaluate.stages.source
    if source is None and evaluate is None:
        raise ConfigError(f"{algorithm.name} was made without an environment; give one: env=...")
    env = single_factory(config, source)()
    if isinstance(evaluate, Evaluator):
        require_apart([env], config.id, evaluate.trained)
    try:
        yield env
    finally:
        close_or_warn(env, config.id)


def dataset_of(columns: Mapping[str, NDArray[Any]], about: Mapping[str, Any]) -> Dataset:
    """Columns that were recorded as a dataset, with what is known about them."""
    kept = {**columns, "rewards": columns["rewards"].astype(np.float32)}
    require_columns(kept, "the recording")
    told = {"format": FORMAT, **about, "transitions": len(kept["rewards"])}
    return Dataset(kept, told, digest_of(kept))


def write_dataset(dataset: Dataset, folder: Path) -> None:
    """Write a dataset folder; where that fails the dataset that is there stays."""
    document = {**dataset.about, "digest": dataset.digest}
    with renewed(folder) as new:
        replace_file(new / DATA, safetensors.numpy.save(dict(dataset.columns)))
        replace_file(new / DOCUMENT, json.dumps(document, indent=1).encode())


def play(
    actor: ActorOf[Any],
    env: gym.Env[Any, Any],
    seed: int,
    generator: torch.Generator | None,
    rows: Rows,
) -> float:
    """One episode into `rows`; its return."""
    total = 0.0
    seen = actor.observations.seen  # a dataset has no masks
    with _named(env, seed, "reset"):
        first, _ = reset_of(env.reset(seed=seed))
    obs, player = _encoded(actor, first, env, seed), actor.player(1)
    while True:
        action = player.act(obs, generator)
        chosen = actor.actions.each(action)[0]
        taken = actor.actions.of_env(action, 1)[0]  # now: the environment may write into its action
        with _named(env, seed, "step"):
            raw, reward, terminated, truncated, _ = step_of(env.step(chosen))
        player.paid([reward])
        after = _encoded(actor, raw, env, seed)
        rows.add(
            {
                "obs": obs[0, :seen],
                "next_obs": after[0, :seen],
                "actions": taken,
                "rewards": reward,
                "terminated": terminated,
                "truncated": truncated,
            }
        )
        total, obs = total + reward, after
        if terminated or truncated:
            return total


@contextmanager
def _named(env: gym.Env[Any, Any], seed: int, call: str) -> Iterator[None]:
    """Whatever an environment raises is its failure, told with its name and the episode."""
    try:
        yield
    except RloxError:
        raise
    except (Exception, SystemExit) as error:
        raise EnvError(raised(_told(env, seed), call, error)) from error


def _encoded(
    actor: ActorOf[Any], raw: Any, env: gym.Env[Any, Any], seed: int
) -> NDArray[np.float32]:
    row = actor.observations.rows(1)
    encoded(actor.observations, raw, row[0], _told(env, seed))
    return row


def _told(env: gym.Env[Any, Any], seed: int) -> str:
    name = type(env.unwrapped).__name__ if env.spec is None else env.spec.id
    return f"{name} (episode of seed {seed})"
