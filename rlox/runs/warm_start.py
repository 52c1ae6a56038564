"""A run that begins with the weights of another one: `init_from=RUN`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from rlox.configs import RunConfig, make_run, upgrade_saved
from rlox.configs.env import EnvConfig
from rlox.configs.offline import IDLE, OfflineAlgorithmConfig, worded
from rlox.configs.offline_critics import OfflineCriticsConfig
from rlox.configs.text import is_text
from rlox.envs.actions import UnitCodec
from rlox.envs.normalize import RELATIVE, FixedNormalizer, ObservationNormalizer
from rlox.errors import CheckpointError, ConfigError
from rlox.runs.checkpoint import Checkpoint, read_checkpoint, resolve_checkpoint
from rlox.runs.spaces import require_spaces
from rlox.sources.replay import ReplaySource
from rlox.training.parts import Parts
from rlox.training.setup import first_line

if TYPE_CHECKING:  # a run of the native engine imports no torch
    from rlox.sources.dataset import DatasetSource

__all__ = ["warm_start"]

WHOLE = (
    "a policy is taken over whole: give the run the same algorithm, algo.net_arch and policy, and an "
    "environment with the same spaces"
)
OF_TEXT = (
    "a model is taken over whole: give the run the same model, task or tokenizer, and adapters; rlox export "
    "RUN writes one as a folder, which model=FOLDER takes into any run"
)


def warm_start(path: str, config: RunConfig, parts: Parts) -> dict[str, Any]:
    """Give a learner that has not learned yet the weights in a run or checkpoint folder.

    With them come the moments of its observations, or of its dataset's. Optimizer, counters, random
    streams and replay, which the policy fills, are the new run's own. Returns where they come from, for the
    provenance; `ConfigError` for what does not fit. The folder is data: nothing that it names is imported.
    """
    try:
        checkpoint = resolve_checkpoint(Path(path))
        saved = read_checkpoint(checkpoint)
        trained = make_run(upgrade_saved(saved.config))
    except (CheckpointError, ConfigError) as error:
        raise ConfigError(f"init_from={path}: {error}") from error
    kinds = (trained.algo.name, config.algo.name)
    _require_same(path, kinds, saved.weights, parts.actor.weights(), is_text(config.env.id))
    if wrong := config.algo.other_function(trained.algo):
        raise ConfigError(f"init_from={path}: its policy has {wrong}")
    try:
        require_spaces(saved.state, config, parts.actor, ConfigError)
        _require_bounds(saved, parts.actor.actions)
        _require_rewards(trained, config, saved, parts)
        _take_moments(saved, config, parts)
        parts.learner.begin_from(saved.weights)
        if isinstance(parts.source, ReplaySource):
            parts.source.act_at_once()
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
    path: str,
    kinds: tuple[str, str],
    there: Mapping[str, Any],
    here: Mapping[str, Any],
    text: bool,
) -> None:
    other = "" if kinds[0] == kinds[1] else f"a policy of {kinds[0]} does not begin {kinds[1]}: "
    for name in [*here, *there]:
        shapes = [list(w[name].shape) if name in w else "missing" for w in (there, here)]
        if shapes[0] != shapes[1]:
            raise ConfigError(
                f"init_from={path}: {other}{name} is {shapes[0]} there and {shapes[1]} here\n"
                f"  {OF_TEXT if text else WHOLE}"
            )


def _require_bounds(saved: Checkpoint, actions: Any) -> None:
    """What learned from a dataset says over which bounds its actions were stretched."""
    source = saved.state["source"]
    if "act_low" in source and isinstance(actions, UnitCodec):
        actions.require_bounds(source["act_low"], source["act_high"])


def _require_rewards(
    trained: RunConfig, config: RunConfig, saved: Checkpoint, parts: Parts
) -> None:
    """Critics that learned offline, or go on offline, expect rewards as large as they were there."""
    offline = [isinstance(run.algo, OfflineCriticsConfig) for run in (trained, config)]
    if not any(offline):
        return
    if other := _other_rewards(config.env):
        raise ConfigError(
            f"its critics learned from rewards that only a factor changes, here is {other}; leave it out"
        )
    if other := _other_rewards(trained.env):
        raise ConfigError(
            f"its critics learned with {other}, which changes no reward of a dataset; train it without"
        )
    there, here = _factor(trained), _factor(config)
    if there is None and not offline[1]:
        raise ConfigError(
            "its critics learned from rewards of algo.scale_rewards=returns, which no environment pays; "
            "train with a number"
        )
    if (
        there is None
        and here is None
        and saved.state["source"]["digest"] != cast("DatasetSource", parts.source).digest
    ):
        raise ConfigError(
            "its critics learned from rewards of algo.scale_rewards=returns, which are others of this "
            "dataset; train both with a number"
        )
    if there != here:
        key = "algo.scale_rewards" if offline[1] else "env.reward_scale"
        times, value = ("those of returns", "returns") if there is None else (f"{there:g}",) * 2
        raise ConfigError(f"its critics learned from {times} times the rewards; set {key}={value}")


def _other_rewards(env: EnvConfig) -> str:
    """What changes rewards otherwise than by a factor, as a setting; empty where nothing does."""
    for key in ("normalize_reward", "reward_clip", "reward_wrappers"):
        if (given := getattr(env, key)) != IDLE[key]:
            return f"env.{key}={worded(given)}"
    return ""


def _factor(run: RunConfig) -> float | None:
    """What rewards are multiplied by; None: by the returns of the dataset."""
    algo = run.algo
    return algo.reward_factor if isinstance(algo, OfflineCriticsConfig) else run.env.reward_scale


def _take_moments(saved: Checkpoint, config: RunConfig, parts: Parts) -> None:
    """What its policy saw observations standardised by; `ConfigError` where that is not done here."""
    source, fixed = saved.state["source"], FixedNormalizer()
    fixed.restore(source)
    running: dict[str, Any] | None = source.get("obs_normalizer")
    if isinstance(config.algo, OfflineAlgorithmConfig):
        if running is not None:
            raise ConfigError(
                "its policy saw observations standardised by moments of its environment that went on, those "
                "of a dataset stay; train it with env.normalize_obs=false"
            )
        cast("DatasetSource", parts.source).begin_with(fixed)
        return
    moments = running if fixed.moments is None else _going_on(fixed, saved.clock["samples"])
    normalizer = parts.actor.normalizer
    if moments is not None and not isinstance(normalizer, ObservationNormalizer):
        raise ConfigError("its policy saw standardised observations; set env.normalize_obs=true")
    if moments is None and isinstance(normalizer, ObservationNormalizer):
        raise ConfigError("its policy saw observations as they are; set env.normalize_obs=false")
    if moments is not None and isinstance(normalizer, ObservationNormalizer):
        normalizer.restore(moments)
        there, here = normalizer.moments.rule, config.env.normalize_rule
        if there != here:  # rewards would be standardised by the one, observations by the other
            raise ConfigError(
                f"its policy saw observations standardised by the rule {there}, here is "
                f"env.normalize_rule={here}; set env.normalize_rule={there}"
            )


def _going_on(fixed: FixedNormalizer, drawn: int) -> dict[str, Any]:
    """Moments of a dataset as a running normaliser goes on with them.

    They count as much as the rows that were drawn from it: they stay nearly as they are. Nothing is clipped.
    """
    assert fixed.moments is not None
    mean, _ = fixed.moments
    var = np.square(fixed.scale)
    return {
        "count": max(1, drawn),
        "mean": mean,
        "var": var,
        "rule": RELATIVE,
        "clips": False,
    }
