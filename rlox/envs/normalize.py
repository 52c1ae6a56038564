"""Running standardisation of observations and rewards; its moments are part of the run's state.

Moments follow Chan et al. 1983 (parallel merge), with one merge per environment step. Observations become
`clip((x - mean) / std, -10, 10)`. Rewards are divided by the standard deviation of the discounted return,
without subtracting a mean; the return restarts at the end of an episode. `env.normalize_rule` sets the
initial moments and the standard deviation of a number that hardly varies:

- `relative`: starts with the first rows. A number whose standard deviation is below `2**-23` of its mean,
  the precision of float32, counts as constant and has the deviation 1. So `a x + b` is standardised as
  `x` is.
- `sb3`: the rule of Stable-Baselines3. Starts with mean 0 and variance 1, weighted as `1e-4` rows; the
  deviation is `sqrt(var + 1e-8)`. Numbers that vary by less than 1e-4 stay near 0.

A policy that learned from a dataset uses the dataset's moments, which are fixed, and clips nothing. If its
training continues in an environment, the moments are updated, but still nothing is clipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlox.envs.spaces import ObservationCodec, format_space
from rlox.errors import ConfigError

__all__ = [
    "CLIP",
    "EPSILON",
    "RELATIVE",
    "SB3",
    "FixedNormalizer",
    "Normalizer",
    "ObservationNormalizer",
    "PartialNormalizer",
    "RewardNormalizer",
    "RunningMoments",
    "observation_normalizer",
]

RELATIVE, SB3 = "relative", "sb3"
CLIP = 10.0
EPSILON = 1e-8  # used by `sb3`
FLOAT32_PRECISION = 2.0**-23  # relative
MIN_STD = 1e-6  # as in `OfflineDatasetBuffer`


class Normalizer(Protocol):
    """Interface of normalizers: applied to an environment's observations before the policy reads them."""

    def apply(self, obs: NDArray[np.float32]) -> None:
        """Standardise rows `[n, dim]` in place with the current moments."""


