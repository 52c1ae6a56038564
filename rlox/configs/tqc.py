"""TQC: truncated quantile critics (Kuznetsov et al. 2020, arXiv:2005.04269)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from rlox.configs.buffers import BufferConfig
from rlox.configs.env import EnvConfig
from rlox.configs.params import param
from rlox.configs.sac import SACConfig
from rlox.errors import ConfigError


@dataclass(frozen=True)
class TQCConfig(SACConfig):
    """Defaults follow sb3-contrib; the paper has five critics, with three hidden layers of 512."""

    action_kinds: ClassVar[tuple[str, ...]] = ("Box",)
    drops: ClassVar[Mapping[str, str]] = {"policy": "builds its own critics, of quantiles"}

    name: str = param("tqc", "the algorithm", choices=("tqc",))
    backend: str = param("torch", "library that computes the updates", choices=("torch",))
    n_critics: int = param(
        2,
        "number of critics; targets use the lowest quantiles of all of them",
        within="[1, 64]",
        source="sb3-contrib; Kuznetsov et al. 2020: 5",
    )
    n_quantiles: int = param(
        25,
        "number of quantiles of each critic",
        within="[1, 1024]",
        source="Kuznetsov et al. 2020, sb3-contrib",
    )
    top_quantiles_to_drop_per_net: int = param(
        2,
        "largest target quantiles that are dropped, times n_critics; more lower the target",
        within="[0, 1023]",
        source="Kuznetsov et al. 2020: Hopper 5, HalfCheetah 0, other environments 2",
    )
    target_entropy: float | None = param(
        None,
        "target entropy of a learned temperature; null or auto: -dim(A)",
        within="(-inf, inf)",
        source="Haarnoja et al. 2018",
        null_word="auto",
    )

    def layer_widths(self, obs_dim: int, actions: int, discrete: bool = False) -> list[tuple[int, ...]]:
        """Return the widths of the actor, and of each critic, which has an output for each quantile."""
        actor, *critics = super().layer_widths(obs_dim, actions)
        return [actor, *((*widths, self.n_quantiles) for *widths, _ in critics)]

    def activation_count(self, actions: int) -> int:
        """Return the activations in hidden layers, and the errors of each quantile to each target atom."""
        atoms = self.n_critics * (self.n_quantiles - self.top_quantiles_to_drop_per_net)
        # the errors, their weights and Huber losses, and the gradients of those
        return super().activation_count(actions) + 6 * self.n_critics * self.n_quantiles * atoms

    def check(self, env: EnvConfig, buffer: BufferConfig) -> None:
        """Raise `ConfigError` for settings that leave no target quantile."""
        super().check(env, buffer)
        if self.top_quantiles_to_drop_per_net >= self.n_quantiles:
            raise ConfigError(
                f"algo.top_quantiles_to_drop_per_net={self.top_quantiles_to_drop_per_net} and "
                f"algo.n_quantiles={self.n_quantiles}: no quantile would be left for the target; drop at "
                f"most {self.n_quantiles - 1}"
            )
