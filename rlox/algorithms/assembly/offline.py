"""Construction of offline runs, which learn from a dataset and use an environment only for evaluation."""

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
from rlox.algorithms.assembly.encoding import EncoderSpec, make_encoder_spec, require_actions
from rlox.callbacks import CallbackRunner
from rlox.configs import DecisionTransformerConfig, IQLConfig, OfflineConfig, RunConfig, TD3BCConfig
from rlox.configs.offline import NO_ENV, OfflineAlgorithmConfig, OfflineCriticsConfig, OfflineNetworksConfig
from rlox.envs.actions import TOLERANCE, ActionCodec, UnitCodec
from rlox.envs.failures import close_or_warn
from rlox.envs.make import EvalEnvFactory, wrapped_factory
from rlox.envs.parts_codec import codec_of
from rlox.envs.space_json import space_from_json
from rlox.envs.spaces import ObservationCodec
from rlox.errors import ConfigError, NonFiniteError, ShapeError, UnsupportedSpaceError
from rlox.native.vector_policies import ContinuousSizes
from rlox.parameters.lazy_torch import LazyTorchModule
from rlox.runs.algorithm import Algorithm
from rlox.runs.constructor import ENV_OBJECTS, ObjectArgument
from rlox.runs.preflight import available_memory, require_networks
from rlox.sources.dataset import DatasetSource
from rlox.sources.dataset_file import columns_of, digest_of, read_dataset, read_document
from rlox.sources.dataset_on_disk import DatasetOnDisk
from rlox.sources.file_columns import Column, iter_blocks
from rlox.sources.preparation import LoadedDataset, Preparation
from rlox.training.actor import Actor, BaseActor, NativeActor
from rlox.training.backend import BackendSelector
from rlox.training.components import BuildContext, RunComponents
from rlox.training.evaluate import Evaluator
from rlox.training.loop import Learner
from rlox.training.setup import config_from_arguments, resolve_env

__all__ = [
    "NO_ENV",
    "DatasetArgument",
    "OfflineAlgorithm",
    "OfflineFactories",
    "PolicyAndLearner",
    "build_offline_run",
    "network_sizes",
    "require_env",
    "require_valid_actions",
]

SpaceCodecs = tuple[ObservationCodec, ActionCodec]
PolicyAndLearner = tuple[Any, Learner[Any]]  # a policy and its learner
# Builds the policy and its learner for an encoder and actions, with the backend that the selector chooses.
OfflineBuilder = Callable[[EncoderSpec, ActionCodec, BackendSelector], PolicyAndLearner]


@dataclass(frozen=True)
class OfflineFactories:
    """Factories of source and actor, which take the arguments of `DatasetSource` and `Actor`."""

    source: Callable[..., DatasetSource] = DatasetSource
    actor: Callable[..., BaseActor[Any]] = Actor


OFFLINE_OBJECTS = {
    "dataset": ObjectArgument(
        "DatasetArgument",
        "an `OfflineDatasetBuffer`, or the folder of a dataset; choices are whole numbers from 0, vectors "
        "are floating-point numbers; in actions of several parts the choices come first in each row",
    ),
    **ENV_OBJECTS,
    "env_id": ObjectArgument("EnvLike", f"environment to evaluate in: {ENV_OBJECTS['env_id'].doc}", NO_ENV),
}
DatasetArgument = OfflineDatasetBuffer | str | PathLike[str] | None


def build_offline_run(
    config: RunConfig,
    context: BuildContext,
    build_learner: OfflineBuilder,
    factories: OfflineFactories | None = None,
) -> RunComponents:
    """Build the components of a run whose learner, from `build_learner`, gets batches of the dataset."""
    factories = factories or OfflineFactories()
    if context.policy is not None:
        raise ConfigError(f"{config.algo.name} takes no policy of your own")
    if not isinstance(context.dataset, OfflineDatasetBuffer | None):
        raise ConfigError(
            f"dataset is a {type(context.dataset).__name__}, expected an OfflineDatasetBuffer, or the folder "
            "of a dataset as constructor argument"
        )
    algo, env = cast(OfflineAlgorithmConfig, config.algo), config.env
    observations, actions = _make_codecs(config, algo, context)
    encoder_spec = _make_encoder_spec(algo, observations, env.id)
    preparation = _make_preparation(algo, observations, actions, env.id)
    source = factories.source(
        lambda: _load_dataset(config, context, observations, actions),
        algo.batch_size,
        context.streams,
        preparation,
    )
    if context.fills_buffer:
        source.load()
    networks = algo.layer_widths(encoder_spec.features, actions.size, actions.is_discrete)
    require_networks(*networks, extra_parameters=encoder_spec.cost.parameters * algo.n_encoders)
    selector = BackendSelector(algo.backend, config, context.saved_backend)
    with context.network_init(config):
        policy, learner = build_learner(encoder_spec, actions, selector)
    actor_class = NativeActor if isinstance(policy, LazyTorchModule) else factories.actor
    actor = actor_class(policy, observations, actions, source.normalizer, context.device)
    evaluate = None
    if env.id != NO_ENV:
        evaluate = Evaluator(actor, EvalEnvFactory(env, context.env), config.eval)
    return RunComponents(source, learner, actor, evaluate, encoder_spec.descriptions, selector.backend)


