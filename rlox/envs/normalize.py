"""Running standardisation of observations and rewards, part of the run's state.

Moments follow Chan et al. 1983 (parallel merge), one merge per environment step; observations are
`clip((x - mean) / deviation, -10, 10)`; rewards are divided by the deviation of the discounted return,
without subtracting a mean, and the accumulator restarts at an episode's end. `env.normalize_rule` says what
the moments begin with and what the deviation is of a number that hardly varies:

- `relative`: with the first rows. A number whose standard deviation is below `2**-23` of its mean, the
  precision of float32, is a constant and has the deviation 1. So `a x + b` is standardised as `x` is.
- `sb3`: Stable-Baselines3's, with the mean 0 and the variance 1 that weigh `1e-4` rows; the deviation is
  `sqrt(var + 1e-8)`. Numbers that vary by less than 1e-4 stay near 0.

A policy that learned from a dataset has the dataset's moments, which do not run and clip nothing; where it
goes on in an environment they run and clip nothing still.
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
EPSILON = 1e-8  # of `sb3`
FLOAT32_PRECISION = 2.0**-23  # of float32, relative
MIN_STD = 1e-6  # as `OfflineDatasetBuffer` has it


class Normalizer(Protocol):
    """What stands between an environment's observations and a policy."""

    def apply(self, obs: NDArray[np.float32]) -> None:
        """Standardise rows `[n, dim]` in place with the present moments."""


