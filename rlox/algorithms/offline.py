"""What offline algorithms have in common: a dataset to learn from, an environment only to evaluate in."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any, cast

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlox._core import OfflineDatasetBuffer
from rlox.algorithms.encoding import Encoding, encoding_of, require_actions
from rlox.configs import DecisionTransformerConfig, OfflineConfig, RunConfig
from rlox.configs.offline import NO_ENV, OfflineAlgorithmConfig, OfflineNetworksConfig
from rlox.configs.offline_critics import OfflineCriticsConfig
from rlox.envs.actions import TOLERANCE, ActionCodec, UnitCodec
from rlox.envs.failures import close_or_warn
from rlox.envs.make import EnvSource, Stages, single_factory
from rlox.envs.space_text import space_of
from rlox.envs.spaces import ObservationCodec
from rlox.errors import ConfigError, NonFiniteError, ShapeError, UnsupportedSpaceError
from rlox.policies.on_demand import OnDemand
from rlox.runs.preflight import available_memory, require_networks
from rlox.sources.dataset import DatasetSource
from rlox.sources.dataset_file import columns_of, digest_of, read_about, read_dataset
from rlox.sources.file_columns import Column, blocks
from rlox.sources.on_disk import DatasetOnDisk
from rlox.sources.prepared import Loaded, Preparation
from rlox.training.actor import Actor, ActorOf, NativeActor
from rlox.training.backend import Choice
from rlox.training.evaluate import Evaluator
from rlox.training.loop import Learner
from rlox.training.parts import Parts, Tools
from rlox.training.setup import config_from_arguments, environment_of

__all__ = [
    "NO_ENV",
    "Composed",
    "DatasetGiven",
    "Ways",
    "from_dataset",
    "offline_parts",
    "require_env",
    "require_taken",
]

Spaces = tuple[ObservationCodec, ActionCodec]
Composed = tuple[Any, Learner[Any]]  # a policy and what it learns by
# Makes the policy and its learner of what is made of observations, for actions, with the engine chosen.
Compose = Callable[[Encoding, ActionCodec, Choice], Composed]


@dataclass(frozen=True)
class Ways:
    """What batches are drawn by, and what plays: of the arguments of a `DatasetSource` and an `Actor`."""

    source: Callable[..., DatasetSource] = DatasetSource
    actor: Callable[..., ActorOf[Any]] = Actor


def offline_parts(
    config: RunConfig, tools: Tools, compose: Compose, ways: Ways | None = None
) -> Parts:
    """Batches of the dataset for what `compose` makes of the spaces."""
    ways = ways or Ways()
    if tools.policy is not None:
        raise ConfigError(f"{config.algo.name} takes no policy of your own")
    if not isinstance(tools.dataset, OfflineDatasetBuffer | None):
        raise ConfigError(
            f"dataset is a {type(tools.dataset).__name__}, expected an OfflineDatasetBuffer or, when the "
            "algorithm is made, the folder of one"
        )
    algo, env = cast(OfflineAlgorithmConfig, config.algo), config.env
    observations, actions = _spaces(config, algo, tools)
    encoding = _encoding(algo, observations, env.id)
    prepared = _preparation(algo, observations, actions, env.id)
    source = ways.source(
        lambda: _dataset(config, tools, observations, actions),
        algo.batch_size,
        tools.streams,
        prepared,
    )
    if tools.replay:
        source.load()
    networks = algo.networks(encoding.features, actions.size, actions.discrete)
    require_networks(*networks, more=encoding.cost.parameters * algo.seers)
    choice = Choice(algo.backend, config, tools.backend)
    with tools.networks(config):
        policy, learner = compose(encoding, actions, choice)
    played = NativeActor if isinstance(policy, OnDemand) else ways.actor
    actor = played(policy, observations, actions, source.normalizer, tools.device)
    evaluate = None
    if env.id != NO_ENV:
        evaluate = Evaluator(actor, Stages(env, tools.env), config.eval)
    return Parts(source, learner, actor, evaluate, encoding.said, choice.made)


# A dataset as a façade takes it: in memory, or the folder of one.
DatasetGiven = OfflineDatasetBuffer | str | PathLike[str] | None


def from_dataset(
    name: str,
    dataset: DatasetGiven,
    env_id: EnvSource,
    n_envs: int,
    seed: int,
    options: Mapping[str, Any],
) -> tuple[RunConfig, EnvSource, OfflineDatasetBuffer | None]:
    """What a façade's arguments say: the configuration, where to evaluate, a dataset in memory.

    Without an environment actions are vectors unless `continuous` says otherwise.
    """
    given = dict(options)
    env_id = environment_of(env_id, NO_ENV, given)
    if given.get("continuous") is None and env_id == NO_ENV:
        given["continuous"] = True
    held = None if isinstance(dataset, (str, PathLike)) else dataset
    if isinstance(dataset, (str, PathLike)):
        given["buffer_path"] = fspath(dataset)
    return config_from_arguments(name, env_id, n_envs, seed, given), env_id, held


def _encoding(algo: OfflineAlgorithmConfig, observations: ObservationCodec, env: str) -> Encoding:
    """What stands before the networks; of those that are no layers one after the other nothing may."""
    if isinstance(algo, OfflineNetworksConfig):
        return encoding_of(algo, observations, env)
    if observations.images:
        raise UnsupportedSpaceError(
            f"{algo.name} learns from vectors, {env} has images in its observations; use algo=bc, or flatten "
            "them with gymnasium.wrappers"
        )
    return Encoding(observations.seen)


def _preparation(
    algo: OfflineAlgorithmConfig, observations: ObservationCodec, actions: ActionCodec, env: str
) -> Preparation:
    images = bool(observations.images)
    if images and algo.standardize_obs:
        raise ConfigError(
            f"algo.standardize_obs=true: {env} has images in its observations, which networks divide by what "
            "their space allows; set algo.standardize_obs=false"
        )
    bounds = actions if isinstance(actions, UnitCodec) else None
    if not isinstance(algo, OfflineCriticsConfig):
        return Preparation(1.0, images, algo.standardize_obs, 1.0, bounds)
    return Preparation(algo.gamma, images, algo.standardize_obs, algo.reward_factor, bounds)


def _spaces(config: RunConfig, algo: OfflineAlgorithmConfig, tools: Tools) -> Spaces:
    """Of the environment or, where there is none, of the sizes that are given.

    Actions are in [-1, 1] where the algorithm stretches that over Boxes.
    """
    observations, actions = _given_spaces(config, algo, tools)
    require_actions(config, actions)
    if actions.kind != "Box" and (high := _act_high(algo)) is not None:
        raise ConfigError(
            f"algo.act_high={high:g}: these actions are choices; leave algo.act_high out"
        )
    if algo.bounded and actions.kind == "Box":
        actions = actions.unit(config.env.id, algo.name)
        _require_high(algo, actions)
    return observations, actions


def _given_spaces(config: RunConfig, algo: OfflineAlgorithmConfig, tools: Tools) -> Spaces:
    if config.env.id != NO_ENV:
        env = single_factory(config.env, tools.env)()
        try:
            name = config.env.id
            found = (
                ObservationCodec.of(env.observation_space, name),
                ActionCodec.of(env.action_space, name),
            )
        finally:
            close_or_warn(env, config.env.id)
        _require_sizes(algo, *found)
        return found
    if (said := _said_spaces(config, tools)) is not None:
        _require_sizes(algo, *said)
        return said
    if algo.obs_dim is None or algo.act_dim is None or algo.continuous is None:
        raise ConfigError(
            f"{algo.name} without an environment needs algo.obs_dim, algo.act_dim and algo.continuous, or at "
            "buffer.path a dataset that says observation_space and action_space"
        )
    high = (_act_high(algo) or 1.0) if algo.bounded else np.inf
    space: spaces.Space[Any] = (
        spaces.Box(-high, high, (algo.act_dim,))
        if algo.continuous
        else spaces.Discrete(algo.act_dim)
    )
    return ObservationCodec.of(spaces.Box(-np.inf, np.inf, (algo.obs_dim,))), ActionCodec.of(space)


def _said_spaces(config: RunConfig, tools: Tools) -> Spaces | None:
    """The spaces that the dataset at `buffer.path` says it is of; sizes that are given come first."""
    algo, path = cast(OfflineAlgorithmConfig, config.algo), cast(OfflineConfig, config.buffer).path
    if path is None or tools.dataset is not None or algo.obs_dim is not None:
        return None
    about = read_about(Path(path))
    texts = [about.get(key) for key in ("observation_space", "action_space")]
    if not all(isinstance(text, str) for text in texts):
        return None
    observation, action = (space_of(str(text)) for text in texts)
    return ObservationCodec.of(observation, path), ActionCodec.of(action, path)


def _act_high(algo: OfflineAlgorithmConfig) -> float | None:
    """What is said of the bounds of actions, by algorithms whose policies have some."""
    if isinstance(algo, (OfflineCriticsConfig, DecisionTransformerConfig)):
        return algo.act_high
    return None


def _require_sizes(
    algo: OfflineAlgorithmConfig, observations: ObservationCodec, actions: ActionCodec
) -> None:
    pairs = {
        "obs_dim": (algo.obs_dim, observations.dim),
        "act_dim": (algo.act_dim, _act_dim(actions)),
        "continuous": (algo.continuous, not actions.choices),
    }
    for key, (given, there) in pairs.items():
        if given is not None and given != there:
            raise ConfigError(f"algo.{key}={given}: the environment has {there}")


def _require_high(algo: OfflineAlgorithmConfig, actions: UnitCodec) -> None:
    """A run that learned without an environment has the bounds still when it is given one."""
    high = _act_high(algo)
    if high is None:
        return
    try:
        actions.require_bounds(np.full(actions.size, -high), np.full(actions.size, high))
    except ConfigError as error:
        raise ConfigError(
            f"algo.act_high={high:g}: the environment says itself what bounds its actions have, "
            f"{actions.reach}; leave algo.act_high out, or take another environment for a run that learned so"
        ) from error


def _act_dim(actions: ActionCodec) -> int:
    """Numbers in an action; of a single choice among how many it is."""
    return actions.size if actions.discrete else actions.shape[0]


def _dataset(
    config: RunConfig, tools: Tools, observations: ObservationCodec, actions: ActionCodec
) -> Loaded:
    """The dataset that was handed over or that `buffer.path` names, checked."""
    buffer = cast(OfflineConfig, config.buffer)
    path, most = buffer.path, buffer.memory_bytes
    if tools.dataset is not None:
        name, env = "the dataset", None
        dataset: OfflineDatasetBuffer | DatasetOnDisk = tools.dataset
        columns: Mapping[str, Any] = columns_of(tools.dataset)
        digest = digest_of(columns)
    elif path is None:
        raise ConfigError(
            f"missing key 'buffer.path': {config.algo.name} learns from a dataset; name its folder, "
            "buffer.path=data/NAME, which rlox dataset make writes"
        )
    else:
        if not Path(path).exists():
            raise ConfigError(
                f"buffer.path={path} is not there, expected the folder of a dataset; name where it is now: "
                "buffer.path=FOLDER"
            )
        if most is None:
            most = (available_memory() or sys.maxsize) // 4
        read = read_dataset(Path(path), most)
        name, env = f"the dataset {path}", read.about.get("env")
        try:
            dataset = read.buffer(config.seed)
        except NonFiniteError as error:
            raise NonFiniteError(
                f"{name}: {error}; rlox dataset check says where, leave such episodes out"
            ) from error
        columns, digest = read.columns, read.digest
    stats = dataset.stats()
    if stats["obs_dim"] != observations.dim:
        of = f"{config.env.id} of {observations.dim}; name the environment it is of: env=..."
        if config.env.id == NO_ENV:
            of = f"but obs_dim={observations.dim} was given"
        elif env == config.env.id:
            of = f"though it says it is of {env}, whose have {observations.dim}; convert it with its own"
        raise ShapeError(f"{name} has observations of {stats['obs_dim']} numbers, {of}")
    if observations.images:
        _require_bytes(columns["obs"], dataset.normalized, name)
    require_taken(columns["actions"], actions, name, config.env.id)
    require_env(env, config.env.id, name)
    return Loaded(dataset, digest, columns)


def _require_bytes(obs: Column, normalized: bool, name: str) -> None:
    """Rows of bytes, as observations with images are encoded, which nothing has standardised."""
    if obs.dtype != np.uint8:
        raise ShapeError(
            f"{name} has observations of {obs.dtype}, expected uint8: an environment with images is recorded "
            "as rows of bytes"
        )
    if normalized:
        raise ConfigError(
            f"{name} standardises its observations, in which there are images: make it with normalize=False"
        )


def require_taken(taken: Column, actions: ActionCodec, name: str, env: str) -> None:
    """Choices that exist, as whole numbers of any type, and vectors of floating-point numbers."""
    width, expected = int(taken[:1].size), len(actions.choices) + actions.vector
    if width != expected:
        raise ShapeError(f"{name} has actions of {width} numbers, {env} of {expected}")
    if actions.vector and taken.dtype.kind != "f":
        raise ShapeError(
            f"the actions of {name} are {taken.dtype}, which are choices, expected floating-point "
            "vectors; is it of a Discrete environment (continuous=False)?"
        )
    for part, (rows,) in blocks(taken):
        _require_rows(rows.reshape(len(rows), width), part.start, actions, name, env)


def _require_rows(
    rows: NDArray[Any], first: int, actions: ActionCodec, name: str, env: str
) -> None:
    for at, n in enumerate(actions.choices):
        column = rows[:, at]
        exists = (column >= 0) & (column < n) & (column == np.floor(column))
        if not exists.all():
            where = f" as its choice {actions.names[at]}" if actions.names[at] else ""
            raise ShapeError(
                f"{name} has action {column[~exists][0]}{where}, expected a choice from 0 to {n - 1}; is it "
                "of vectors (continuous=True), or of another environment?"
            )
    if isinstance(actions, UnitCodec):
        _require_bounds(rows, first, actions, name, env)


def _require_bounds(
    rows: NDArray[Any], first: int, actions: UnitCodec, name: str, env: str
) -> None:
    room = TOLERANCE * (actions.high - actions.low)
    beyond = (rows < actions.low - room) | (rows > actions.high + room)
    if beyond.any():
        row, column = (int(at[0]) for at in np.nonzero(beyond))
        low, high = actions.low[column], actions.high[column]
        remedy = (
            "set act_high to what bounds them" if env == NO_ENV else "is it of this environment?"
        )
        raise ShapeError(
            f"{name} has {rows[row, column]:g} as number {column} of action {first + row}, expected one from "
            f"{low:g} to {high:g}; {remedy}"
        )


def require_env(recorded: Any, env: str, name: str) -> None:
    """`ConfigError` where both environments are known by an id and it is not the same."""
    known = isinstance(recorded, str) and not recorded.startswith("<")
    if not known or env == NO_ENV or env.startswith("<"):
        return
    if recorded.rpartition(":")[2] != env.rpartition(":")[2]:  # without the module to import first
        raise ConfigError(
            f"{name} is of env={recorded}, the run's is {env}; set env={recorded}, or leave the "
            "environment out in Python, with obs_dim, act_dim and continuous in its place"
        )
