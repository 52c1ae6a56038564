"""PQN: parallelised Q-network (Gallici et al. 2025, arXiv:2407.04811)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from rlox.configs.base import AlgorithmConfig
from rlox.configs.env import EnvConfig
from rlox.configs.on_policy import minibatch_advice
from rlox.configs.params import encoder_features_field, encoder_field, image_channels_field, param
from rlox.configs.schedules import Schedule, schedule


@dataclass(frozen=True)
class PQNConfig(AlgorithmConfig):
    """Defaults follow CleanRL's `pqn.py` (revision 10334fa), which are for CartPole-v1."""

    batch_name: ClassVar[str] = "rollouts"
    shrink_hint: ClassVar[str] = "lower algo.n_steps or env.n_envs"
    action_kinds: ClassVar[tuple[str, ...]] = ("Discrete",)
    supports_masks: ClassVar[bool] = True
    default_overrides: ClassVar[Mapping[str, Any]] = {"env.n_envs": 4}

    name: str = param("pqn", "the algorithm", choices=("pqn",))
    n_steps: int = param(128, "rollout length per environment", within="[1, inf)", source="CleanRL")
    learning_rate: Schedule = schedule(2.5e-4, "RAdam step size", within="(0, inf)", source="CleanRL")
    anneal_lr: bool = param(
        True,
        "learning rate falls linearly to 0 over total_steps",
        anneals="learning_rate",
        source="CleanRL",
    )
    gamma: float = param(0.99, "discount factor", within="[0, 1]", source="CleanRL")
    q_lambda: float = param(
        0.65,
        "lambda of the returns; 0: one-step targets, 1: discounted returns to the end of the rollout",
        within="[0, 1]",
        source="CleanRL",
    )
    n_epochs: int = param(4, "passes over each rollout", within="[1, inf)", source="CleanRL")
    batch_size: int = param(
        128,
        "transitions in a minibatch",
        within="[1, inf)",
        source="CleanRL (4 minibatches of a rollout of 4 x 128)",
    )
    exploration_initial_eps: float = param(1.0, "epsilon at the start", within="[0, 1]", source="CleanRL")
    exploration_final_eps: float = param(0.05, "epsilon at the end", within="[0, 1]", source="CleanRL")
    exploration_fraction: float = param(
        0.5, "fraction of total_steps over which epsilon falls", within="(0, 1]", source="CleanRL"
    )
    max_grad_norm: float | None = param(
        10.0, "global gradient-norm limit; null: none", within="(0, inf)", source="CleanRL"
    )
    net_arch: tuple[int, ...] = param(
        (120, 84),
        "hidden layer widths; layer normalisation precedes each hidden activation",
        within="[1, 65536]",
        source="CleanRL",
    )
    encoder: str = encoder_field()
    encoder_features: int | None = encoder_features_field()
    image_channels: str = image_channels_field()
    activation: str = param(
        "relu", "hidden activation", choices=("tanh", "relu", "elu", "silu"), source="CleanRL"
    )
    backend: str = param("torch", "library that computes the updates", choices=("torch",))

    @property
    def has_schedule(self) -> bool:
        """Whether a value changes over the run; epsilon counts."""
        return super().has_schedule or self.exploration_initial_eps != self.exploration_final_eps

    def batch_steps(self, n_envs: int) -> int:
        """Return the environment steps of one rollout."""
        return self.n_steps * n_envs

    def update_rows(self, n_envs: int) -> int:
        """Return the rows of a minibatch, which is at most the whole rollout."""
        return min(self.batch_size, self.batch_steps(n_envs))

    def epsilon(self, elapsed: float) -> float:
        """Return the probability of a random action after the fraction `elapsed` of the run, 0 to 1."""
        progress = min(elapsed / self.exploration_fraction, 1.0)
        return (1.0 - progress) * self.exploration_initial_eps + progress * self.exploration_final_eps

    def advice(self, env: EnvConfig) -> list[str]:
        """Warn about minibatches that differ from the requested size."""
        return [*super().advice(env), *minibatch_advice(self.n_steps, env.n_envs, self.batch_size)]
