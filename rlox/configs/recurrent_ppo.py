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
    """Names and defaults are those of sb3-contrib's `RecurrentPPO`, except that `env.n_envs` is 8."""

    supports_masks: ClassVar[bool] = False
    drops: ClassVar[Mapping[str, str]] = {
        "policy": "takes no policy of your own, because its methods have no argument for the recurrent state",
        "use_sde": "has no state-dependent exploration",
        "sde_sample_freq": "has no state-dependent exploration",
    }

    name: str = param("recurrent_ppo", "the algorithm", choices=("recurrent_ppo",))
    backend: str = param("torch", "library that computes the updates", choices=("torch",))
    rnn: str = param("lstm", "kind of the recurrent layers", choices=("lstm", "gru"))
    lstm_hidden_size: int = param(
        256, "width of each recurrent layer", within="[1, 65536]", source="sb3-contrib"
    )
    n_lstm_layers: int = param(
        1, "recurrent layers, one on top of another", within="[1, 64]", source="sb3-contrib"
    )
    shared_lstm: bool = param(
        False,
        "the critic takes the output of the actor's recurrent layers, without gradient",
        source="sb3-contrib",
    )
    enable_critic_lstm: bool = param(
        True,
        "the critic has its own recurrent layers; false: the actor's (shared_lstm=true) or none",
        source="sb3-contrib",
    )
    n_steps: int = param(
        128,
        "steps per environment in a rollout; gradients go back through all of them",
        within="[1, inf)",
        source="sb3-contrib",
    )
    batch_size: int = param(
        128,
        "transitions in a minibatch, rounded down to whole sequences of n_steps (at least one)",
        within="[1, inf)",
        source="sb3-contrib",
    )
    net_arch: tuple[int, ...] = param(
        (64, 64),
        "widths of the hidden layers after the recurrent layers, in actor and critic",
        within="[1, 65536]",
        hint="those of the critic alone are algo.critic_net_arch",
    )
    ortho_init: bool = param(
        True,
        "orthogonal weights; gains: recurrent layers 1, hidden layers sqrt 2, last layer of the actor 0.01, "
        "of the critic 1",
    )

    @property
    def critic(self) -> str:
        """The critic's recurrent layers: its `own`, the actor's (`shared`) or `none`."""
        return "own" if self.enable_critic_lstm else "shared" if self.shared_lstm else "none"

    def check(self, env: EnvConfig, buffer: BufferConfig) -> None:
        """Check fields that depend on each other."""
        super().check(env, buffer)
        if self.shared_lstm and self.enable_critic_lstm:
            raise ConfigError(
                "algo.shared_lstm=true and algo.enable_critic_lstm=true contradict each other: the critic "
                "uses the actor's recurrent layers or its own; set algo.enable_critic_lstm=false to share"
            )
        if self.critic == "shared" and not self.share_encoder:
            raise ConfigError(
                "algo.share_encoder=false: with algo.shared_lstm=true the critic uses the actor's recurrent "
                "layers and so the actor's encoder; remove algo.share_encoder=false, or set "
                "algo.shared_lstm=false"
            )

        if self.critic == "shared" and env.critic_obs:
            raise ConfigError(
                f"env.critic_obs={list(env.critic_obs)}: with algo.shared_lstm=true the critic uses the "
                "actor's recurrent layers, which do not see these parts; set algo.shared_lstm=false"
            )

    def _minibatch_notes(self, env: EnvConfig) -> list[str]:
        """Return notes on minibatches that do not have `batch_size` rows, since they hold whole sequences."""
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
                f"{setting} is larger than a rollout, algo.n_steps={steps:,} x env.n_envs={n_envs} = "
                f"{steps * n_envs:,} transitions: the rollout is one minibatch"
            ]
        if size % steps:
            return [
                f"{setting} is no multiple of algo.n_steps={steps:,}: minibatches have {sequences} whole "
                f"sequences, {sequences * steps:,} transitions"
            ]
        if remainder := n_envs % sequences:
            return [
                f"{setting} is {sequences} sequences; env.n_envs={n_envs} is no multiple of {sequences}, so "
                f"the last minibatch of an epoch is smaller (sequences in it: {remainder})"
            ]
        return []