class RunningMoments:
    """Mean and population variance of everything seen, per dimension, in float64.

    Not `rlox.RunningStatsVec`, which merges 8 rows in 3 us (this one: 17) but has no prior, which is part of
    saved runs and of Stable-Baselines3's rule.

    Parameters
    ----------
    shape : of a row
    rule : `"relative"` or `"sb3"`
    """

    def __init__(self, shape: tuple[int, ...], rule: str = RELATIVE) -> None:
        self.rule = rule
        self.count = 1e-4 if rule == SB3 else 0.0
        self.mean = np.zeros(shape, np.float64)
        self.var = np.ones(shape, np.float64)

    @property
    def std(self) -> NDArray[np.float64]:
        """What numbers are divided by, of a row's shape."""
        if self.rule == SB3:
            return np.sqrt(self.var + EPSILON)
        varies = self.var > np.square(FLOAT32_PRECISION * self.mean)
        return np.sqrt(np.where(varies, self.var, 1.0))

    def update(self, batch: NDArray[Any]) -> None:
        """Merge a batch `[n, *shape]`."""
        n = len(batch)
        # `batch.mean(0)` and `batch.var(0)` bit for bit, in two thirds of their time
        mean = np.add.reduce(batch, axis=0, dtype=np.float64) / n
        var = np.add.reduce(np.square(batch - mean), axis=0) / n
        delta, total = mean - self.mean, self.count + n
        self.var = (self.var * self.count + var * n + np.square(delta) * self.count * n / total) / total
        self.mean = self.mean + delta * n / total
        self.count = total

    def state(self) -> dict[str, Any]:
        """Count, mean and variance, and the rule unless it is that of states that have none."""
        rule = {} if self.rule == SB3 else {"rule": self.rule}
        return {"count": self.count, "mean": self.mean.copy(), "var": self.var.copy()} | rule

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`, by its rule: what was learned with these numbers goes on with them."""
        self.rule = str(state.get("rule", SB3))
        self.count = float(state["count"])
        self.mean = np.array(state["mean"], np.float64).reshape(self.mean.shape)
        self.var = np.array(state["var"], np.float64).reshape(self.var.shape)


class ObservationNormalizer:
    """Standardises observation rows in place."""

    def __init__(self, dim: int, rule: str = RELATIVE) -> None:
        self.moments = RunningMoments((dim,), rule)
        self.clips = True  # not of a policy that learned from a dataset, which saw them whole

    def update(self, obs: NDArray[np.float32]) -> None:
        """Take raw rows `[n, dim]` into the moments."""
        self.moments.update(obs)

    def apply(self, obs: NDArray[np.float32]) -> None:
        """Standardise rows `[n, dim]` in place with the present moments."""
        standardized = (obs - self.moments.mean) / self.moments.std
        if self.clips:
            np.clip(standardized, -CLIP, CLIP, out=standardized)
        obs[:] = standardized

    def state(self) -> dict[str, Any]:
        """The moments, and whether nothing is clipped."""
        return self.moments.state() | ({} if self.clips else {"clips": False})

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`."""
        self.moments.restore(state)
        self.clips = bool(state.get("clips", True))


class PartialNormalizer(ObservationNormalizer):
    """Standardises the numbers of a row; images, and a mask of actions behind them, stay as they are."""

    def __init__(self, codec: ObservationCodec, rule: str = RELATIVE) -> None:
        super().__init__(codec.numeric_dim, rule)
        self._numeric_view = codec.numeric_view

    def update(self, obs: NDArray[Any]) -> None:
        """Take the numbers of raw rows `[n, dim]` into the moments."""
        super().update(self._numeric_view(obs))

    def apply(self, obs: NDArray[Any]) -> None:
        """Standardise the numbers of rows `[n, dim]` in place with the present moments."""
        super().apply(self._numeric_view(obs))


def observation_normalizer(codec: ObservationCodec, rule: str = RELATIVE) -> ObservationNormalizer:
    """One for the rows of `codec`, at its start; `ConfigError` where there are images and no numbers."""
    if not codec.numeric_dim:
        raise ConfigError(
            f"env.normalize_obs=true: these observations are images alone, {format_space(codec.space)}, "
            "which networks divide by what their space allows; leave env.normalize_obs out"
        )
    is_numeric = codec.numeric_dim == codec.dim
    return ObservationNormalizer(codec.dim, rule) if is_numeric else PartialNormalizer(codec, rule)


class FixedNormalizer:
    """Standardises observation rows in place by moments that are given; until then they stay as they are.

    `(x - mean) / std`, as `OfflineDatasetBuffer(normalize=True)` does it: numbers with a deviation below
    1e-6 are only centred.
    """

    def __init__(self) -> None:
        self.moments: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None

    def set_moments(self, mean: Any, std: Any) -> None:
        """Take the mean and the deviation of each number of an observation, `[dim]` in all."""
        self.moments = np.array(mean, np.float64).ravel(), np.array(std, np.float64).ravel()

    def apply(self, obs: NDArray[np.float32]) -> None:
        """Standardise rows `[n, dim]` in place."""
        if self.moments is not None:
            mean, _ = self.moments
            obs[:] = (obs - mean) / self.scale

    @property
    def scale(self) -> NDArray[np.float64]:
        """What numbers are divided by, `[dim]`, once there are moments."""
        assert self.moments is not None
        _, std = self.moments
        scale: NDArray[np.float64] = np.where(std < MIN_STD, 1.0, std)
        return scale

    def state(self) -> dict[str, Any]:
        """The moments, or nothing where there are none."""
        if self.moments is None:
            return {}
        mean, std = self.moments
        return {"obs_mean": mean.copy(), "obs_std": std.copy()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a state that has what `state()` gave, perhaps among others."""
        self.moments = None
        if "obs_mean" in state:
            self.set_moments(state["obs_mean"], state["obs_std"])


class RewardNormalizer:
    """Scales rewards by the running deviation of each environment's discounted return.

    Stored ones are drawn as sums over `n_step` steps, discounted.
    """

    def __init__(self, n_envs: int, gamma: float, n_step: int = 1, rule: str = RELATIVE) -> None:
        self.gamma = gamma
        self.limit = CLIP * sum(gamma**k for k in range(n_step))  # of rewards that are clipped each
        self.returns = np.zeros(n_envs, np.float64)
        self.moments = RunningMoments((), rule)

    def scale(
        self,
        rewards: NDArray[np.float64],
        dones: NDArray[np.bool_],
        invalid_envs: NDArray[np.int64] | None = None,
    ) -> NDArray[np.float64]:
        """Take raw rewards `[n]` into the moments and return them scaled; `dones` restarts a return.

        Those of the environments `invalid_envs` are none.
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
        """Scale raw sums in place with the present moments, which stay as they are."""
        np.clip(rewards / self.moments.std, -self.limit, self.limit, out=rewards)

    def state(self) -> dict[str, Any]:
        """The moments and the running returns."""
        return {"moments": self.moments.state(), "returns": self.returns.copy()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`."""
        self.moments.restore(state["moments"])
        self.returns = np.array(state["returns"], np.float64).reshape(self.returns.shape)