class OfflineAlgorithm(Algorithm):
    """Base class of algorithms that learn from a dataset; they need no environment to learn.

    Without an environment, actions are vectors unless `continuous` is given.
    """

    object_arguments = OFFLINE_OBJECTS

    def _init_from_arguments(self, objects: dict[str, Any], fields: dict[str, Any]) -> None:
        """Initialise from the constructor's arguments: objects, and fields of the configuration."""
        env, dataset = resolve_env(objects["env_id"], objects["env"], NO_ENV), objects["dataset"]
        if fields.get("continuous") is None and env == NO_ENV:
            fields["continuous"] = True
        if dataset is not None and fields.get("buffer_path") is not None:
            raise ConfigError("dataset and buffer_path are two names of the same argument; give one of them")
        if isinstance(dataset, str | PathLike):
            fields["buffer_path"], dataset = fspath(dataset), None
        config = config_from_arguments(self.name, env, fields, self.object_arguments)
        self._build(config, CallbackRunner(objects["callbacks"], objects["logger"]), env=env, dataset=dataset)


def _make_encoder_spec(algo: OfflineAlgorithmConfig, observations: ObservationCodec, env: str) -> EncoderSpec:
    """Choose the encoder; algorithms without an MLP, such as Decision Transformer, do not support images."""
    if isinstance(algo, OfflineNetworksConfig):
        return make_encoder_spec(algo, observations, env)
    if observations.images:
        raise UnsupportedSpaceError(
            f"{algo.name} learns from vectors, {env} has images in its observations; use algo=bc, or flatten "
            "them with gymnasium.wrappers"
        )
    return EncoderSpec(observations.input_dim)


def _make_preparation(
    algo: OfflineAlgorithmConfig, observations: ObservationCodec, actions: ActionCodec, env: str
) -> Preparation:
    images = bool(observations.images)
    if images and algo.standardize_obs:
        raise ConfigError(
            f"algo.standardize_obs=true: {env} has images in its observations, which networks divide by the "
            "upper bound of their space; set algo.standardize_obs=false"
        )
    bounds = actions if isinstance(actions, UnitCodec) else None
    if not isinstance(algo, OfflineCriticsConfig):
        return Preparation(1.0, images, algo.standardize_obs, 1.0, bounds)
    return Preparation(algo.gamma, images, algo.standardize_obs, algo.reward_factor, bounds)


def _make_codecs(config: RunConfig, algo: OfflineAlgorithmConfig, context: BuildContext) -> SpaceCodecs:
    """Return codecs for the spaces of the environment, else of the dataset, else of the given sizes.

    Box actions are rescaled to [-1, 1] if the algorithm needs bounds.
    """
    observations, actions = _codecs_from_env_or_sizes(config, algo, context)
    require_actions(config, actions)
    if actions.kind != "Box" and (high := _action_bound(algo)) is not None:
        raise ConfigError(f"algo.act_high={high:g}: these actions are choices; leave algo.act_high out")
    if algo.needs_bounds and actions.kind == "Box":
        actions = actions.unit_codec(config.env.id, algo.name)
        _require_action_bound(algo, actions)
    return observations, actions


