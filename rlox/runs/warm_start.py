"""Warm start: a new run begins with the weights of another one (`init_from=RUN`)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from rlox.configs import RunConfig, make_run, upgrade_saved_config
from rlox.configs.env import EnvConfig, is_text
from rlox.configs.offline import UNUSED_ENV_FIELDS, OfflineAlgorithmConfig, OfflineCriticsConfig, format_value
from rlox.envs.actions import UnitCodec
from rlox.envs.normalize import RELATIVE, FixedNormalizer, ObservationNormalizer
from rlox.errors import CheckpointError, ConfigError
from rlox.runs.checkpoint import Checkpoint, read_checkpoint, resolve_checkpoint
from rlox.runs.loading import require_same_spaces
from rlox.sources.replay import ReplaySource
from rlox.training.components import RunComponents
from rlox.training.setup import first_line

if TYPE_CHECKING:  # a run of the native engine imports no torch
    from rlox.sources.dataset import DatasetSource

__all__ = ["warm_start"]

POLICY_REMEDY = (
    "init_from loads a whole policy: give the run the same algorithm, algo.net_arch and policy, and an "
    "environment with the same spaces"
)
MODEL_REMEDY = (
    "init_from loads a whole model: give the run the same model, task or tokenizer, and adapters; rlox "
    "export RUN writes the model as a folder, and model=FOLDER loads it in any run"
)


def warm_start(path: str, config: RunConfig, components: RunComponents) -> dict[str, Any]:
    """Load the weights in a run or checkpoint folder into a learner that has not learned yet.

    The moments that standardised the policy's observations are loaded too. The new run has its own optimizer,
    counters, random streams and replay buffer. The loaded policy, instead of random actions, fills the replay
    buffer. The folder is data: no code that it names is imported.

    Returns the origin of the weights, for the provenance. Raises `ConfigError` if something does not fit.
    """
    try:
        checkpoint_folder = resolve_checkpoint(Path(path))
        saved_checkpoint = read_checkpoint(checkpoint_folder)
        saved_config = make_run(upgrade_saved_config(saved_checkpoint.config))
    except (CheckpointError, ConfigError) as error:
        raise ConfigError(f"init_from={path}: {error}") from error
    algorithms = (saved_config.algo.name, config.algo.name)
    if set(saved_config.env.critic_obs) != set(config.env.critic_obs):
        raise ConfigError(
            f"init_from={path}: its actor learned with env.critic_obs={list(saved_config.env.critic_obs)}, "
            f"here it is {list(config.env.critic_obs)}; set the same parts"
        )
    _require_same_shapes(
        path, algorithms, saved_checkpoint.weights, components.actor.weights(), is_text(config.env.id)
    )
    if mismatch := config.algo.policy_mismatch(saved_config.algo):
        raise ConfigError(f"init_from={path}: its policy has {mismatch}")
    try:
        require_same_spaces(saved_checkpoint.state, config, components.actor, ConfigError)
        _require_bounds(saved_checkpoint, components.actor.actions)
        _require_rewards(saved_config, config, saved_checkpoint, components)
        _adopt_moments(saved_checkpoint, config, components)
        components.learner.load_initial_weights(saved_checkpoint.weights)
        if isinstance(components.source, ReplaySource):
            components.source.skip_random_warmup()
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        if isinstance(error, ConfigError):
            raise ConfigError(f"init_from={path}: {error}") from error
        raise ConfigError(f"init_from={path}: the checkpoint is damaged: {first_line(error)}") from error
    weights = (checkpoint_folder / "weights.safetensors").read_bytes()
    return {
        "path": path,
        "checkpoint": checkpoint_folder.name,
        "algo": saved_config.algo.name,
        "env": saved_config.env.id,
        **saved_checkpoint.clock,
        "weights_sha256": hashlib.sha256(weights).hexdigest(),
    }


def _require_same_shapes(
    path: str,
    algorithms: tuple[str, str],
    saved_weights: Mapping[str, Any],
    current_weights: Mapping[str, Any],
    is_text_run: bool,
) -> None:
    algorithm_note = (
        ""
        if algorithms[0] == algorithms[1]
        else f"a policy of {algorithms[0]} cannot initialise {algorithms[1]}: "
    )
    for name in [*current_weights, *saved_weights]:
        shapes = [list(w[name].shape) if name in w else "missing" for w in (saved_weights, current_weights)]
        if shapes[0] != shapes[1]:
            raise ConfigError(
                f"init_from={path}: {algorithm_note}{name} is {shapes[0]} there and {shapes[1]} here\n"
                f"  {MODEL_REMEDY if is_text_run else POLICY_REMEDY}"
            )


def _require_bounds(saved_checkpoint: Checkpoint, actions: Any) -> None:
    """Check the action bounds of a policy that learned from a dataset."""
    source = saved_checkpoint.state["source"]
    if "act_low" in source and isinstance(actions, UnitCodec):
        actions.require_bounds(source["act_low"], source["act_high"])


def _require_rewards(
    saved_config: RunConfig, config: RunConfig, saved_checkpoint: Checkpoint, components: RunComponents
) -> None:
    """Check that critics get rewards of the same scale as before, if either run learns offline."""
    offline = [isinstance(run.algo, OfflineCriticsConfig) for run in (saved_config, config)]
    if not any(offline):
        return
    if non_scaling_setting := _non_scaling_setting(config.env):
        raise ConfigError(
            "its critics learned from rewards that were at most scaled, but this run has "
            f"{non_scaling_setting}; "
            "leave it out"
        )
    if non_scaling_setting := _non_scaling_setting(saved_config.env):
        raise ConfigError(
            f"its critics learned with {non_scaling_setting}, which does not apply to the rewards of a "
            "dataset; "
            "train the loaded run without it"
        )
    saved_factor, factor = _reward_factor(saved_config), _reward_factor(config)
    if saved_factor is None and not offline[1]:
        raise ConfigError(
            "its critics learned with algo.scale_rewards=returns, which does not apply to an environment; "
            "train the loaded run with a number as algo.scale_rewards"
        )
    if (
        saved_factor is None
        and factor is None
        and saved_checkpoint.state["source"]["digest"] != cast("DatasetSource", components.source).digest
    ):
        raise ConfigError(
            "its critics learned with algo.scale_rewards=returns, which gives other rewards for this dataset"
            "; train both runs with a number as algo.scale_rewards"
        )
    if saved_factor != factor:
        key = "algo.scale_rewards" if offline[1] else "env.reward_scale"
        factor_text, value = (
            ("a factor from the returns", "returns") if saved_factor is None else (f"{saved_factor:g}",) * 2
        )
        raise ConfigError(f"its critics learned from rewards times {factor_text}; set {key}={value}")


def _non_scaling_setting(env: EnvConfig) -> str:
    """Return a setting that changes rewards by more than a factor, as text; empty if there is none."""
    for key in ("normalize_reward", "reward_clip", "reward_wrappers"):
        if (value := getattr(env, key)) != UNUSED_ENV_FIELDS[key]:
            return f"env.{key}={format_value(value)}"
    return ""


def _reward_factor(run: RunConfig) -> float | None:
    """Return the factor of rewards; `None` if it is derived from the returns of the dataset."""
    algo = run.algo
    return algo.reward_factor if isinstance(algo, OfflineCriticsConfig) else run.env.reward_scale


def _adopt_moments(saved_checkpoint: Checkpoint, config: RunConfig, components: RunComponents) -> None:
    """Adopt the moments that standardised the policy's observations; raise `ConfigError` for a misfit."""
    source, fixed_normalizer = saved_checkpoint.state["source"], FixedNormalizer()
    fixed_normalizer.restore(source)
    running_state: dict[str, Any] | None = source.get("obs_normalizer")
    if isinstance(config.algo, OfflineAlgorithmConfig):
        if running_state is not None:
            raise ConfigError(
                "its policy was trained with running moments of its environment, but those of a dataset are "
                "fixed; train the loaded run with env.normalize_obs=false"
            )
        cast("DatasetSource", components.source).adopt_moments(fixed_normalizer)
        return
    moments = (
        running_state
        if fixed_normalizer.moments is None
        else _running_moments(fixed_normalizer, saved_checkpoint.clock["samples"])
    )
    normalizer = components.actor.normalizer
    if moments is not None and not isinstance(normalizer, ObservationNormalizer):
        raise ConfigError("its policy was trained on standardised observations; set env.normalize_obs=true")
    if moments is None and isinstance(normalizer, ObservationNormalizer):
        raise ConfigError(
            "its policy was trained on unstandardised observations; set env.normalize_obs=false"
        )
    if moments is not None and isinstance(normalizer, ObservationNormalizer):
        normalizer.restore(moments)
        saved_rule, current_rule = normalizer.moments.rule, config.env.normalize_rule
        if saved_rule != current_rule:  # rewards would follow another rule than observations
            raise ConfigError(
                f"its policy was trained with env.normalize_rule={saved_rule}, but this run has "
                f"env.normalize_rule={current_rule}; set env.normalize_rule={saved_rule}"
            )


def _running_moments(fixed_normalizer: FixedNormalizer, n_rows: int) -> dict[str, Any]:
    """Turn the moments of a dataset into the state of a running normaliser.

    Their count becomes `n_rows`, so new observations hardly change them. Normalised values are not clipped.
    """
    assert fixed_normalizer.moments is not None
    mean, _ = fixed_normalizer.moments
    var = np.square(fixed_normalizer.divisors)
    return {
        "count": max(1, n_rows),
        "mean": mean,
        "var": var,
        "rule": RELATIVE,
        "clips": False,
    }
