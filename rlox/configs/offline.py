"""Configuration that algorithms on a dataset share."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

from rlox.configs.base import COMMON_NATIVE_FIELDS, AlgorithmConfig
from rlox.configs.buffers import BufferConfig
from rlox.configs.env import EnvConfig
from rlox.configs.off_policy import CRITICS_NATIVE_FIELDS, CriticsConfig
from rlox.configs.params import encoder_features_field, encoder_field, image_channels_field, param
from rlox.configs.schedules import Schedule, schedule
from rlox.errors import ConfigError

# Fields about stepping environments in training, with the only value that is allowed.
UNUSED_ENV_FIELDS: dict[str, Any] = {
    "n_envs": 1,
    "workers": "sync",
    "normalize_obs": False,
    "normalize_reward": False,
    "normalize_rule": "relative",
    "reward_wrappers": (),
    "reward_scale": 1.0,
    "reward_clip": None,
}
NO_ENV = "none"  # env.id of a run that learns from a dataset and is not evaluated
# File formats that datasets are read from and written to.
FORMATS = ("rlox", "minari", "d4rl", "npz", "parquet")
# Fields of `algo` that do to a dataset what these fields of `env` do to an environment.
DATASET_COUNTERPARTS = {"normalize_obs": "standardize_obs", "reward_scale": "scale_rewards"}


@dataclass(frozen=True)
class OfflineAlgorithmConfig(AlgorithmConfig):
    """Offline algorithms count updates; the environment is only needed for evaluation."""

    unit: ClassVar[Literal["env_steps", "updates", "samples"]] = "updates"
    batch_name: ClassVar[str] = "updates"
    buffers: ClassVar[tuple[str, ...]] = ("offline",)
    unused_env_fields: ClassVar[frozenset[str] | None] = frozenset(UNUSED_ENV_FIELDS)
    native_fields: ClassVar[frozenset[str]] = COMMON_NATIVE_FIELDS | {
        "batch_size", "standardize_obs", "obs_dim", "act_dim", "continuous"
    }  # fmt: skip
    default_overrides: ClassVar[dict[str, Any]] = {
        "env.n_envs": 1,
        "total_steps": 20_000,
        "log.every": 500,
        "checkpoint.every": 5_000,
    }

    name: str = param(doc="the algorithm")
    learning_rate: Schedule = schedule(3e-4, "Adam step size", within="(0, inf)")
    batch_size: int = param(256, "transitions in a batch", within="[1, inf)")
    anneal_lr: bool = param(
        False, "learning rate falls linearly to 0 over total_steps", anneals="learning_rate"
    )
    standardize_obs: bool = param(
        False, "standardise observations by the dataset's mean and std, also when the policy acts"
    )
    obs_dim: int | None = param(
        None, "length of an observation; null: from the environment", within="[1, inf)"
    )
    act_dim: int | None = param(
        None,
        "length of an action, or number of discrete actions; null: from the environment",
        within="[1, inf)",
    )
    continuous: bool | None = param(
        None, "whether actions are continuous, not discrete; null: from the environment"
    )
    backend: str = param("torch", "library that computes the updates", choices=("torch",))

    # The number of networks with their own encoder for observations.
    n_encoders: ClassVar[int] = 1

    @property
    def has_sizes(self) -> bool:
        """Whether the configuration gives the sizes of the spaces."""
        return self.obs_dim is not None

    def layer_widths(self, obs_dim: int, actions: int, discrete: bool = False) -> list[tuple[int, ...]]:
        """Return the layer widths of the trained networks, for estimates of memory."""
        return []

    def widest_layer(self, features: int, actions: int, discrete: bool) -> int:
        """Return the widest layer of the trained networks."""
        return max(w for sizes in self.layer_widths(features, actions, discrete) for w in sizes)

    def _dataset_field_hint(self, key: str) -> str:
        field = DATASET_COUNTERPARTS.get(key)
        has_field = field in {f.name for f in fields(self)}
        return f"; for the dataset set algo.{field}" if has_field else ""

    def check(self, env: EnvConfig, buffer: BufferConfig) -> None:
        """Raise `ConfigError` for environment settings that have no effect."""
        for key, required_value in UNUSED_ENV_FIELDS.items():
            value = getattr(env, key)
            if value != required_value:
                raise ConfigError(
                    f"env.{key}={format_value(value)}: {self.name} takes no steps in environments while it "
                    f"learns, expected {format_value(required_value)}; leave it out"
                    + self._dataset_field_hint(key)
                )


@dataclass(frozen=True)
class OfflineNetworksConfig(OfflineAlgorithmConfig):
    """Offline algorithms with MLPs, which follow the encoders of images."""

    net_arch: tuple[int, ...] = param((256, 256), "hidden layer widths", within="[1, 65536]")
    encoder: str = encoder_field()
    encoder_features: int | None = encoder_features_field()
    image_channels: str = image_channels_field()
    activation: str = param("relu", "hidden activation", choices=("tanh", "relu", "elu", "silu"))

    def layer_widths(self, obs_dim: int, actions: int, discrete: bool = False) -> list[tuple[int, ...]]:
        """Return the widths of the one network."""
        return [(obs_dim, *self.net_arch, actions)]


def format_value(value: Any) -> str:
    """Return a value as it is written on the command line."""
    if isinstance(value, bool):
        return str(value).lower()
    return "null" if value is None else "[]" if value == () else str(value)


BY_RETURNS = "returns"


@dataclass(frozen=True)
class OfflineCriticsConfig(CriticsConfig, OfflineNetworksConfig):
    """Policies act in [-1, 1], which is scaled to the bounds of the action space."""

    action_kinds: ClassVar[tuple[str, ...]] = ("Box",)
    native_fields: ClassVar[frozenset[str]] = OfflineAlgorithmConfig.native_fields | CRITICS_NATIVE_FIELDS | {
        "gamma", "scale_rewards", "act_high"
    }  # fmt: skip

    gamma: float = param(0.99, "discount factor", within="[0, 1]")
    scale_rewards: str = param(
        "1",
        "factor of rewards: a number, or returns: 1000 / (highest - lowest return)",
        source="Kostrikov et al. 2022, for returns",
    )
    act_high: float | None = param(
        None,
        "without an environment: actions are in [-act_high, act_high]; null: 1",
        within="(0, inf)",
    )

    @property
    def reward_factor(self) -> float | None:
        """The factor of rewards; `None` if the dataset's returns determine it."""
        return None if self.scale_rewards == BY_RETURNS else float(self.scale_rewards)

    def check(self, env: EnvConfig, buffer: BufferConfig) -> None:
        """Raise `ConfigError` unless rewards are scaled by a positive number or by returns."""
        super().check(env, buffer)
        try:
            factor = self.reward_factor
        except ValueError:
            factor = -1.0
        if factor is not None and not 0.0 < factor < float("inf"):
            raise ConfigError(
                f"algo.scale_rewards={self.scale_rewards}: expected {BY_RETURNS} or a positive number"
            )