def _codecs_from_env_or_sizes(
    config: RunConfig, algo: OfflineAlgorithmConfig, context: BuildContext
) -> SpaceCodecs:
    if config.env.id != NO_ENV:
        env = wrapped_factory(config.env, context.env)()
        try:
            name = config.env.id
            codecs = (
                codec_of(env.observation_space, name),
                ActionCodec.of(env.action_space, name),
            )
        finally:
            close_or_warn(env, config.env.id)
        _require_sizes(algo, *codecs)
        return codecs
    if (recorded_codecs := _recorded_codecs(config, context)) is not None:
        _require_sizes(algo, *recorded_codecs)
        return recorded_codecs
    if algo.obs_dim is None or algo.act_dim is None or algo.continuous is None:
        raise ConfigError(
            f"{algo.name} without an environment needs algo.obs_dim, algo.act_dim and algo.continuous, or at "
            "buffer.path a dataset that records observation_space and action_space"
        )
    high = (_action_bound(algo) or 1.0) if algo.needs_bounds else np.inf
    space: spaces.Space[Any] = (
        spaces.Box(-high, high, (algo.act_dim,)) if algo.continuous else spaces.Discrete(algo.act_dim)
    )
    return codec_of(spaces.Box(-np.inf, np.inf, (algo.obs_dim,))), ActionCodec.of(space)


def _recorded_codecs(config: RunConfig, context: BuildContext) -> SpaceCodecs | None:
    """Return codecs for the spaces recorded in the dataset at `buffer.path`; None if `obs_dim` is given."""
    algo, path = cast(OfflineAlgorithmConfig, config.algo), cast(OfflineConfig, config.buffer).path
    if path is None or context.dataset is not None or algo.obs_dim is not None:
        return None
    metadata = read_document(Path(path))
    texts = [metadata.get(key) for key in ("observation_space", "action_space")]
    if not all(isinstance(text, str) for text in texts):
        return None
    observation, action = (space_from_json(str(text)) for text in texts)
    return codec_of(observation, path), ActionCodec.of(action, path)


def _action_bound(algo: OfflineAlgorithmConfig) -> float | None:
    """Return `algo.act_high`; None for algorithms without that field."""
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
    for key, (configured, actual) in pairs.items():
        if configured is not None and configured != actual:
            raise ConfigError(f"algo.{key}={configured}: the environment or dataset has {actual}")


def _require_action_bound(algo: OfflineAlgorithmConfig, actions: UnitCodec) -> None:
    """Raise `ConfigError` if `act_high` is set and is not the bound of these actions."""
    high = _action_bound(algo)
    if high is None:
        return
    try:
        actions.require_bounds(np.full(actions.size, -high), np.full(actions.size, high))
    except ConfigError as error:
        raise ConfigError(
            f"algo.act_high={high:g}: the environment's actions have other bounds, {actions.bounds_text}; "
            "leave algo.act_high out, or, if a run was trained with it, use an environment with that bound"
        ) from error


def _act_dim(actions: ActionCodec) -> int:
    """Return the size of an action, or the number of actions if they are Discrete."""
    return actions.size if actions.is_discrete else actions.shape[0]


def _load_dataset(
    config: RunConfig, context: BuildContext, observations: ObservationCodec, actions: ActionCodec
) -> LoadedDataset:
    """Load and check the dataset given as an object or named by `buffer.path`."""
    buffer = cast(OfflineConfig, config.buffer)
    path, max_bytes = buffer.path, buffer.memory_bytes
    if context.dataset is not None:
        name, env = "the dataset", None
        dataset: OfflineDatasetBuffer | DatasetOnDisk = context.dataset
        columns: Mapping[str, Any] = columns_of(context.dataset)
        digest = digest_of(columns)
    elif path is None:
        raise ConfigError(
            f"missing key 'buffer.path': {config.algo.name} learns from a dataset; give its folder, "
            "buffer.path=data/NAME (rlox dataset make writes one)"
        )
    else:
        if not Path(path).exists():
            raise ConfigError(
                f"buffer.path={path} is not there, expected the folder of a dataset; give its present path: "
                "buffer.path=FOLDER"
            )
        if max_bytes is None:
            max_bytes = (available_memory() or sys.maxsize) // 4
        loaded = read_dataset(Path(path), max_bytes)
        name, env = f"the dataset {path}", loaded.about.get("env")
        try:
            dataset = loaded.buffer(config.seed)
        except NonFiniteError as error:
            raise NonFiniteError(
                f"{name}: {error}; rlox dataset check says where; leave such episodes out"
            ) from error
        columns, digest = loaded.columns, loaded.digest
    stats = dataset.stats()
    if stats["obs_dim"] != observations.dim:
        expectation = f"{config.env.id} of {observations.dim}; set env=... to the environment of the dataset"
        if config.env.id == NO_ENV:
            expectation = f"but obs_dim={observations.dim} was given"
        elif env == config.env.id:
            expectation = (
                f"but its recorded environment is {env}, whose observations have {observations.dim}; convert "
                "it with the environment that it comes from"
            )
        raise ShapeError(f"{name} has observations of {stats['obs_dim']} numbers, {expectation}")
    if observations.images:
        _require_bytes(columns["obs"], dataset.normalized, name)
    require_valid_actions(columns["actions"], actions, name, config.env.id)
    require_env(env, config.env.id, name)
    return LoadedDataset(dataset, digest, columns)