class RunningMoments:
    """Mean and population variance of all rows so far, per dimension, in float64.

    `rlox.RunningStatsVec` is faster (8 rows in 3 us, here 17) but has no prior. The prior is part of saved
    runs and of Stable-Baselines3's rule.

    Parameters
    ----------
    shape : shape of a row
    rule : `"relative"` or `"sb3"`
    """

    def __init__(self, shape: tuple[int, ...], rule: str = RELATIVE) -> None:
        self.rule = rule
        self.count = 1e-4 if rule == SB3 else 0.0
        self.mean = np.zeros(shape, np.float64)
        self.var = np.ones(shape, np.float64)

    @property
    def std(self) -> NDArray[np.float64]:
        """The divisor of each number, in the shape of a row."""
        if self.rule == SB3:
            return np.sqrt(self.var + EPSILON)
        varies = self.var > np.square(FLOAT32_PRECISION * self.mean)
        return np.sqrt(np.where(varies, self.var, 1.0))

    def update(self, batch: NDArray[Any]) -> None:
        """Merge a batch `[n, *shape]`."""
        n = len(batch)
        # equals `batch.mean(0)` and `batch.var(0)` bit for bit, in two thirds of the time
        mean = np.add.reduce(batch, axis=0, dtype=np.float64) / n
        var = np.add.reduce(np.square(batch - mean), axis=0) / n
        delta, total = mean - self.mean, self.count + n
        self.var = (self.var * self.count + var * n + np.square(delta) * self.count * n / total) / total
        self.mean = self.mean + delta * n / total
        self.count = total

    def state(self) -> dict[str, Any]:
        """Return count, mean and variance, and the rule unless it is `sb3`, the default of older states."""
        rule = {} if self.rule == SB3 else {"rule": self.rule}
        return {"count": self.count, "mean": self.mean.copy(), "var": self.var.copy()} | rule

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()` with its rule, because the policy learned with these numbers."""
        self.rule = str(state.get("rule", SB3))
        self.count = float(state["count"])
        self.mean = np.array(state["mean"], np.float64).reshape(self.mean.shape)
        self.var = np.array(state["var"], np.float64).reshape(self.var.shape)


class ObservationNormalizer:
    """Standardises observation rows in place."""

    def __init__(self, dim: int, rule: str = RELATIVE) -> None:
        self.moments = RunningMoments((dim,), rule)
        self.clips = True  # False for a policy that learned from a dataset, without clipping

    def update(self, obs: NDArray[np.float32]) -> None:
        """Update the moments with raw rows `[n, dim]`."""
        self.moments.update(obs)

    def apply(self, obs: NDArray[np.float32]) -> None:
        """Standardise rows `[n, dim]` in place with the current moments."""
        standardized = (obs - self.moments.mean) / self.moments.std
        if self.clips:
            np.clip(standardized, -CLIP, CLIP, out=standardized)
        obs[:] = standardized

    def state(self) -> dict[str, Any]:
        """Return the moments, and `clips` if clipping is off."""
        return self.moments.state() | ({} if self.clips else {"clips": False})

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`."""
        self.moments.restore(state)
        self.clips = bool(state.get("clips", True))


class PartialNormalizer(ObservationNormalizer):
    """Standardises the numbers of a row; images and an action mask at the end stay unchanged."""

    def __init__(self, codec: ObservationCodec, rule: str = RELATIVE) -> None:
        super().__init__(codec.numeric_dim, rule)
        self._numeric_view = codec.numeric_view

    def update(self, obs: NDArray[Any]) -> None:
        """Update the moments with the numbers of raw rows `[n, dim]`."""
        super().update(self._numeric_view(obs))

    def apply(self, obs: NDArray[Any]) -> None:
        """Standardise the numbers of rows `[n, dim]` in place with the current moments."""
        super().apply(self._numeric_view(obs))


def observation_normalizer(codec: ObservationCodec, rule: str = RELATIVE) -> ObservationNormalizer:
    """Make a new normalizer for the rows of `codec`; `ConfigError` if they hold images and no numbers."""
    if not codec.numeric_dim:
        raise ConfigError(
            f"env.normalize_obs=true: these observations are images only, {format_space(codec.space)}, "
            "which networks divide by the upper bound of their space; leave env.normalize_obs out"
        )
    is_numeric = codec.numeric_dim == codec.dim
    return ObservationNormalizer(codec.dim, rule) if is_numeric else PartialNormalizer(codec, rule)


class FixedNormalizer:
    """Standardises observation rows in place with given moments; without moments, rows stay unchanged.

    `(x - mean) / std`, as in `OfflineDatasetBuffer(normalize=True)`: numbers with a standard deviation below
    1e-6 are only centred.
    """

    def __init__(self) -> None:
        self.moments: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None

    def set_moments(self, mean: Any, std: Any) -> None:
        """Set the mean and standard deviation of each number of an observation, `[dim]` each."""
        self.moments = np.array(mean, np.float64).ravel(), np.array(std, np.float64).ravel()

    def apply(self, obs: NDArray[np.float32]) -> None:
        """Standardise rows `[n, dim]` in place."""
        if self.moments is not None:
            mean, _ = self.moments
            obs[:] = (obs - mean) / self.scale

    @property
    def scale(self) -> NDArray[np.float64]:
        """The divisors `[dim]`; requires moments."""
        assert self.moments is not None
        _, std = self.moments
        scale: NDArray[np.float64] = np.where(std < MIN_STD, 1.0, std)
        return scale

    def state(self) -> dict[str, Any]:
        """Return the moments; empty without moments."""
        if self.moments is None:
            return {}
        mean, std = self.moments
        return {"obs_mean": mean.copy(), "obs_std": std.copy()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a state that contains the entries of `state()`; other entries are ignored."""
        self.moments = None
        if "obs_mean" in state:
            self.set_moments(state["obs_mean"], state["obs_std"])


class RewardNormalizer:
    """Scales rewards by the running standard deviation of each environment's discounted return.

    `apply` scales stored rewards, which are discounted sums over `n_step` steps.
    """

    def __init__(self, n_envs: int, gamma: float, n_step: int = 1, rule: str = RELATIVE) -> None:
        self.gamma = gamma
        self.limit = CLIP * sum(gamma**k for k in range(n_step))  # bound of an n-step sum of clipped rewards
        self.returns = np.zeros(n_envs, np.float64)
        self.moments = RunningMoments((), rule)

    def scale(
        self,
        rewards: NDArray[np.float64],
        dones: NDArray[np.bool_],
        invalid_envs: NDArray[np.int64] | None = None,
    ) -> NDArray[np.float64]:
        """Update the moments with raw rewards `[n]` and return them scaled; `dones` restarts the returns.

        Rewards of `invalid_envs` do not count.
        """
        self.returns = self.returns * self.gamma + rewards
        valid_returns = (
            self.returns
            if invalid_envs is None or not len(invalid_envs)
            else np.delete(self.returns, invalid_envs)
        )
        if len(valid_returns):
            self.moments.update(valid_returns)
        scaled = np.clip(rewards / self.moments.std, -CLIP, CLIP)
        self.returns[dones] = 0.0
        return scaled

    def apply(self, rewards: NDArray[np.float32]) -> None:
        """Scale raw sums in place with the current moments, without updating them."""
        np.clip(rewards / self.moments.std, -self.limit, self.limit, out=rewards)

    def state(self) -> dict[str, Any]:
        """Return the moments and the running returns."""
        return {"moments": self.moments.state(), "returns": self.returns.copy()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`."""
        self.moments.restore(state["moments"])
        self.returns = np.array(state["returns"], np.float64).reshape(self.returns.shape)
