"""Decision Transformer (Chen et al. 2021, arXiv:2106.01345)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rlox.configs.base import AlgorithmConfig
from rlox.configs.buffers import BufferConfig
from rlox.configs.env import EnvConfig
from rlox.configs.offline import OfflineAlgorithmConfig
from rlox.configs.params import param
from rlox.configs.schedules import Schedule, schedule
from rlox.errors import ConfigError

SOURCE = "Chen et al. 2021, table 9"


@dataclass(frozen=True)
class DecisionTransformerConfig(OfflineAlgorithmConfig):
    """Defaults are the paper's for OpenAI Gym."""

    needs_bounds: ClassVar[bool] = True
    action_kinds: ClassVar[tuple[str, ...]] = ("Discrete", "Box")
    name: str = param("decision_transformer", "the algorithm", choices=("decision_transformer",))
    learning_rate: Schedule = schedule(
        1e-4, "AdamW step size after the warm-up", within="(0, inf)", source=SOURCE
    )
    batch_size: int = param(64, "sub-trajectories in a batch", within="[1, inf)", source=SOURCE)
    context_length: int = param(
        20, "steps of context, including the present one", within="[1, 4096]",
        source=SOURCE,
    )  # fmt: skip
    hidden: int = param(128, "width of the transformer", within="[1, 65536]", source=SOURCE)
    n_layers: int = param(3, "attention blocks", within="[1, 256]", source=SOURCE)
    n_heads: int = param(
        1, "attention heads of each block; must divide hidden", within="[1, 256]", source=SOURCE
    )
    dropout: float = param(0.1, "dropout probability in training", within="[0, 1)", source=SOURCE)
    weight_decay: float = param(1e-4, "weight decay of AdamW", within="[0, inf)", source=SOURCE)
    warmup_updates: int = param(
        10_000, "updates in which the step size rises from 0", within="[0, inf)", source=SOURCE
    )
    max_grad_norm: float = param(0.25, "global gradient-norm limit", within="(0, inf)", source=SOURCE)
    return_scale: float = param(
        1e-3, "factor by which returns to go are multiplied", within="(0, inf)", source=SOURCE
    )
    target_return: float | None = param(
        None, "the return to aim at; null: the highest return of the dataset", within="(-inf, inf)"
    )
    act_high: float | None = param(
        None,
        "without an environment: actions are in [-act_high, act_high]; null: 1",
        within="(0, inf)",
    )
    max_timesteps: int = param(
        1_000, "number of timestep embeddings; later steps use the last one", within="[1, inf)",
        source=SOURCE,
    )  # fmt: skip
    standardize_obs: bool = param(
        True,
        "standardise observations by the dataset's mean and std, also when the policy acts",
        source="Chen et al. 2021, authors' code (which adds 1e-6 to std; rlox: 1e-3, Fujimoto & Gu 2021)",
    )

    def layer_widths(self, obs_dim: int, actions: int, discrete: bool = False) -> list[tuple[int, ...]]:
        """Return layers with about as many parameters as the network: 12 h^2 per block, and embeddings."""
        h = self.hidden
        block = [(h, 4 * h), (4 * h, h), (h, 4 * h)]
        embeddings = [(obs_dim, h), (actions, h), (self.max_timesteps, h), (h, actions)]
        return [*block * self.n_layers, *embeddings]

    def policy_mismatch(self, other: AlgorithmConfig) -> str:
        """Return why weights do not fit: another number of heads, return scale or context length."""
        names = ("n_heads", "return_scale", "context_length")
        return self.first_difference(other, *names) or super().policy_mismatch(other)

    def check(self, env: EnvConfig, buffer: BufferConfig) -> None:
        """Raise `ConfigError` unless the number of heads divides the width."""
        super().check(env, buffer)
        if self.hidden % self.n_heads:
            raise ConfigError(
                f"algo.hidden={self.hidden} and algo.n_heads={self.n_heads}: expected algo.hidden to be a "
                f"multiple of {self.n_heads}"
            )