def _require_bytes(obs: Column, normalized: bool, name: str) -> None:
    """Require uint8 observations that are not standardised, as image observations are stored."""
    if obs.dtype != np.uint8:
        raise ShapeError(
            f"{name} has observations of {obs.dtype}, expected uint8: an environment with images is recorded "
            "as rows of bytes"
        )
    if normalized:
        raise ConfigError(
            f"{name} standardises its observations, which contain images: make it with normalize=False"
        )


def require_valid_actions(actions_column: Column, actions: ActionCodec, name: str, env: str) -> None:
    """Require choices that exist, as whole numbers of any dtype, and float vectors within the bounds."""
    width, expected = int(actions_column[:1].size), len(actions.choices) + actions.box_dim
    if width != expected:
        raise ShapeError(f"{name} has actions of {width} numbers, {env} of {expected}")
    if actions.box_dim and actions_column.dtype.kind != "f":
        raise ShapeError(
            f"the actions of {name} are {actions_column.dtype}, which are choices, expected floating-point "
            "vectors; is it from a Discrete environment (continuous=False)?"
        )
    for block, (rows,) in iter_blocks(actions_column):
        _require_rows(rows.reshape(len(rows), width), block.start, actions, name, env)


def _require_rows(rows: NDArray[Any], first_row: int, actions: ActionCodec, name: str, env: str) -> None:
    for choice_index, n in enumerate(actions.choices):
        column = rows[:, choice_index]
        exists = (column >= 0) & (column < n) & (column == np.floor(column))
        if not exists.all():
            name_text = f" as its choice {actions.names[choice_index]}" if actions.names[choice_index] else ""
            raise ShapeError(
                f"{name} has action {column[~exists][0]}{name_text}, expected a choice from 0 to {n - 1}; "
                "are its actions vectors (continuous=True), or is it from another environment?"
            )
    if isinstance(actions, UnitCodec):
        _require_bounds(rows, first_row, actions, name, env)


def _require_bounds(rows: NDArray[Any], first_row: int, actions: UnitCodec, name: str, env: str) -> None:
    tolerance = TOLERANCE * (actions.high - actions.low)
    is_out_of_bounds = (rows < actions.low - tolerance) | (rows > actions.high + tolerance)
    if is_out_of_bounds.any():
        row, column = (int(indices[0]) for indices in np.nonzero(is_out_of_bounds))
        low, high = actions.low[column], actions.high[column]
        remedy = "set act_high to the actions' bound" if env == NO_ENV else "is it from this environment?"
        raise ShapeError(
            f"{name} has {rows[row, column]:g} as number {column} of action {first_row + row}, expected a "
            f"number from {low:g} to {high:g}; {remedy}"
        )


def require_env(recorded: Any, env: str, name: str) -> None:
    """Raise `ConfigError` if the recorded and the run's environment both have an id and the ids differ."""
    is_known = isinstance(recorded, str) and not recorded.startswith("<")
    if not is_known or env == NO_ENV or env.startswith("<"):
        return
    if recorded.rpartition(":")[2] != env.rpartition(":")[2]:  # the ids without the module before the colon
        raise ConfigError(
            f"{name} is from env={recorded}, the run's environment is {env}; set env={recorded}, or, in "
            "Python, leave the environment out and give obs_dim, act_dim and continuous"
        )


def network_sizes(
    algo: TD3BCConfig | IQLConfig, encoder_spec: EncoderSpec, actions: ActionCodec
) -> ContinuousSizes:
    """Return the layer sizes of the actor and its critics."""
    shapes = (algo.n_critics, *algo.hidden_widths, algo.activation)
    return ContinuousSizes(encoder_spec.features, actions.size, actions.size, *shapes)
