"""GRPO and its variants (Shao et al. 2024, arXiv:2402.03300)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rlox.configs.buffers import BufferConfig
from rlox.configs.env import EnvConfig
from rlox.configs.params import param
from rlox.configs.text import GroupConfig
from rlox.errors import ConfigError


@dataclass(frozen=True)
class GRPOConfig(GroupConfig):
    """Compares completions with others of the same prompt, with a loss for each token."""

    name: str = param("grpo", "the algorithm", choices=("grpo",))
    loss_type: str = param(
        "dapo",
        "how the losses of tokens are summed and normalised",
        choices=("grpo", "dr_grpo", "dapo", "bnpo", "gspo", "cispo"),
        source="TRL",
    )
    kl_coef: float = param(
        0.1, "weight of KL to the reference model; 0: no reference model", within="[0, inf)"
    )
    kl_estimator: str = param("k3", "how KL is estimated", choices=("k1", "k2", "k3"), source="Schulman 2020")
    kl_correction: bool = param(
        True, "multiply the KL estimate by the ratio, so that its gradient is that of KL", source="TRL"
    )
    clip_eps_high: float | None = param(
        None, "ratios are clipped at 1 + clip_eps_high; null: at 1 + algo.clip_eps", within="[0, inf)"
    )
    delta: float | None = param(
        None,
        "two-sided clipping: upper limit of ratios of completions with a negative advantage; null: no limit",
        within="[1, inf)",
    )
    scale_rewards: str = param(
        "group",
        "standard deviation that advantages are divided by: of each group, of the batch, or none",
        choices=("group", "batch", "none"),
    )
    aggregation: str = param(
        "sum_then_normalize",
        "how several rewards are combined",
        choices=("sum_then_normalize", "normalize_then_sum"),
    )
    correction: str | None = param(
        None,
        "importance weights for completions that another program or older weights generated",
        choices=("token_truncate", "token_mask", "sequence_truncate", "sequence_mask"),
        source="Yao et al. 2025",
    )
    correction_max: float = param(3.0, "upper limit of correction weights", within="(0, inf)", source="TRL")

    def check(self, env: EnvConfig, buffer: BufferConfig) -> None:
        """Raise `ConfigError` for settings that the loss refuses, before anything is built."""
        super().check(env, buffer)
        if self.kl_coef and self.kl_estimator == "k1" and not self.kl_correction:
            raise ConfigError(
                "algo.kl_estimator=k1 without algo.kl_correction: the gradient of k1 is 0 on average; set "
                "algo.kl_correction=true, or algo.kl_estimator=k3"
            )
        if self.staleness and self.correction is None:
            raise ConfigError(
                f"algo.staleness={self.staleness} without algo.correction: completions of older weights "
                "would be treated as if the present weights had generated them; "
                "set algo.correction=token_truncate"
            )
        if self.delta is not None and self.loss_type == "cispo":
            raise ConfigError(
                f"algo.delta={self.delta:g} does not apply to algo.loss_type=cispo; leave it out"
            )
        max_ratio = _max_ratio(self.clip_eps, self.clip_eps_high)
        if self.delta is not None and self.delta < max_ratio:
            range_key = "algo.clip_eps" if self.clip_eps_high is None else "algo.clip_eps_high"
            raise ConfigError(
                f"algo.delta={self.delta:g} is below 1 + {range_key} = {max_ratio:g}, and has the same "
                f"effect as {max_ratio:g}; expected at least {max_ratio:g}, or null"
            )


MAX_MAGNITUDE = 1e300  # larger numbers could overflow in sums of floats


def _max_ratio(clip_eps: float, clip_eps_high: float | None) -> float:
    """Return the ratio above which ratios are clipped."""
    return 1.0 + (clip_eps if clip_eps_high is None else clip_eps_high)


def upgrade_delta(algo: Mapping[str, Any]) -> dict[str, Any]:
    """Return a saved `algo` with `delta` raised to the upper end of the clipping range if it is lower.

    rlox now rejects lower values, which earlier versions accepted; the effect is the same.
    """
    delta: Any = algo.get("delta")
    clip_eps_high: Any = algo.get("clip_eps_high")
    clip_eps_high = algo.get("clip_eps", GRPOConfig.clip_eps) if clip_eps_high is None else clip_eps_high
    can_compare = all(
        type(value) in (int, float) and abs(value) < MAX_MAGNITUDE for value in (delta, clip_eps_high)
    )
    if algo.get("name") != "grpo" or not can_compare:
        return dict(algo)  # nothing to raise, or values that `make_run` rejects
    return {**algo, "delta": max(delta, 1.0 + clip_eps_high)}
