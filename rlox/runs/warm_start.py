"""A run that begins with the weights of another one: `init_from=RUN`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rlox.configs import RunConfig, make_run
from rlox.configs.offline_critics import OfflineCriticsConfig
from rlox.envs.actions import UnitCodec
from rlox.envs.normalize import EPSILON, FixedNormalizer, ObservationNormalizer
from rlox.errors import CheckpointError, ConfigError
from rlox.runs.checkpoint import Checkpoint, read_checkpoint, resolve_checkpoint
from rlox.training.actor import ActorOf
from rlox.training.loop import Learner
from rlox.training.setup import first_line

__all__ = ["warm_start"]

WHOLE = (
    "a policy is taken over whole: give the run the same algorithm, algo.net_arch and policy, and an "
    "environment with the same spaces"
)


def warm_start(
    path: str, config: RunConfig, learner: Learner[Any], actor: ActorOf[Any]
) -> dict[str, Any]:
    """Give a learner that has not learned yet the weights in a run or checkpoint folder.

    With them come the moments of its observations, or of its dataset's. Optimizer, counters, random
    streams and replay are the new run's own. Returns where they come from, for the provenance;
    `ConfigError` for what does not fit. The folder is data: nothing that it names is imported.
    """
    try:
        checkpoint = resolve_checkpoint(Path(path))
        saved = read_checkpoint(checkpoint)
        trained = make_run(saved.config)
    except (CheckpointError, ConfigError) as error:
        raise ConfigError(f"init_from={path}: {error}") from error
    kinds = (trained.algo.name, config.algo.name)
    _require_same(path, kinds, saved.weights, actor.policy.state_dict())
    if wrong := config.algo.other_function(trained.algo):
        raise ConfigError(f"init_from={path}: its policy has {wrong}")
    try:
        _require_bounds(saved, actor)
        _require_rewards(trained, config)
        _take_moments(saved, actor)
        learner.begin_from(saved.weights)
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        if isinstance(error, ConfigError):
            raise ConfigError(f"init_from={path}: {error}") from error
        raise ConfigError(
            f"init_from={path}: the checkpoint is damaged: {first_line(error)}"
        ) from error
    weights = (checkpoint / "weights.safetensors").read_bytes()
    return {
        "path": path,
        "checkpoint": checkpoint.name,
        "algo": trained.algo.name,
        "env": trained.env.id,
        **saved.clock,
        "weights_sha256": hashlib.sha256(weights).hexdigest(),
    }


def _require_same(
    path: str, kinds: tuple[str, str], there: Mapping[str, Any], here: Mapping[str, Any]
) -> None:
    other = "" if kinds[0] == kinds[1] else f"a policy of {kinds[0]} does not begin {kinds[1]}: "
    for name in [*here, *there]:
        shapes = [list(w[name].shape) if name in w else "missing" for w in (there, here)]
        if shapes[0] != shapes[1]:
            raise ConfigError(
                f"init_from={path}: {other}{name} is {shapes[0]} there and {shapes[1]} here\n  {WHOLE}"
            )


def _require_bounds(saved: Checkpoint, actor: ActorOf[Any]) -> None:
    """What learned from a dataset says over which bounds its actions were stretched."""
    source, actions = saved.state["source"], actor.actions
    if "act_low" in source and isinstance(actions, UnitCodec):
        actions.require_bounds(source["act_low"], source["act_high"])


def _require_rewards(trained: RunConfig, config: RunConfig) -> None:
    """Critics that learned offline expect rewards as large as they were there."""
    there, here = trained.algo, config.algo
    if not isinstance(there, OfflineCriticsConfig) or isinstance(here, OfflineCriticsConfig):
        return
    if there.reward_factor is None:
        raise ConfigError(
            "its critics learned from rewards of algo.scale_rewards=returns, which no environment pays; "
            "train with a number"
        )
    if there.reward_factor != config.env.reward_scale:
        raise ConfigError(
            f"its critics learned from {there.reward_factor:g} times the rewards; set "
            f"env.reward_scale={there.reward_factor:g}"
        )


def _moments_of(saved: Checkpoint) -> dict[str, Any] | None:
    """What a running normaliser goes on with.

    Those of a dataset count as much as the rows that were drawn from it: they stay nearly as they are.
    """
    source = saved.state["source"]
    fixed = FixedNormalizer()
    fixed.restore(source)
    if fixed.moments is None:
        found: dict[str, Any] | None = source.get("obs_normalizer")
        return found
    mean, _ = fixed.moments
    return {
        "count": max(1, saved.clock["samples"]),
        "mean": mean,
        "var": np.square(fixed.scale) - EPSILON,
    }


def _take_moments(saved: Checkpoint, actor: ActorOf[Any]) -> None:
    moments, normalizer = _moments_of(saved), actor.normalizer
    if moments is not None and not isinstance(normalizer, ObservationNormalizer):
        raise ConfigError("its policy saw standardised observations; set env.normalize_obs=true")
    if moments is None and isinstance(normalizer, ObservationNormalizer):
        raise ConfigError("its policy saw observations as they are; set env.normalize_obs=false")
    if moments is not None and isinstance(normalizer, ObservationNormalizer):
        normalizer.restore(moments)
