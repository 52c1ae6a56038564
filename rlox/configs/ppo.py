"""PPO: proximal policy optimisation (Schulman et al. 2017, arXiv:1707.06347)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rlox.configs.env import EnvConfig
from rlox.configs.on_policy import OnPolicyConfig, minibatch_advice
from rlox.configs.params import param
from rlox.configs.schedules import Schedule, schedule


@dataclass(frozen=True)
class PPOConfig(OnPolicyConfig):
    """Defaults follow Stable-Baselines3; its rollout of 2,048 steps is 256 steps of 8 environments here."""

    supports_masks: ClassVar[bool] = True
    native_fields: ClassVar[frozenset[str]] = OnPolicyConfig.native_fields | {
        "n_epochs", "batch_size", "clip_eps", "anneal_clip", "clip_vloss", "target_kl"
    }  # fmt: skip

    name: str = param("ppo", "the algorithm", choices=("ppo",))
    n_steps: int = param(256, "rollout length per environment", within="[1, inf)", source="SB3 (2,048 / 8)")
    learning_rate: Schedule = schedule(3e-4, "Adam step size", within="(0, inf)", source="PPO table 3")
    n_epochs: int = param(10, "passes over each rollout", within="[1, inf)", source="PPO table 3")
    batch_size: int = param(64, "transitions in a minibatch", within="[1, inf)", source="PPO table 3")
    clip_eps: Schedule = schedule(
        0.2,
        "ratios are clipped to [1 - clip_eps, 1 + clip_eps]",
        within="(0, 1)",
        source="PPO table 3",
    )
    anneal_clip: bool = param(False, "clip_eps falls linearly to 0 over total_steps", anneals="clip_eps")
    clip_vloss: bool = param(False, "clip the value update by clip_eps around the old value")
    target_kl: float | None = param(
        None,
        "stop the epochs of a rollout once approx_kl exceeds 1.5 times this",
        within="(0, inf)",
    )

    def update_rows(self, n_envs: int) -> int:
        """Return the rows of a minibatch, which is at most the whole rollout."""
        return min(self.batch_size, self.batch_steps(n_envs))

    def shuffle_bytes(self, n_envs: int) -> int:
        """Return the bytes of the permutations: 8 for each row and epoch."""
        return 8 * self.n_epochs * self.batch_steps(n_envs)

    def advice(self, env: EnvConfig) -> list[str]:
        """Warn about minibatches that differ from the requested size."""
        return [*super().advice(env), *self._minibatch_notes(env)]

    def _minibatch_notes(self, env: EnvConfig) -> list[str]:
        return minibatch_advice(self.n_steps, env.n_envs, self.batch_size)
