"""Record datasets of whole episodes, played by a trained policy or any other actor."""

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
from rlox.envs.base import unpack_reset, unpack_step
from rlox.envs.failures import close_or_warn, encode_checked, env_error_message
from rlox.envs.identity import require_distinct_envs
from rlox.envs.make import EnvLike, wrapped_factory
from rlox.errors import ConfigError, EnvError, RloxError
from rlox.runs.algorithm import Algorithm
from rlox.sources.dataset_file import (
    DATA_FILE,
    DOCUMENT_FILE,
    FORMAT,
    Dataset,
    digest_of,
    replace_dataset,
    require_columns,
)
from rlox.training.actor import BaseActor, require_actor
from rlox.training.evaluate import Evaluator
from rlox.training.setup import env_name, torch_threads

if TYPE_CHECKING:  # a run of the native engine imports no torch
    import torch

__all__ = ["GrowingColumns", "make_dataset", "open_env", "record", "record_episode", "write_dataset"]

BLOCK_ROWS = 4096  # rows of one preallocated block


class GrowingColumns:
    """Columns that grow row by row."""

    def __init__(self) -> None:
        self._blocks: list[dict[str, NDArray[Any]]] = []
        self._block_position = BLOCK_ROWS

    def __len__(self) -> int:
        return BLOCK_ROWS * len(self._blocks) - (BLOCK_ROWS - self._block_position) if self._blocks else 0

    def add(self, row: Mapping[str, Any]) -> None:
        """Add a row; the first row sets dtypes and shapes."""
        if self._block_position == BLOCK_ROWS:
            arrays = {name: np.asarray(value) for name, value in row.items()}
            self._blocks.append(
                {name: np.empty((BLOCK_ROWS, *kind.shape), kind.dtype) for name, kind in arrays.items()}
            )
            self._block_position = 0
        for name, value in row.items():
            self._blocks[-1][name][self._block_position] = value
        self._block_position += 1

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return all rows, each column `[n, ...]`."""
        *full_blocks, last = self._blocks
        last = {name: column[: self._block_position] for name, column in last.items()}
        return {name: np.concatenate([b[name] for b in (*full_blocks, last)]) for name in last}


def record(
    algorithm: Algorithm,
    episodes: int | None = None,
    seed: int = 1_000_000,
    deterministic: bool = True,
    env: EnvLike | None = None,
    steps: int | None = None,
    on_episode: Callable[[int, float], None] = lambda rows, mean: None,
) -> Dataset:
    """Play whole episodes of the algorithm's environment and keep every transition.

    Plays `episodes` episodes, or as many as give at least `steps` transitions. Episode i starts from
    `reset(seed=seed + i)`. Actions are the best ones, or sampled (seeded per episode). `about` of the dataset
    has the returns and the name of the environment. `env` replaces the algorithm's environment. `on_episode`
    is called after each episode with the number of transitions and the mean return.
    """
    if (episodes is None) == (steps is None):
        raise ConfigError(f"episodes={episodes} and steps={steps}: give one of them")
    for name, value in (("episodes", episodes), ("steps", steps)):
        if value is not None and value < 1:
            raise ConfigError(f"{name}={value}: expected at least 1")
    require_bools(deterministic=deterministic)
    actor = require_actor(algorithm.components.actor, algorithm.name)
    columns, returns = GrowingColumns(), list[float]()
    total = 0.0

    def episode_generator(episode: int) -> torch.Generator | None:
        if deterministic:
            return None
        return algorithm.streams.generator("record", seed + episode, str(actor.device))

    threads = torch_threads(algorithm.config.torch_threads)
    with open_env(algorithm, env) as gym_env, threads, actor.inference_mode():
        while len(returns) < (episodes or 1) or len(columns) < (steps or 0):
            episode_index = len(returns)
            returns.append(
                record_episode(
                    actor, gym_env, seed + episode_index, episode_generator(episode_index), columns
                )
            )
            total += returns[-1]  # averaging all returns after each episode would be slow
            on_episode(len(columns), total / len(returns))
    about = {
        "env": algorithm.config.env.id if env is None else env_name(env),
        "algo": algorithm.config.algo.name,
        "trained": algorithm.clock.counters,
        "seed": seed,
        "deterministic": deterministic,
        "returns": returns,
    }
    return make_dataset(columns.columns(), about)


@contextmanager
def open_env(algorithm: Algorithm, source: EnvLike | None = None) -> Iterator[gym.Env[Any, Any]]:
    """Open an environment of `source`, or else of the algorithm, to play in; it is closed at the end.

    With `eval.reuse_env` it is one of the training environments, which training gets back afterwards.
    """
    evaluator, config = algorithm.components.evaluate, algorithm.config.env
    if source is None and isinstance(evaluator, Evaluator):
        if evaluator.settings.reuse_env:
            with evaluator.borrow_env() as env:
                yield env
            return
        source = evaluator.eval_env_factory.source
    if source is None and evaluator is None:
        raise ConfigError(f"{algorithm.name} was made without an environment; give one: env=...")
    env = wrapped_factory(config, source)()
    if isinstance(evaluator, Evaluator):
        require_distinct_envs([env], config.id, evaluator.training_objects)
    try:
        yield env
    finally:
        close_or_warn(env, config.id)


def make_dataset(columns: Mapping[str, NDArray[Any]], about: Mapping[str, Any]) -> Dataset:
    """Make a dataset from recorded columns; `about` describes the recording."""
    float_columns = {**columns, "rewards": columns["rewards"].astype(np.float32)}
    require_columns(float_columns, "the recording")
    document = {"format": FORMAT, **about, "transitions": len(float_columns["rewards"])}
    return Dataset(float_columns, document, digest_of(float_columns))


def write_dataset(dataset: Dataset, folder: Path) -> None:
    """Write a dataset folder; if writing fails, an existing dataset stays unchanged."""
    document = {**dataset.about, "digest": dataset.digest}
    with replace_dataset(folder) as new_folder:
        replace_file(new_folder / DATA_FILE, safetensors.numpy.save(dict(dataset.columns)))
        replace_file(new_folder / DOCUMENT_FILE, json.dumps(document, indent=1).encode())


def record_episode(
    actor: BaseActor[Any],
    env: gym.Env[Any, Any],
    seed: int,
    generator: torch.Generator | None,
    columns: GrowingColumns,
) -> float:
    """Record one episode into `columns` and return its return."""
    total = 0.0
    input_dim = actor.observations.input_dim  # a dataset has no masks
    with _env_errors(env, seed, "reset"):
        first_observation, _ = unpack_reset(env.reset(seed=seed))
    obs, player = _encode(actor, first_observation, env, seed), actor.make_player(1)
    while True:
        action = player.act(obs, generator)
        env_action = actor.actions.unbatch(action)[0]
        # before the step: the environment may write into its action
        policy_action = actor.actions.from_env(action, 1)[0]
        with _env_errors(env, seed, "step"):
            observation, reward, terminated, truncated, _ = unpack_step(env.step(env_action))
        player.observe_rewards([reward])
        next_obs = _encode(actor, observation, env, seed)
        columns.add(
            {
                "obs": obs[0, :input_dim],
                "next_obs": next_obs[0, :input_dim],
                "actions": policy_action,
                "rewards": reward,
                "terminated": terminated,
                "truncated": truncated,
            }
        )
        total, obs = total + reward, next_obs
        if terminated or truncated:
            return total


@contextmanager
def _env_errors(env: gym.Env[Any, Any], seed: int, call: str) -> Iterator[None]:
    """Turn any error of an environment into an `EnvError` with its name and the episode."""
    try:
        yield
    except RloxError:
        raise
    except (Exception, SystemExit) as error:
        raise EnvError(env_error_message(_episode_label(env, seed), call, error)) from error


def _encode(
    actor: BaseActor[Any], observation: Any, env: gym.Env[Any, Any], seed: int
) -> NDArray[np.float32]:
    row = actor.observations.rows(1)
    encode_checked(actor.observations, observation, row[0], _episode_label(env, seed))
    return row


def _episode_label(env: gym.Env[Any, Any], seed: int) -> str:
    name = type(env.unwrapped).__name__ if env.spec is None else env.spec.id
    return f"{name} (episode of seed {seed})"
