"""IQL, implicit Q-learning (Kostrikov, Nair & Levine 2022, arXiv:2110.06169)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rlox.configs.offline import OfflineCriticsConfig
from rlox.configs.params import backend_field, param


@dataclass(frozen=True)
class IQLConfig(OfflineCriticsConfig):
    """Defaults are the paper's for locomotion, except that rewards are not scaled."""

    n_encoders: ClassVar[int] = 3
    native_fields: ClassVar[frozenset[str]] = OfflineCriticsConfig.native_fields | {
        "expectile", "temperature", "max_weight", "cosine_actor"
    }  # fmt: skip

    name: str = param("iql", "the algorithm", choices=("iql",))
    expectile: float = param(
        0.7,
        "tau: the state value is this expectile of the action values; 0.5: their mean",
        within="(0, 1)",
        source="Kostrikov et al. 2022",
    )
    temperature: float = param(
        3.0,
        "beta: the policy clones actions weighted by exp(beta advantage); 0: equal weights",
        within="[0, inf)",
        source="Kostrikov et al. 2022",
    )
    max_weight: float = param(
        100.0, "limit of the weight exp(beta advantage)", within="(0, inf)", source="Kostrikov et al. 2022"
    )
    backend: str = backend_field()
    cosine_actor: bool = param(
        True,
        "the policy's learning rate falls to 0 along a cosine over total_steps",
        source="Kostrikov et al. 2022",
    )

    def layer_widths(self, obs_dim: int, actions: int, discrete: bool = False) -> list[tuple[int, ...]]:
        """Return the widths, including those of the state value network."""
        return [*super().layer_widths(obs_dim, actions), (obs_dim, *self.hidden_widths[1], 1)]

    @property
    def has_schedule(self) -> bool:
        """Whether a value depends on the total; the cosine schedule does."""
        return self.cosine_actor or super().has_schedule
