"""Recurrent PPO: PPO with recurrent layers in actor and critic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from rlox.configs.buffers import BufferConfig
from rlox.configs.env import EnvConfig
from rlox.configs.params import param
from rlox.configs.ppo import PPOConfig
from rlox.errors import ConfigError


@dataclass(frozen=True)
class RecurrentPPOConfig(PPOConfig):
    """Names and defaults follow `RecurrentPPO` of sb3-contrib, with 8 environments."""

    supports_masks: ClassVar[bool] = False
    drops: ClassVar[Mapping[str, str]] = {
        "policy": "takes no policy of your own, whose methods know no state",
        "use_sde": "has no state-dependent exploration",
        "sde_sample_freq": "has no state-dependent exploration",
    }

    name: str = param("recurrent_ppo", "the algorithm", choices=("recurrent_ppo",))
    backend: str = param("torch", "engine of the update", choices=("torch",))
    rnn: str = param("lstm", "kind of the recurrent layers", choices=("lstm", "gru"))
    lstm_hidden_size: int = param(
        256, "width of each recurrent layer", within="[1, 65536]", source="sb3-contrib"
    )
    n_lstm_layers: int = param(
        1, "recurrent layers, one on top of another", within="[1, 64]", source="sb3-contrib"
    )
    shared_lstm: bool = param(
        False,
        "the critic reads the actor's recurrence, which only the actor trains",
        source="sb3-contrib",
    )
    enable_critic_lstm: bool = param(
        True,
        "the critic has a recurrence of its own; false: shared, or none, which sees observations only",
        source="sb3-contrib",
    )
    n_steps: int = param(
        128,
        "rollout length per environment, through which gradients flow back",
        within="[1, inf)",
        source="sb3-contrib",
    )
    batch_size: int = param(
        128,
        "transitions in a minibatch, which has whole sequences of n_steps, at least one",
        within="[1, inf)",
        source="sb3-contrib",
    )
    net_arch: tuple[int, ...] = param(
        (64, 64),
        "hidden layer widths behind the recurrence, actor and critic each",
        within="[1, 65536]",
        hint="those of the critic alone are algo.critic_net_arch",
    )
    ortho_init: bool = param(
        True, "orthogonal initialisation (gain 1 of recurrences, else sqrt 2; heads 0.01 and 1)"
    )

    @property
    def critic(self) -> str:
        """The critic's recurrence: its `own`, the actor's (`shared`) or `none`."""
        return "own" if self.enable_critic_lstm else "shared" if self.shared_lstm else "none"

    def check(self, env: EnvConfig, buffer: BufferConfig) -> None:
        """Check fields that depend on each other."""
        super().check(env, buffer)
        if self.shared_lstm and self.enable_critic_lstm:
            raise ConfigError(
                "algo.shared_lstm=true and algo.enable_critic_lstm=true contradict each other: the critic "
                "reads the actor's recurrence or has its own; set algo.enable_critic_lstm=false to share"
            )
        if self.critic == "shared" and not self.share_encoder:
            raise ConfigError(
                "algo.share_encoder=false: with algo.shared_lstm=true the critic reads the actor's "
                "recurrence, behind the actor's encoder; leave it out, or set algo.shared_lstm=false"
            )

    def _minibatch_notes(self, env: EnvConfig) -> list[str]:
        """Warn about minibatches that differ from the requested size; they contain whole sequences."""
        size, steps, n_envs = self.batch_size, self.n_steps, env.n_envs
        setting = f"algo.batch_size={size:,}"
        if size < steps:
            return [
                f"{setting} is less than one sequence of algo.n_steps={steps:,}: each minibatch is one "
                "environment's sequence"
            ]
        sequences = size // steps
        if sequences > n_envs:
            return [
                f"{setting} is more than a rollout has, algo.n_steps={steps:,} x env.n_envs={n_envs} = "
                f"{steps * n_envs:,} transitions: all are one minibatch"
            ]
        if size % steps:
            return [
                f"{setting} is no multiple of algo.n_steps={steps:,}: minibatches have {sequences} whole "
                f"sequences, {sequences * steps:,} transitions"
            ]
        if remainder := n_envs % sequences:
            return [
                f"{setting} is {sequences} sequences, which do not divide env.n_envs={n_envs}: the last "
                f"minibatch of an epoch has {remainder}"
            ]
        return []
