"""Fields of algorithms that learn from replayed transitions, and of algorithms with critics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from rlox.configs.base import COMMON_NATIVE_FIELDS, AlgorithmConfig
from rlox.configs.buffers import BufferConfig, ReplayConfig, UniformConfig
from rlox.configs.env import EnvConfig
from rlox.configs.params import (
    CONVOLUTIONS,
    backend_field,
    encoder_features_field,
    encoder_field,
    image_channels_field,
    param,
)
from rlox.configs.schedules import Schedule, schedule
from rlox.errors import ConfigError


@dataclass(frozen=True)
class OffPolicyConfig(AlgorithmConfig):
    """Defaults follow Stable-Baselines3; an algorithm overrides those that differ.

    Steps are environment steps, all copies together, so that `train_freq`, `gradient_steps` and
    `replay_ratio` mean the same for any `env.n_envs`.
    """

    batch_name: ClassVar[str] = "steps of all environments"
    buffers: ClassVar[tuple[str, ...]] = ("uniform", "prioritized")
    action_kinds: ClassVar[tuple[str, ...]] = ("Discrete", "Box")
    default_overrides: ClassVar[dict[str, Any]] = {"env.n_envs": 1}
    # The number of networks with their own encoder for observations.
    n_encoders: ClassVar[int] = 1
    native_fields: ClassVar[frozenset[str]] = COMMON_NATIVE_FIELDS | {
        "learning_starts", "batch_size", "gamma", "train_freq", "gradient_steps", "replay_ratio", "n_step",
        "prioritized",
    }  # fmt: skip

    name: str = param(doc="the algorithm")
    learning_rate: Schedule = schedule(3e-4, "Adam step size", within="(0, inf)")
    anneal_lr: bool = param(
        False, "learning rate falls linearly to 0 over total_steps", anneals="learning_rate"
    )
    learning_starts: int = param(
        100, "environment steps of random actions before learning", within="[0, inf)", source="SB3"
    )
    batch_size: int = param(256, "transitions in a batch", within="[1, inf)", source="SB3")
    gamma: float = param(0.99, "discount factor", within="[0, 1]", source="SB3")
    train_freq: int = param(1, "environment steps between trainings", within="[1, inf)")
    gradient_steps: int = param(
        1,
        "batches of each training; -1: one for every environment step",
        within="[1, inf)",
        besides=(-1,),
    )
    replay_ratio: float | None = param(
        None,
        "batches for each environment step, in place of gradient_steps",
        within="(0, inf)",
        instead_of="gradient_steps",
    )
    n_step: int = param(
        1, "number of rewards summed before bootstrapping, fewer where an episode ends", within="[1, 1024]"
    )
    prioritized: bool | None = param(None, "true: the same as buffer=prioritized; null: decided by buffer")
    net_arch: tuple[int, ...] = param((256, 256), "hidden layer widths", within="[1, 65536]", source="SB3")
    encoder: str = encoder_field()
    encoder_features: int | None = encoder_features_field()
    image_channels: str = image_channels_field()
    activation: str = param("relu", "hidden activation", choices=("tanh", "relu", "elu", "silu"))
    backend: str = backend_field()

    @property
    def default_buffer(self) -> str:
        """`prioritized` if the field of that name is true."""
        return "prioritized" if self.prioritized else self.buffers[0]

    def batch_steps(self, n_envs: int) -> int:
        """Return the number of environments: one batch is one step of each."""
        return n_envs

    def layer_widths(self, obs_dim: int, actions: int, discrete: bool = True) -> list[tuple[int, ...]]:
        """Return the layer widths of the trained networks, for estimates of memory."""
        return [(obs_dim, *self.net_arch, actions)]

    def widest_layer(self, features: int, actions: int, discrete: bool) -> int:
        """Return the widest layer of the trained networks."""
        return max(w for sizes in self.layer_widths(features, actions, discrete) for w in sizes)

    def activation_count(self, actions: int) -> int:
        """Return the number of hidden activations that learning from one row takes."""
        return 2 * sum(self.net_arch) + 4 * max(self.net_arch, default=0)

    def gradient_steps_between(self, before: int, after: int) -> int:
        """Return the number of batches due for the environment steps from `before` (excluded) to `after`."""
        first, last = before // self.train_freq, after // self.train_freq  # trainings due by then
        if self.replay_ratio is not None:
            ratio = self.replay_ratio * self.train_freq
            return int(last * ratio) - int(first * ratio)
        batches_per_training = self.train_freq if self.gradient_steps == -1 else self.gradient_steps
        return (last - first) * batches_per_training

    def check(self, env: EnvConfig, buffer: BufferConfig) -> None:
        """Check fields that depend on each other."""
        if self.replay_ratio is not None and self.gradient_steps != 1:
            raise ConfigError(
                f"algo.replay_ratio={self.replay_ratio} and algo.gradient_steps={self.gradient_steps}: "
                "give one of them"
            )
        capacity = buffer.capacity if isinstance(buffer, ReplayConfig) else None
        if capacity is not None and capacity < env.n_envs:
            raise ConfigError(
                f"buffer.capacity={capacity} and env.n_envs={env.n_envs}: every environment needs "
                f"at least one transition; set buffer.capacity={env.n_envs} or more"
            )
        if isinstance(buffer, UniformConfig) and buffer.hindsight and self.n_step > 1:
            raise ConfigError(
                f"buffer.hindsight={buffer.hindsight} and algo.n_step={self.n_step}: rewards for another "
                "goal are known for single steps only; set algo.n_step=1"
            )
        if isinstance(buffer, UniformConfig) and buffer.hindsight and env.action_mask != "none":
            raise ConfigError(
                f"buffer.hindsight={buffer.hindsight} and env.action_mask={env.action_mask}: the allowed "
                "actions for another goal are not known; leave one of them out"
            )
        if isinstance(buffer, UniformConfig) and buffer.hindsight and env.critic_infos:
            raise ConfigError(
                f"buffer.hindsight={buffer.hindsight} and env.critic_obs={list(env.critic_obs)}: the info "
                "for another goal is not known; leave one of them out"
            )
        if self.prioritized is not None and self.prioritized != (buffer.name == "prioritized"):
            raise ConfigError(
                f"algo.prioritized={str(self.prioritized).lower()} and buffer={buffer.name} contradict "
                "each other; give one of them"
            )

    def check_total(self, total: int) -> None:
        """Raise `ConfigError` if the run would end before its first update."""
        if not self.gradient_steps_between(min(self.learning_starts, total), total):
            raise ConfigError(
                f"algo.learning_starts={self.learning_starts} and total_steps={total}: no training is due "
                "between them, so that nothing would be learned; lower algo.learning_starts (or "
                f"algo.train_freq={self.train_freq}), or raise total_steps"
            )


CRITICS_NATIVE_FIELDS = frozenset({"tau", "n_critics", "critic_net_arch", "max_grad_norm"})


@dataclass(frozen=True)
class CriticsConfig(AlgorithmConfig):
    """A mixin for a family of algorithms; it comes first among the bases."""

    n_encoders: ClassVar[int] = 2
    needs_bounds: ClassVar[bool] = True

    tau: float = param(
        0.005,
        "step of the target networks towards the trained ones (Polyak averaging)",
        within="(0, 1]",
        source="SB3",
    )
    n_critics: int = param(
        2,
        "number of critics; targets use the lowest",
        within="[1, 64]",
        source="Fujimoto et al. 2018",
    )
    net_arch: tuple[int, ...] = param(
        (256, 256),
        "hidden layer widths, actor and critics",
        within="[1, 65536]",
        source="SB3",
        hint="those of the critics alone are algo.critic_net_arch",
    )
    critic_net_arch: tuple[int, ...] | None = param(
        None, "hidden layer widths of the critics; null: as net_arch", within="[1, 65536]"
    )
    max_grad_norm: float | None = param(
        None, "gradient-norm limit, separately for actor and critics; null: no limit", within="(0, inf)"
    )

    @property
    def hidden_widths(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Hidden widths of the actor and of each critic."""
        critic = self.critic_net_arch
        return self.net_arch, self.net_arch if critic is None else critic

    def layer_widths(self, obs_dim: int, actions: int, discrete: bool = False) -> list[tuple[int, ...]]:
        """Return the widths of the actor, and of each critic, which takes an observation and an action."""
        actor, critic = self.hidden_widths
        return [(obs_dim, *actor, actions), *[(obs_dim + actions, *critic, 1)] * self.n_critics]

    def check(self, env: EnvConfig, buffer: BufferConfig) -> None:
        """Raise `ConfigError` for networks without a hidden layer."""
        super().check(env, buffer)
        encoder = getattr(self, "encoder", "")
        for name, widths in zip(("net_arch", "critic_net_arch"), self.hidden_widths, strict=True):
            may_be_empty = encoder in CONVOLUTIONS and not getattr(self, "use_sde", False)
            if not widths and not may_be_empty:
                raise ConfigError(
                    f"algo.{name} is empty, expected at least one hidden width, e.g. [256,256]; it may be "
                    "empty only after an image encoder that algo.encoder names, if gSDE is not used"
                )


@dataclass(frozen=True)
class ActorCriticConfig(CriticsConfig, OffPolicyConfig):
    """Defaults follow Stable-Baselines3; an algorithm overrides those that differ."""

    supports_critic_obs: ClassVar[bool] = True
    native_fields: ClassVar[frozenset[str]] = OffPolicyConfig.native_fields | CRITICS_NATIVE_FIELDS

    def activation_count(self, actions: int) -> int:
        """Return the number of activations in the hidden layers of the actor and all critics."""
        actor, critic = self.hidden_widths
        return 2 * (sum(actor) + self.n_critics * sum(critic)) + 4 * max(*actor, *critic, 1)
