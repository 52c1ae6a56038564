"""Running standardisation of observations and rewards.

The running moments (mean and variance) are saved with the run. They are computed as in Chan et al. 1983
(parallel merge), with one merge per environment step. Observations become
`clip((x - mean) / std, -10, 10)`. Each environment has a running discounted return, which begins again at 0
after an episode. Rewards are divided by the standard deviation of these returns; no mean is subtracted.
`env.normalize_rule` decides with which moments the run starts, and by what a nearly constant component is
divided:

- `relative`: the first rows give the first moments. A component whose standard deviation is below `2**-23`
  of its mean, the precision of float32, counts as constant and is divided by 1. So scaling or shifting an
  observation does not change its standardised value.
- `sb3`: the rule of Stable-Baselines3. The moments start with mean 0 and variance 1, which weigh as much
  as 0.0001 rows. The divisor is `sqrt(var + 1e-8)`, so components that vary by less than 1e-4 stay near 0.

A policy that learned from a dataset uses the dataset's moments and clips nothing. These moments stay fixed
while it learns from the dataset. If training continues in an environment, they are updated, but nothing is
clipped.
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
FLOAT32_PRECISION = 2.0**-23  # used by `relative`
MIN_STD = 1e-6  # `FixedNormalizer` only centres components with a lower std, as `OfflineDatasetBuffer` does


class Normalizer(Protocol):
    """Interface of normalizers: applied to an environment's observations before the policy reads them."""

    def apply(self, obs: NDArray[np.float32]) -> None:
        """Standardise rows `[n, dim]` in place with the current moments."""


class RunningMoments:
    """Mean and population variance of all rows so far, per dimension, in float64.

    `rlox.RunningStatsVec` is faster (8 rows take it 3 us, this class 17 us) but cannot start from given
    moments, which saved runs and Stable-Baselines3's rule need.

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
        """The divisor of each component, in a row's shape: its standard deviation, as the rule changes it."""
        if self.rule == SB3:
            return np.sqrt(self.var + EPSILON)
        varies = self.var > np.square(FLOAT32_PRECISION * self.mean)
        return np.sqrt(np.where(varies, self.var, 1.0))

    def update(self, batch: NDArray[Any]) -> None:
        """Merge a batch `[n, *shape]` into the moments."""
        n = len(batch)
        # equals `batch.mean(0)` and `batch.var(0)` bit for bit, in two thirds of the time
        mean = np.add.reduce(batch, axis=0, dtype=np.float64) / n
        var = np.add.reduce(np.square(batch - mean), axis=0) / n
        delta, total = mean - self.mean, self.count + n
        self.var = (self.var * self.count + var * n + np.square(delta) * self.count * n / total) / total
        self.mean = self.mean + delta * n / total
        self.count = total

    def state(self) -> dict[str, Any]:
        """Return count, mean, variance and rule; the rule `sb3` is left out, as in older states."""
        rule = {} if self.rule == SB3 else {"rule": self.rule}
        return {"count": self.count, "mean": self.mean.copy(), "var": self.var.copy()} | rule

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()` with the rule saved there, because the policy learned with that rule."""
        self.rule = str(state.get("rule", SB3))
        self.count = float(state["count"])
        self.mean = np.array(state["mean"], np.float64).reshape(self.mean.shape)
        self.var = np.array(state["var"], np.float64).reshape(self.var.shape)


class ObservationNormalizer:
    """Standardises observation rows in place."""

    def __init__(self, dim: int, rule: str = RELATIVE) -> None:
        self.moments = RunningMoments((dim,), rule)
        self.clips = True  # False: the policy learned from a dataset that was not clipped

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
    """Standardises the numeric part of a row; bytes of images and an action mask stay unchanged."""

    def __init__(self, codec: ObservationCodec, rule: str = RELATIVE) -> None:
        super().__init__(codec.numeric_dim, rule)
        self._numeric_view = codec.numeric_view

    def update(self, obs: NDArray[Any]) -> None:
        """Update the moments with the numeric part of raw rows `[n, dim]`."""
        super().update(self._numeric_view(obs))

    def apply(self, obs: NDArray[Any]) -> None:
        """Standardise the numeric part of rows `[n, dim]` in place with the current moments."""
        super().apply(self._numeric_view(obs))


def observation_normalizer(codec: ObservationCodec, rule: str = RELATIVE) -> ObservationNormalizer:
    """Make a new normalizer for the rows of `codec`; `ConfigError` if they hold only images."""
    if not codec.numeric_dim:
        raise ConfigError(
            f"env.normalize_obs=true: these observations are images only, {format_space(codec.space)}; "
            "networks already divide images by the space's upper bound; leave env.normalize_obs out"
        )
    is_numeric = codec.numeric_dim == codec.dim
    return ObservationNormalizer(codec.dim, rule) if is_numeric else PartialNormalizer(codec, rule)


class FixedNormalizer:
    """Standardises observation rows in place with given moments; without moments, rows stay unchanged.

    `(x - mean) / std`, as in `OfflineDatasetBuffer(normalize=True)`: components with a standard deviation
    below 1e-6 are only centred.
    """

    def __init__(self) -> None:
        self.moments: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None

    def set_moments(self, mean: Any, std: Any) -> None:
        """Set the mean and standard deviation of each component of an observation, `[dim]` each."""
        self.moments = np.array(mean, np.float64).ravel(), np.array(std, np.float64).ravel()

    def apply(self, obs: NDArray[np.float32]) -> None:
        """Standardise rows `[n, dim]` in place."""
        if self.moments is not None:
            mean, _ = self.moments
            obs[:] = (obs - mean) / self.divisors

    @property
    def divisors(self) -> NDArray[np.float64]:
        """The divisors `[dim]`; moments must be set."""
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
        """Continue from the entries of `state()`, which may be part of a larger state."""
        self.moments = None
        if "obs_mean" in state:
            self.set_moments(state["obs_mean"], state["obs_std"])


class RewardNormalizer:
    """Divides rewards by the running standard deviation of discounted returns, one for all environments.

    `scale` updates the moments with new rewards. `apply` scales stored rewards, which are discounted sums
    over `n_step` steps, and updates nothing.
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
        """Add raw rewards `[n]` to the running returns, update the moments, and return the scaled rewards.

        Where `dones` is true, the running return is then set to 0. Environments in `invalid_envs` made
        no transition; they do not count in the moments.
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
        """Scale raw n-step sums in place with the current moments, without updating the moments."""
        np.clip(rewards / self.moments.std, -self.limit, self.limit, out=rewards)

    def state(self) -> dict[str, Any]:
        """Return the moments and the running returns."""
        return {"moments": self.moments.state(), "returns": self.returns.copy()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`."""
        self.moments.restore(state["moments"])
        self.returns = np.array(state["returns"], np.float64).reshape(self.returns.shape)
