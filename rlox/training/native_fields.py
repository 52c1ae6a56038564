"""The configuration fields and spaces that the native engine implements.

A field that is not listed here is known to torch only: a new field of a built-in algorithm, or one of a
derived configuration. If it differs from its default, torch learns; see
`rlox.training.backend.BackendSelector`. Add a field's name here when Rust implements it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from rlox.configs.params import default_of
from rlox.envs.actions import ActionCodec
from rlox.parameters.engine import NativeUnsupportedError

__all__ = ["NATIVE_FIELDS", "native_space_obstacle", "require_native", "unsupported_fields"]

_NETWORKS = frozenset(["net_arch", "encoder", "encoder_features", "image_channels", "activation"])
_COMMON = frozenset(["name", "learning_rate", "anneal_lr", "backend"]) | _NETWORKS
_ON_POLICY = _COMMON | frozenset(
    [
        "n_steps",
        "gamma",
        "gae_lambda",
        "normalize_advantages",
        "vf_coef",
        "ent_coef",
        "max_grad_norm",
        "critic_net_arch",
        "policy",
        "share_encoder",
        "ortho_init",
        "log_std_init",
        "use_sde",
        "sde_sample_freq",
    ]
)
_OFF_POLICY = _COMMON | frozenset(
    [
        "learning_starts",
        "batch_size",
        "gamma",
        "train_freq",
        "gradient_steps",
        "replay_ratio",
        "n_step",
        "prioritized",
    ]
)
_CRITICS = frozenset(["tau", "n_critics", "critic_net_arch", "max_grad_norm"])
_DELAYS = frozenset(["policy_delay", "target_noise", "noise_clip"])
_DDPG = _OFF_POLICY | _CRITICS | {"exploration_noise"}
_OFFLINE = _COMMON | frozenset(["batch_size", "standardize_obs", "obs_dim", "act_dim", "continuous"])
_OFFLINE_CRITICS = _OFFLINE | _CRITICS | frozenset(["gamma", "scale_rewards", "act_high"])

NATIVE_FIELDS: Mapping[str, frozenset[str]] = {
    "ppo": _ON_POLICY
    | frozenset(["n_epochs", "batch_size", "clip_eps", "anneal_clip", "clip_vloss", "target_kl"]),
    "a2c": _ON_POLICY | frozenset(["use_rms_prop", "rms_prop_eps", "rms_prop_tf_like"]),
    "dqn": _OFF_POLICY
    | frozenset(
        [
            "target_update_interval",
            "tau",
            "exploration_fraction",
            "exploration_initial_eps",
            "exploration_final_eps",
            "exploration_eps",
            "double_dqn",
            "dueling",
            "noisy",
            "noisy_sigma",
            "distribution",
            "n_atoms",
            "v_min",
            "v_max",
            "n_quantiles",
            "loss",
            "adam_eps",
            "max_grad_norm",
        ]
    ),
    "sac": _OFF_POLICY
    | _CRITICS
    | frozenset(
        [
            "ent_coef",
            "target_entropy",
            "target_update_interval",
            "use_sde",
            "sde_sample_freq",
            "log_std_init",
        ]
    ),
    "ddpg": _DDPG,
    "td3": _DDPG | _DELAYS,
    "bc": _OFFLINE | {"loss", "max_grad_norm"},
    "iql": _OFFLINE_CRITICS | frozenset(["expectile", "temperature", "max_weight", "cosine_actor"]),
    "td3_bc": _OFFLINE_CRITICS | _DELAYS | {"alpha"},
}
"""The fields by name of the algorithm, also those of which an engine itself refuses some values (`noisy`)."""


def unsupported_fields(config: Any) -> str:
    """Name a field that the native engine does not implement, in words; empty if it implements all."""
    implemented = NATIVE_FIELDS.get(config.name)
    if implemented is None:
        return f"{config.name} has no native engine"
    for field in fields(config):
        value = getattr(config, field.name)
        if field.name not in implemented and value != default_of(field):
            return f"the native engine does not implement algo.{field.name} (it is {value})"
    return ""


def native_space_obstacle(
    algo: Any, actions: ActionCodec, device: str, has_images: bool, is_masked: bool = False
) -> str:
    """Say why the native engine cannot learn in these spaces on this device; empty if it can.

    `has_images`: whether observations contain images; `is_masked`: whether the environment has action masks.
    """
    if actions.kind == "factored":
        return "native learns one choice or one vector, not actions of several parts"
    if obstacle := algo.native_obstacle(actions.is_discrete, is_masked):
        return str(obstacle)
    if has_images:
        return "native learns from vectors, not from images"
    if device != "cpu":
        return f"native learns on the CPU, not on device={device}"
    return ""


def require_native(
    algo: Any, actions: ActionCodec, device: str, has_images: bool, is_masked: bool = False
) -> None:
    """Raise `NativeUnsupportedError` if `native_space_obstacle` names an obstacle."""
    if obstacle := native_space_obstacle(algo, actions, device, has_images, is_masked):
        raise NativeUnsupportedError(obstacle)
