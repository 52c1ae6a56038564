"""Configuration that on-policy algorithms share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rlox.configs.base import COMMON_NATIVE_FIELDS, AlgorithmConfig
from rlox.configs.buffers import BufferConfig
from rlox.configs.env import EnvConfig
from rlox.configs.own_networks import idle_network_advice, require_no_critic_obs
from rlox.configs.params import (
    CONVOLUTIONS,
    Code,
    code,
    encoder_features_field,
    encoder_field,
    image_channels_field,
    param,
)
from rlox.configs.schedules import Schedule, schedule
from rlox.errors import ConfigError

DIVISOR_SEARCH_RANGE = 4096  # how far from batch_size a size that divides the rollout is sought


@dataclass(frozen=True)
class OnPolicyConfig(AlgorithmConfig):
    """Defaults follow Stable-Baselines3; an algorithm overrides those that differ."""

    batch_name: ClassVar[str] = "rollouts"
    supports_critic_obs: ClassVar[bool] = True
    shrink_hint: ClassVar[str] = "lower algo.n_steps or env.n_envs"
    native_fields: ClassVar[frozenset[str]] = COMMON_NATIVE_FIELDS | {
        "n_steps", "gamma", "gae_lambda", "normalize_advantages", "vf_coef", "ent_coef", "max_grad_norm",
        "critic_net_arch", "policy", "share_encoder", "ortho_init", "log_std_init", "use_sde",
        "sde_sample_freq",
    }  # fmt: skip

    name: str = param(doc="the algorithm")
    n_steps: int = param(doc="rollout length per environment", within="[1, inf)")
    learning_rate: Schedule = schedule(3e-4, "step size", within="(0, inf)")
    anneal_lr: bool = param(
        False, "learning rate falls linearly to 0 over total_steps", anneals="learning_rate"
    )
    gamma: float = param(0.99, "discount factor", within="[0, 1]", source="SB3")
    gae_lambda: float = param(0.95, "lambda of GAE", within="[0, 1]", source="SB3")
    normalize_advantages: bool = param(True, "standardise advantages within each minibatch")
    vf_coef: float = param(0.5, "weight of the value loss (plain MSE, no 1/2)", within="[0, inf)")
    ent_coef: Schedule = schedule(0.0, "weight of the entropy bonus", within="[0, inf)", source="SB3")
    max_grad_norm: float = param(0.5, "global gradient-norm limit", within="(0, inf)")
    net_arch: tuple[int, ...] = param(
        (64, 64),
        "widths of the hidden layers, in actor and critic",
        within="[1, 65536]",
        hint="those of the critic alone are algo.critic_net_arch",
    )
    critic_net_arch: tuple[int, ...] | None = param(
        None, "hidden layer widths of the critic; null: as net_arch", within="[1, 65536]"
    )
    policy: Code | None = code(
        "a policy of your own as module:Name, in place of the MLPs: a factory that takes the spaces. In "
        "Python also the factory, or a module with get_action_and_logprob, get_value, "
        "get_logprob_and_entropy, and mode for evaluation (or an actor that returns logits or means)"
    )
    encoder: str = encoder_field()
    encoder_features: int | None = encoder_features_field()
    image_channels: str = image_channels_field()
    share_encoder: bool = param(
        True, "actor and critic train one encoder; false: each has its own", source="SB3; CleanRL"
    )
    activation: str = param("tanh", "hidden activation", choices=("tanh", "relu", "elu", "silu"))
    ortho_init: bool = param(
        True, "orthogonal weights; gains: hidden layers sqrt 2, last layer of the actor 0.01, of the critic 1"
    )
    log_std_init: float = param(0.0, "initial log standard deviation (Box actions)", within="[-20, 2]")
    use_sde: bool = param(
        False, "state-dependent exploration, gSDE (Box actions)", source="Raffin et al. 2021"
    )
    sde_sample_freq: int = param(
        -1,
        "steps between new gSDE noise matrices; -1: once per rollout",
        within="[-1, inf)",
        only_with="use_sde",
    )
    backend: str = param(
        "auto",
        "library that computes rollouts and updates. native: Rust, for the built-in policies of vector "
        "observations on the CPU; auto: native where it was measured to be faster",
        choices=("auto", "torch", "native"),
    )

    @property
    def hidden_widths(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Hidden widths of the actor and of the critic."""
        critic = self.critic_net_arch
        return self.net_arch, self.net_arch if critic is None else critic

    def batch_steps(self, n_envs: int) -> int:
        """Return the environment steps of one rollout."""
        return self.n_steps * n_envs

    def advice(self, env: EnvConfig) -> list[str]:
        """Warn about fields that have no effect with a user's policy."""
        return idle_network_advice(self)

    def check(self, env: EnvConfig, buffer: BufferConfig) -> None:
        """Check fields that depend on each other."""
        for name, widths in zip(("net_arch", "critic_net_arch"), self.hidden_widths, strict=True):
            if not widths and (self.use_sde or self.encoder not in CONVOLUTIONS):
                raise ConfigError(
                    f"algo.{name} is empty, expected at least one hidden width, e.g. [64,64]; it may be "
                    "empty only after an image encoder that algo.encoder names"
                )
        if self.policy is not None and env.action_mask != "none":
            raise ConfigError(
                f"env.action_mask={env.action_mask} and algo.policy: a policy of your own does not "
                "support action masks; leave one of them out"
            )
        require_no_critic_obs(self, env)
        if self.normalize_advantages and self.batch_steps(env.n_envs) == 1:
            raise ConfigError(
                "algo.n_steps * env.n_envs is 1: advantages of a single transition cannot be "
                "standardised; raise algo.n_steps or set algo.normalize_advantages=false"
            )
        self.reject_without_switch({"use_sde": "gSDE"})
        if self.sde_sample_freq == 0:
            raise ConfigError("algo.sde_sample_freq is 0, expected -1 (once per rollout) or at least 1")


def minibatch_advice(n_steps: int, n_envs: int, batch_size: int) -> list[str]:
    """Warn about minibatches of a rollout that differ from the requested size."""
    rows = n_steps * n_envs
    rollout_text = f"algo.n_steps={n_steps} x env.n_envs={n_envs} = {rows:,} transitions"
    if batch_size > rows:
        return [
            f"algo.batch_size={batch_size:,} is larger than a rollout, {rollout_text}: the rollout is one "
            "minibatch"
        ]
    if not (remainder := rows % batch_size):
        return []
    distances = range(1, min(batch_size // 2, DIVISOR_SEARCH_RANGE) + 1)
    candidates = (n for distance in distances for n in (batch_size - distance, batch_size + distance))
    divisor = next((n for n in candidates if rows % n == 0), None)
    hint = f"; algo.batch_size={divisor:,} does" if divisor else ""
    return [
        f"algo.batch_size={batch_size:,} does not divide a rollout, {rollout_text}: the last minibatch of an "
        f"epoch has {remainder:,}{hint}"
    ]
