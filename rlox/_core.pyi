"""The compiled half of rlox: native environments, advantage kernels, primitives of
language-model post-training, random streams.

Array arguments may be NumPy arrays of any real dtype and layout, lists, or detached CPU
tensors. Errors are subclasses of `rlox.errors.RloxError`.
"""
from collections.abc import Iterable
from typing import Any, Literal, TypedDict, TypeVar, final, overload, type_check_only
import numpy as np
from numpy.typing import ArrayLike, NDArray
from typing_extensions import disjoint_base
__all__ = ['Acrobot', 'CartPole', 'DPOPair', 'MountainCar', 'MountainCarContinuous', 'NativeEnv', 'Pendulum', 'RunningStats', 'RunningStatsVec', 'SingleEnv', 'Stream', 'VecEnv', 'compute_batch_group_advantages', 'compute_batch_token_kl', 'compute_batch_token_kl_schulman', 'compute_gae', 'compute_gae_batched', 'compute_gae_batched_f32', 'compute_gae_time_major', 'compute_group_advantages', 'compute_lambda_returns', 'compute_n_step_returns', 'compute_token_kl', 'compute_token_kl_schulman', 'compute_vtrace', 'native_env_ids', 'pack_sequences', 'pack_tokens', 'stream_seed', 'unpack_sequences']
_Float = TypeVar('_Float', np.float32, np.float64)

@final
class RunningStats:
    """Running count, mean and variance of numbers, in float64.

    Batches and other statistics are merged as in Chan, Golub and LeVeque 1983, so the result is that
    of the whole up to rounding, and does not depend on threads. NaN and infinity are refused and
    leave the object as it was.
    """

    def __new__(cls) -> RunningStats:
        ...

    def update(self, x: float) -> None:
        """Takes in one number. Raises ShapeError if it is none, NonFiniteError for NaN and infinity."""

    def batch_update(self, xs: ArrayLike) -> None:
        """Takes in numbers `[n]`. Raises ShapeError for another shape, NonFiniteError for NaN and
        infinity.
        """

    def merge(self, other: RunningStats) -> None:
        """Takes in everything that `other` has seen. Raises ConfigError if that makes more than 2**53
        numbers.
        """

    def normalize(self, x: float, clip: float | None=None, eps: float=1e-08) -> float:
        """(x - mean) / sqrt(var + eps) of one number, cut to [-clip, clip] if `clip` is given.
        Raises ConfigError unless eps is positive and clip at least 0.
        """

    @overload
    def normalize_batch(self, xs: NDArray[np.float32], clip: float | None=None, eps: float=1e-08) -> NDArray[np.float32]:
        """`normalize` of numbers `[n]`: float32 if `xs` is, else float64."""

    @overload
    def normalize_batch(self, xs: ArrayLike, clip: float | None=None, eps: float=1e-08) -> NDArray[np.floating[Any]]:
        ...

    def reset(self) -> None:
        """Forgets everything."""

    def state(self) -> dict[str, int | float]:
        """Format, count, mean and sum of squared deviations; for `restore`."""

    def restore(self, state: dict[str, int | float]) -> None:
        """Continues from what `state()` returned. Raises CheckpointError if it is something else."""

    @property
    def count(self) -> int:
        """How many numbers were seen."""

    @property
    def mean(self) -> float:
        """Their mean; 0 before there are any."""

    @property
    def var(self) -> float:
        """Their population variance (divisor count); 1 before there are any."""

    @property
    def std(self) -> float:
        """The square root of `var`."""

@final
class RunningStatsVec:
    """Running count, mean and variance of vectors, per dimension, in float64.

    As `RunningStats`.

    Args:
        dim: numbers in a vector, at least 1.

    Raises:
        ConfigError: dim is not an integer in 1..2**28.
    """

    def __new__(cls, dim: int) -> RunningStatsVec:
        ...

    def update(self, x: ArrayLike) -> None:
        """Takes in one vector `[dim]`. Raises ShapeError for another shape, NonFiniteError for NaN and
        infinity.
        """

    def batch_update(self, xs: ArrayLike) -> None:
        """Takes in vectors `[n, dim]`. Raises ShapeError for another shape, NonFiniteError for NaN and
        infinity.
        """

    def merge(self, other: RunningStatsVec) -> None:
        """Takes in everything that `other` has seen. Raises ShapeError for another dimension, and
        ConfigError if that makes more than 2**53 vectors.
        """

    @overload
    def normalize(self, x: NDArray[np.float32], clip: float | None=None, eps: float=1e-08) -> NDArray[np.float32]:
        """(x - mean) / sqrt(var + eps) of one vector `[dim]`, cut to [-clip, clip] if `clip` is given:
        float32 if `x` is, else float64. Raises ConfigError unless eps is positive and clip at
        least 0.
        """

    @overload
    def normalize(self, x: ArrayLike, clip: float | None=None, eps: float=1e-08) -> NDArray[np.floating[Any]]:
        ...

    @overload
    def normalize_batch(self, xs: NDArray[np.float32], clip: float | None=None, eps: float=1e-08) -> NDArray[np.float32]:
        """`normalize` of vectors `[n, dim]`."""

    @overload
    def normalize_batch(self, xs: ArrayLike, clip: float | None=None, eps: float=1e-08) -> NDArray[np.floating[Any]]:
        ...

    def reset(self) -> None:
        """Forgets everything."""

    def state(self) -> dict[str, int | NDArray[np.float64]]:
        """Format, count, means and sums of squared deviations; for `restore`."""

    def restore(self, state: dict[str, int | NDArray[np.float64]]) -> None:
        """Continues from what `state()` returned. Raises CheckpointError if it is something else."""

    @property
    def dim(self) -> int:
        """Numbers in a vector."""

    @property
    def count(self) -> int:
        """How many vectors were seen."""

    @property
    def mean(self) -> NDArray[np.float64]:
        """Their mean, `[dim]`; 0 before there are any."""

    @property
    def var(self) -> NDArray[np.float64]:
        """Their population variance (divisor count), `[dim]`; 1 before there are any."""

    @property
    def std(self) -> NDArray[np.float64]:
        """The square root of `var`, `[dim]`."""

@final
class Stream:
    """A random stream keyed by (seed, name, index), with a position that can be saved.

    The draws depend on the key and the position only: adding a stream never shifts another.

    Args:
        seed: the run's seed, 0 to 2**64 - 1.
        name: what the stream is for, such as "env".
        index: which of several streams of that name, such as the number of an environment.

    Raises:
        ConfigError: seed or index is not an integer in range.
    """

    def __new__(cls, seed: int, name: str, index: int=0) -> Stream:
        ...

    def uniform(self, n: int) -> NDArray[np.float64]:
        """`n` uniform numbers in [0, 1) with 53 random bits each, float64 `[n]`.

        Each advances the position by 2. Raises ConfigError if `n` is not in 0..2**28.
        """

    def normal(self, n: int) -> NDArray[np.float64]:
        """`n` standard normal numbers, float64 `[n]`: Box and Muller's cosine branch,
        sqrt(-2 ln(1 - u)) cos(2 pi v) with u, v the next two uniform numbers.

        Each advances the position by 4. Raises ConfigError if `n` is not in 0..2**28.
        """

    def next_u64(self) -> int:
        """The next 64 random bits as an integer; advances the position by 2."""

    @property
    def position(self) -> int:
        """Words of 32 bits drawn so far; assign a saved value to continue from there."""

    @position.setter
    def position(self, value: int) -> None:
        ...

@type_check_only
class _Step(TypedDict):
    obs: NDArray[np.float32]
    rewards: NDArray[np.float64]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    final_obs: NDArray[np.float32]
    final_mask: NDArray[np.bool_]

@disjoint_base
class NativeEnv:
    """The fixed facts of a native environment; made as a `VecEnv` or a `SingleEnv`."""

    @property
    def env_id(self) -> str:
        """Gymnasium's id of the environment."""

    @property
    def obs_dim(self) -> int:
        """Numbers per observation."""

    @property
    def state_dim(self) -> int:
        """Numbers in the state of one environment."""

    @property
    def max_episode_steps(self) -> int:
        """Steps after which an episode is truncated."""

    @property
    def n_actions(self) -> int | None:
        """Number of actions of a Discrete space, None for Box."""

    @property
    def action_dim(self) -> int:
        """Numbers per action: 1 for Discrete."""

    @property
    def action_low(self) -> NDArray[np.float32] | None:
        """Lowest action, float32 `[action_dim]`, None for Discrete."""

    @property
    def action_high(self) -> NDArray[np.float32] | None:
        """Highest action, float32 `[action_dim]`, None for Discrete."""

    @property
    def observation_low(self) -> NDArray[np.float32]:
        """Lowest observation, float32 `[obs_dim]`, minus infinity where unbounded."""

    @property
    def observation_high(self) -> NDArray[np.float32]:
        """Highest observation, float32 `[obs_dim]`, infinity where unbounded."""

@type_check_only
class _SingleStep(TypedDict):
    obs: NDArray[np.float32]
    reward: float
    terminated: bool
    truncated: bool

@disjoint_base
class SingleEnv(NativeEnv):
    """One native environment: `reset` starts an episode, `step` advances it until it ends.

    Its episodes are those of row 0 of `VecEnv(1, seed, env_id)`; after the end of an episode
    `step` is an error until `reset` is called.

    Args:
        env_id: one of `native_env_ids()`.
        seed: episode starts are drawn from `Stream(seed, "env", 0)`.

    Raises:
        UnknownNameError: `env_id` is not native; names the nearest.
        ConfigError: the seed is out of range.
    """

    def __new__(cls, env_id: str, seed: int=0) -> SingleEnv:
        ...

    def reset(self, seed: int | None=None) -> NDArray[np.float32]:
        """Starts an episode; returns its first observation, float32 `[obs_dim]`.

        Args:
            seed: start over as a new environment with this seed; None draws on.

        Raises ConfigError for a seed out of range.
        """

    def step(self, action: ArrayLike) -> _SingleStep:
        """Advances the episode by one action.

        Args:
            action: an integer for Discrete; for Box a number, or numbers `[action_dim]`, clipped
                to the bounds by the environment.

        Returns:
            A dict: `obs` float32 `[obs_dim]`, the observation the step reached; `reward` float;
            `terminated` and `truncated` bool. After one of them, call `reset()`.

        Raises:
            EnvError: no episode is running, or an action out of range.
            ShapeError: an action of the wrong kind or size.
            NonFiniteError: an action is NaN or infinite.
        """

    def get_state(self) -> NDArray[np.float64]:
        """The state, float64 `[state_dim]`; between episodes that of the next one's start."""

    def set_state(self, state: ArrayLike, elapsed: int | None=None) -> None:
        """Replaces the state by finite numbers `[state_dim]`, and, unless None, the number of steps
        taken in the episode, which is below `max_episode_steps`. Starts an episode if none is running.

        Raises ShapeError, NonFiniteError or ConfigError for what does not fit; nothing changes.
        """

    def snapshot(self) -> dict[str, NDArray[Any] | int | str]:
        """Everything needed to continue exactly here: the dict of `VecEnv.snapshot()` for one
        environment, and `episode`, 0 before the first, 1 while one is running, 2 after its end.
        """

    def restore(self, snapshot: dict[str, NDArray[Any] | int | str]) -> None:
        """Continues from a `snapshot()` of the same environment, made under any seed.

        Raises:
            CheckpointError: a field is missing, or of another environment or format.
            ShapeError, NonFiniteError, ConfigError: an array does not fit; nothing changes.
        """

@final
class Acrobot(SingleEnv):
    """One `Acrobot-v1`; see `SingleEnv`.

    Args:
        seed: episode starts are drawn from `Stream(seed, "env", 0)`.
    """

    def __new__(cls, seed: int=0) -> Acrobot:
        ...

@final
class CartPole(SingleEnv):
    """One `CartPole-v1`; see `SingleEnv`.

    Args:
        seed: episode starts are drawn from `Stream(seed, "env", 0)`.
    """

    def __new__(cls, seed: int=0) -> CartPole:
        ...

@final
class MountainCar(SingleEnv):
    """One `MountainCar-v0`; see `SingleEnv`.

    Args:
        seed: episode starts are drawn from `Stream(seed, "env", 0)`.
    """

    def __new__(cls, seed: int=0) -> MountainCar:
        ...

@final
class MountainCarContinuous(SingleEnv):
    """One `MountainCarContinuous-v0`; see `SingleEnv`.

    Args:
        seed: episode starts are drawn from `Stream(seed, "env", 0)`.
    """

    def __new__(cls, seed: int=0) -> MountainCarContinuous:
        ...

@final
class Pendulum(SingleEnv):
    """One `Pendulum-v1`; see `SingleEnv`.

    Args:
        seed: episode starts are drawn from `Stream(seed, "env", 0)`.
    """

    def __new__(cls, seed: int=0) -> Pendulum:
        ...

@final
class VecEnv(NativeEnv):
    """`n` native environments stepped as one batch, with time limits and SAME_STEP autoreset.

    An environment whose episode ends starts its next one within the same step. Results depend
    on the seeds and the actions only, not on threads or on how many environments there are.

    Args:
        n: number of environments, 1 to 2**24.
        seed: environment i draws its episode starts from `Stream(seed, "env", i)`.
        env_id: one of `native_env_ids()`.
        seeds: explicit integers, `[n]`, instead of `seed`: environment i draws from
            `Stream(seeds[i], "env", 0)`, wherever it sits in the batch.
        shard: environments stepped together on one thread; never changes a result.
        parallel_from: number of environments from which threads share them; never changes a result.
        precision: "f64" steps as Gymnasium does; "f32" keeps and steps the state in float32, about
            twice as fast, with the deviation that is stated and tested for each environment.

    Raises:
        UnknownNameError: `env_id` is not native; names the nearest.
        ConfigError: `n`, a seed or `shard` is out of range, or `env_id` has no kernel of that
            precision.
        ShapeError: `seeds` has another length than `n`.
    """

    def __new__(cls, n: int, seed: int=0, env_id: str='CartPole-v1', *, seeds: Iterable[int] | None=None, shard: int=1024, parallel_from: int=16384, precision: str='f64') -> VecEnv:
        ...

    def reset_all(self) -> NDArray[np.float32]:
        """Starts a new episode in every environment; returns the observations, float32 `[n, obs_dim]`."""

    def observe_into(self, obs: NDArray[np.float32]) -> None:
        """Writes the current observations into `obs`, a C-contiguous float32 array `[n, obs_dim]`.

        Raises ShapeError if `obs` is anything else.
        """

    def step_all(self, actions: ArrayLike) -> _Step:
        """Steps every environment once.

        Args:
            actions: integers `[n]` for Discrete, numbers `[n, action_dim]` for Box (`[n]` will do
                if action_dim is 1); the environment clips to the bounds.

        Returns:
            A dict of fresh arrays: `obs` float32 `[n, obs_dim]`, the next episode's first where
            one ended; `rewards` float64 `[n]`; `terminated` and `truncated` bool `[n]`;
            `final_obs` float32 `[n, obs_dim]`, the observation each step reached: `obs`, except
            the ended episode's last where one ended; `final_mask` bool `[n]`, where one ended.

        Raises:
            ShapeError: a wrong number or dtype of actions.
            EnvError: an action out of range.
            NonFiniteError: an action is NaN or infinite.
        """

    def step_into(self, actions: ArrayLike, obs: NDArray[np.float32], rewards: NDArray[np.float64], terminated: NDArray[np.bool_], truncated: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.float32]] | None:
        """Steps every environment once, writing into arrays of the caller; allocates nothing else.

        Args:
            actions: as for `step_all`; int64 or float32 C-contiguous arrays are not copied.
            obs: float32 `[n, obs_dim]`.
            rewards: float64 `[n]`.
            terminated: bool `[n]`.
            truncated: bool `[n]`.

        Returns:
            None if no episode ended, else `(indices, final_obs)`: which environments, int64 `[k]`
            ascending, and their ended episodes' last observations, float32 `[k, obs_dim]`.

        Raises:
            ShapeError: an output is not C-contiguous, writeable, of that dtype and shape, or
                shares memory with another argument; or a wrong number or dtype of actions.
            EnvError: an action out of range.
            NonFiniteError: an action is NaN or infinite.
        """

    def get_state(self) -> NDArray[np.float64]:
        """The state of every environment, float64 `[n, state_dim]`."""

    def set_state(self, state: ArrayLike, elapsed: ArrayLike | None=None) -> None:
        """Replaces the state of every environment, rounded to float32 where that is what it is kept
        in (precision "f32", and MountainCarContinuous-v0 as in Gymnasium), streams and step counts staying as they are.

        Args:
            state: finite numbers `[n, state_dim]`.
            elapsed: steps already taken in each running episode, integers `[n]`, each below
                `max_episode_steps`; None keeps the present counts.

        Raises:
            ShapeError, NonFiniteError, ConfigError: what was given does not fit; nothing changes.
        """

    def snapshot(self) -> dict[str, NDArray[Any] | int | str]:
        """Everything needed to continue exactly here, as a dict of arrays, integers and strings:
        `format`, `env_id`, `precision`, `n_envs`, `state`, `elapsed`, and each stream's `seeds`, `indices`
        and `positions`.
        """

    def restore(self, snapshot: dict[str, NDArray[Any] | int | str]) -> None:
        """Continues from a `snapshot()` of the same environment, precision and size, made under any seed.

        Raises:
            CheckpointError: a field is missing, or of another environment, precision, size or
                format.
            ShapeError, NonFiniteError, ConfigError: an array does not fit; nothing changes.
        """

    @property
    def n_envs(self) -> int:
        """Number of environments."""

    @property
    def precision(self) -> str:
        """What the environments are stepped in: "f64" or "f32"."""

@overload
def compute_gae(rewards: NDArray[np.float32], values: NDArray[np.float32], dones: ArrayLike | None=None, last_value: float=0.0, gamma: float=0.99, lam: float=0.95, *, terminated: ArrayLike | None=None, truncated: ArrayLike | None=None, next_values: ArrayLike | None=None) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """GAE of one trajectory: advantages A_t and returns A_t + V(s_t), each `[T]`.

    A_t = delta_t + gamma lam (1 - end_t) A_{t+1},
    delta_t = r_t + gamma (1 - terminated_t) V(s_{t+1}) - V(s_t).

    Two forms. `dones` are episode ends without bootstrap and `last_value` is V of the state after
    the last step. `terminated`, `truncated` and `next_values` treat time limits exactly:
    `next_values` is V of the state each step reached, the final observation's after truncation.

    Args:
        rewards: r_t, `[T]`.
        values: V(s_t), `[T]`.
        dones: episode ends after step t, `[T]`, bool or numbers.
        last_value: V(s_T); 0 if `next_values` is given.
        gamma: discount in [0, 1].
        lam: trace decay in [0, 1].
        terminated: s_{t+1} is terminal, `[T]`.
        truncated: the episode was cut after step t, `[T]`; needs `next_values`.
        next_values: V(s_{t+1}), `[T]`; ignored where terminated.

    Returns:
        (advantages, returns): float32 if rewards and values are float32 arrays, else float64.

    Raises:
        ShapeError: an array has another shape or is not numeric.
        ConfigError: gamma or lam out of range, or contradicting arguments.
    """

@overload
def compute_gae(rewards: NDArray[np.float64], values: ArrayLike, dones: ArrayLike | None=None, last_value: float=0.0, gamma: float=0.99, lam: float=0.95, *, terminated: ArrayLike | None=None, truncated: ArrayLike | None=None, next_values: ArrayLike | None=None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    ...

@overload
def compute_gae(rewards: ArrayLike, values: ArrayLike, dones: ArrayLike | None=None, last_value: float=0.0, gamma: float=0.99, lam: float=0.95, *, terminated: ArrayLike | None=None, truncated: ArrayLike | None=None, next_values: ArrayLike | None=None) -> tuple[NDArray[np.floating[Any]], NDArray[np.floating[Any]]]:
    ...

@overload
def compute_gae_batched(rewards: NDArray[np.float32], values: NDArray[np.float32], dones: ArrayLike | None=None, last_values: ArrayLike | None=None, n_steps: int | None=None, gamma: float=0.99, lam: float=0.95, *, terminated: ArrayLike | None=None, truncated: ArrayLike | None=None, next_values: ArrayLike | None=None) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """GAE of N trajectories of T steps, flat in env-major order: env 0's T steps, then env 1's, ...

    As `compute_gae`, with arrays `[N * T]`.

    Args:
        rewards: r_t, `[N * T]`.
        values: V(s_t), `[N * T]`.
        dones: episode ends after step t, `[N * T]`, bool or numbers.
        last_values: V of the state after the last step of each env, `[N]`; None means 0.
        n_steps: T; may be left out if `last_values` is given.
        gamma: discount in [0, 1].
        lam: trace decay in [0, 1].
        terminated: s_{t+1} is terminal, `[N * T]`.
        truncated: the episode was cut after step t, `[N * T]`; needs `next_values`.
        next_values: V(s_{t+1}), `[N * T]`; instead of `last_values`.

    Returns:
        (advantages, returns), each `[N * T]`: float32 if rewards and values are, else float64.

    Raises:
        ShapeError: an array has another shape or is not numeric.
        ConfigError: gamma or lam out of range, or contradicting arguments.
    """

@overload
def compute_gae_batched(rewards: NDArray[np.float64], values: ArrayLike, dones: ArrayLike | None=None, last_values: ArrayLike | None=None, n_steps: int | None=None, gamma: float=0.99, lam: float=0.95, *, terminated: ArrayLike | None=None, truncated: ArrayLike | None=None, next_values: ArrayLike | None=None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    ...

@overload
def compute_gae_batched(rewards: ArrayLike, values: ArrayLike, dones: ArrayLike | None=None, last_values: ArrayLike | None=None, n_steps: int | None=None, gamma: float=0.99, lam: float=0.95, *, terminated: ArrayLike | None=None, truncated: ArrayLike | None=None, next_values: ArrayLike | None=None) -> tuple[NDArray[np.floating[Any]], NDArray[np.floating[Any]]]:
    ...

def compute_gae_batched_f32(rewards: ArrayLike, values: ArrayLike, dones: ArrayLike | None=None, last_values: ArrayLike | None=None, n_steps: int | None=None, gamma: float=0.99, lam: float=0.95, *, terminated: ArrayLike | None=None, truncated: ArrayLike | None=None, next_values: ArrayLike | None=None) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """`compute_gae_batched` with rewards and values taken as float32, whatever their dtype.

    Args:
        rewards: r_t, `[N * T]`.
        values: V(s_t), `[N * T]`.
        dones: episode ends after step t, `[N * T]`, bool or numbers.
        last_values: V of the state after the last step of each env, `[N]`; None means 0.
        n_steps: T; may be left out if `last_values` is given.
        gamma: discount in [0, 1].
        lam: trace decay in [0, 1].
        terminated: s_{t+1} is terminal, `[N * T]`.
        truncated: the episode was cut after step t, `[N * T]`; needs `next_values`.
        next_values: V(s_{t+1}), `[N * T]`; instead of `last_values`.

    Returns:
        (advantages, returns), each float32 `[N * T]`.

    Raises:
        ShapeError: an array has another shape or is not numeric.
        ConfigError: gamma or lam out of range, or contradicting arguments.
    """

@overload
def compute_gae_time_major(rewards: NDArray[np.float32], values: NDArray[np.float32], next_values: ArrayLike | None=None, terminated: ArrayLike | None=None, truncated: ArrayLike | None=None, gamma: float=0.99, lam: float=0.95, *, dones: ArrayLike | None=None, last_values: ArrayLike | None=None, advantages: NDArray[np.float32] | None=None, returns: NDArray[np.float32] | None=None) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """GAE of a `[T, N]` rollout, vectorised over the N environments.

    As `compute_gae`: either `next_values` with `terminated` and `truncated`, exact at time limits,
    or `last_values` with `dones`, where V(s_{t+1}) is the next row of `values`. float32 arrays are
    summed in float32, whose error grows with 1 / (1 - gamma lam): some 1e-6 of the largest value.

    Args:
        rewards: r_t, `[T, N]`.
        values: V(s_t), `[T, N]`.
        next_values: V(s_{t+1}) of the state each step reached, `[T, N]`: the final observation's
            after truncation; ignored after termination.
        terminated: s_{t+1} is terminal, `[T, N]`.
        truncated: the episode was cut after step t, `[T, N]`; needs `next_values`.
        gamma: discount in [0, 1].
        lam: trace decay in [0, 1].
        dones: episode ends after step t, `[T, N]`, bool or numbers; instead of the two above.
        last_values: V of the state after the last step of each env, `[N]`; instead of
            `next_values`.
        advantages: where to write A_t; C-contiguous, of the result's dtype and shape.
        returns: where to write A_t + V(s_t); likewise.

    Returns:
        (advantages, returns), each `[T, N]`: the arrays passed in or fresh ones; float32 if
        rewards and values are, else float64.

    Raises:
        ShapeError: an array has another shape, an output another dtype or layout, or memory is
            shared between an output and another argument.
        ConfigError: gamma or lam out of range, or contradicting arguments.
    """

@overload
def compute_gae_time_major(rewards: NDArray[np.float64], values: ArrayLike, next_values: ArrayLike | None=None, terminated: ArrayLike | None=None, truncated: ArrayLike | None=None, gamma: float=0.99, lam: float=0.95, *, dones: ArrayLike | None=None, last_values: ArrayLike | None=None, advantages: NDArray[np.float64] | None=None, returns: NDArray[np.float64] | None=None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    ...

@overload
def compute_gae_time_major(rewards: ArrayLike, values: ArrayLike, next_values: ArrayLike | None=None, terminated: ArrayLike | None=None, truncated: ArrayLike | None=None, gamma: float=0.99, lam: float=0.95, *, dones: ArrayLike | None=None, last_values: ArrayLike | None=None, advantages: NDArray[np.floating[Any]] | None=None, returns: NDArray[np.floating[Any]] | None=None) -> tuple[NDArray[np.floating[Any]], NDArray[np.floating[Any]]]:
    ...

@overload
def compute_group_advantages(rewards: NDArray[_Float], *, scale: Literal['group', 'batch', 'none']='group', ddof: int=0, eps: float=0.0) -> NDArray[_Float]:
    """Advantages of one group of completions: each reward relative to the group's.

    (r - mean) / (std + eps), as in GRPO (Shao et al. 2024). A group whose population standard
    deviation is not above 4 units of rounding of its first reward has no spread; its advantages are
    exactly 0, as are those divided by a standard deviation of at most `ddof` rewards. TRL 1.16 takes
    `ddof=1, eps=1e-4`, and divides the rounding error of a group without spread by 1e-4.

    Args:
        rewards: one per completion, `[G]`, finite.
        scale: "group" divides by the standard deviation; "none" does not (Dr. GRPO, Liu et al.
            2025); "batch" is "group", since one group is the batch.
        ddof: the standard deviation divides by G - ddof; 0 or more.
        eps: added to the standard deviation; 0 or more; unused if `scale` is "none".

    Returns:
        `[G]`: float32 if rewards is a float32 array, else float64.

    Raises:
        ShapeError: rewards is not `[G]` or not numeric.
        NonFiniteError: a reward is NaN or infinite.
        ConfigError: ddof or eps is out of range.
        UnknownNameError: no such scale.
    """

@overload
def compute_group_advantages(rewards: ArrayLike, *, scale: Literal['group', 'batch', 'none']='group', ddof: int=0, eps: float=0.0) -> NDArray[np.floating[Any]]:
    ...

@overload
def compute_batch_group_advantages(rewards: NDArray[_Float], group_size: int | None=None, *, scale: Literal['group', 'batch', 'none']='group', ddof: int=0, eps: float=0.0) -> NDArray[_Float]:
    """Advantages of several groups of the same number of completions.

    As `compute_group_advantages`, group by group. `scale="batch"` centres by group and divides by the
    standard deviation of all rewards of the batch, groups not told apart, as TRL does with
    `scale_rewards="batch"`; TRL's numbers take `ddof=1, eps=1e-4`.

    Args:
        rewards: group after group, `[n_groups * group_size]` or `[n_groups, group_size]`, finite.
        group_size: completions per group; may be left out if rewards is `[n_groups, group_size]`.
        scale: "group", "batch" or "none".
        ddof: a standard deviation over n rewards divides by n - ddof; 0 or more.
        eps: added to the standard deviation; 0 or more; unused if `scale` is "none".

    Returns:
        of the shape of rewards: float32 if rewards is a float32 array, else float64.

    Raises:
        ShapeError: rewards has another shape or is not numeric.
        NonFiniteError: a reward is NaN or infinite.
        ConfigError: group_size, ddof or eps is out of range.
        UnknownNameError: no such scale.
    """

@overload
def compute_batch_group_advantages(rewards: ArrayLike, group_size: int | None=None, *, scale: Literal['group', 'batch', 'none']='group', ddof: int=0, eps: float=0.0) -> NDArray[np.floating[Any]]:
    ...

def compute_token_kl(log_p: ArrayLike, log_q: ArrayLike, *, estimator: Literal['exact', 'k1', 'k2', 'k3']='exact', mask: ArrayLike | None=None, reduction: Literal['sum', 'mean']='sum') -> float:
    """KL(p || q) of one sequence from per-token log-probabilities.

    With d = log q - log p, each token contributes by `estimator`:

    - "exact": p (log p - log q); the sum is KL(p || q) itself where the arrays list a whole
      distribution. 0 where log p < -708 (float32: -87), -inf included, whatever log q is.
    - "k1": -d, for tokens sampled from p; unbiased, of either sign.
    - "k2": d^2 / 2, for tokens sampled from p; biased, never negative.
    - "k3": e^d - d - 1, for tokens sampled from p; unbiased, never negative (Schulman 2020).
      Within 16 units of rounding for d as rounded, near 0 too; inf for d > 709 (float32: 88) and -inf.

    NaN gives NaN; so does, unless "exact", log p = log q = -inf. Terms are computed in float32 if
    both arrays are float32 and always added in float64, in an order that depends on T only.

    Args:
        log_p: log-probabilities under the policy, `[T]`.
        log_q: log-probabilities of the same tokens under the reference, `[T]`.
        estimator: "exact", "k1", "k2" or "k3".
        mask: which tokens count, `[T]`, bool or 0 and 1; what is elsewhere, NaN included, never
            matters. None: all.
        reduction: "sum", or "mean" over the tokens that count; 0 if none does.

    Returns:
        a float.

    Raises:
        ShapeError: an array has another shape or is not numeric.
        ConfigError: the mask holds another number than 0 and 1.
        UnknownNameError: no such estimator or reduction.
    """

def compute_token_kl_schulman(log_p: ArrayLike, log_q: ArrayLike, *, mask: ArrayLike | None=None, reduction: Literal['sum', 'mean']='sum') -> float:
    """The k3 estimate of KL(p || q) of one sequence: `compute_token_kl` with `estimator="k3"`.

    The sum of e^d - d - 1 with d = log q - log p, p the policy and q the reference, for tokens
    sampled from p (Schulman 2020, "Approximating KL divergence"; the sign of TRL). Never negative.

    Args:
        log_p: log-probabilities under the policy, `[T]`.
        log_q: log-probabilities of the same tokens under the reference, `[T]`.
        mask: which tokens count, `[T]`, bool or 0 and 1; None: all.
        reduction: "sum", or "mean" over the tokens that count; 0 if none does.

    Returns:
        a float.

    Raises:
        ShapeError: an array has another shape or is not numeric.
        ConfigError: the mask holds another number than 0 and 1.
        UnknownNameError: no such reduction.
    """

@overload
def compute_batch_token_kl(log_p: NDArray[_Float], log_q: NDArray[_Float], seq_len: int | None=None, *, estimator: Literal['exact', 'k1', 'k2', 'k3']='exact', mask: ArrayLike | None=None, reduction: Literal['sum', 'mean']='sum') -> NDArray[_Float]:
    """KL(p || q) of each of B sequences of the same number of tokens.

    As `compute_token_kl`, one value per sequence.

    Args:
        log_p: log-probabilities under the policy, `[B * T]`, sequence after sequence, or `[B, T]`.
        log_q: log-probabilities of the same tokens under the reference; the shape of log_p.
        seq_len: T; may be left out if log_p is `[B, T]`.
        estimator: "exact", "k1", "k2" or "k3".
        mask: which tokens count, the shape of log_p, bool or 0 and 1; None: all.
        reduction: "sum", or "mean" over the tokens that count; 0 for a sequence of which none does.

    Returns:
        `[B]`: float32 if log_p and log_q are float32 arrays, else float64.

    Raises:
        ShapeError: an array has another shape or is not numeric.
        ConfigError: seq_len is out of range, or the mask holds another number than 0 and 1.
        UnknownNameError: no such estimator or reduction.
    """

@overload
def compute_batch_token_kl(log_p: ArrayLike, log_q: ArrayLike, seq_len: int | None=None, *, estimator: Literal['exact', 'k1', 'k2', 'k3']='exact', mask: ArrayLike | None=None, reduction: Literal['sum', 'mean']='sum') -> NDArray[np.floating[Any]]:
    ...

@overload
def compute_batch_token_kl_schulman(log_p: NDArray[_Float], log_q: NDArray[_Float], seq_len: int | None=None, *, mask: ArrayLike | None=None, reduction: Literal['sum', 'mean']='sum') -> NDArray[_Float]:
    """The k3 estimate of KL(p || q) of each of B sequences: `compute_batch_token_kl` with
    `estimator="k3"`.

    Args:
        log_p: log-probabilities under the policy, `[B * T]`, sequence after sequence, or `[B, T]`.
        log_q: log-probabilities of the same tokens under the reference; the shape of log_p.
        seq_len: T; may be left out if log_p is `[B, T]`.
        mask: which tokens count, the shape of log_p, bool or 0 and 1; None: all.
        reduction: "sum", or "mean" over the tokens that count; 0 for a sequence of which none does.

    Returns:
        `[B]`: float32 if log_p and log_q are float32 arrays, else float64.

    Raises:
        ShapeError: an array has another shape or is not numeric.
        ConfigError: seq_len is out of range, or the mask holds another number than 0 and 1.
        UnknownNameError: no such reduction.
    """

@overload
def compute_batch_token_kl_schulman(log_p: ArrayLike, log_q: ArrayLike, seq_len: int | None=None, *, mask: ArrayLike | None=None, reduction: Literal['sum', 'mean']='sum') -> NDArray[np.floating[Any]]:
    ...

def pack_sequences(lengths: ArrayLike, max_len: int) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.int64]]:
    """Assigns sequences to rows of `max_len` tokens, first-fit-decreasing (Johnson 1974).

    Longest first, sequences of one length in their given order, each into the first row that has
    room: at most 11/9 of the fewest rows possible, plus one. O(n log n) for n sequences.

    Args:
        lengths: tokens of each sequence, integers in 1..=max_len, `[n]`.
        max_len: tokens of a row, at least 1.

    Returns:
        (packed, masks, positions), each `[n_bins, max_len]`: packed int64 is the index into lengths
        of the sequence that a token belongs to, or -1 for padding; masks bool is True where there is
        a token; positions int64 counts from 0 within each sequence, and is 0 for padding.

    Raises:
        ShapeError: lengths is not `[n]` or not of integers.
        ConfigError: a length, named by its index, or max_len is out of range, or the rows would have
            2**31 tokens or more.
    """

@type_check_only
class _PackedTokens(TypedDict):
    tokens: NDArray[np.int64]
    packed: NDArray[np.int64]
    masks: NDArray[np.bool_]
    positions: NDArray[np.int64]
    cu_seqlens: NDArray[np.int32]
    order: NDArray[np.int64]

def pack_tokens(sequences: Iterable[ArrayLike], max_len: int, *, pad_token_id: int=0) -> _PackedTokens:
    """Lays sequences of tokens side by side in rows of `max_len`, as `pack_sequences` assigns them.

    Args:
        sequences: token ids of each sequence, 1 to max_len integers.
        max_len: tokens of a row, at least 1.
        pad_token_id: the token where a row has no more sequences.

    Returns:
        dict with `packed`, `masks`, `positions` of `pack_sequences`, and
        tokens: int64 `[n_bins, max_len]`;
        cu_seqlens: int32 `[n + 1]`, where each sequence begins in `tokens[masks]`, the rows without
        padding, and at last the number of tokens, as variable-length attention kernels take it;
        order: int64 `[n]`, the index of the sequence between cu_seqlens[i] and cu_seqlens[i + 1].

    Raises:
        ShapeError: a sequence is not one-dimensional or not of integers.
        ConfigError: a sequence, named by its index, is empty or too long, a token or max_len is out
            of range, or the rows would have 2**31 tokens or more.
    """

def unpack_sequences(values: Any, packed: ArrayLike) -> list[Any]:
    """The values of each sequence, cut out of rows: undoes `pack_tokens` and anything computed on it.

    Args:
        values: tokens, or what was computed for each of them: an array or a tensor
            `[n_bins, max_len, ...]` of any dtype.
        packed: which sequence each token belongs to, as `pack_sequences` returns it, int64
            `[n_bins, max_len]`.

    Returns:
        list of `[length, ...]` in the order in which the sequences were packed: views of values, so
        gradients flow through them.

    Raises:
        ShapeError: values does not begin with the shape of packed, or has no shape.
        ConfigError: packed has a sequence in two pieces, or leaves one out.
    """

@final
class DPOPair:
    """A prompt with a preferred and a dispreferred completion, for DPO (Rafailov et al. 2023).

    Immutable; pairs with the same tokens are equal.

    Args:
        prompt_tokens: token ids in 0..2**32, `[P]`; may be empty.
        chosen_tokens: the preferred completion's, `[C]`, at least one.
        rejected_tokens: the dispreferred completion's, `[R]`, at least one.

    Raises:
        ShapeError: tokens are not one-dimensional or not integers, or a completion is empty.
        ConfigError: a token id is out of range.
    """

    def __new__(cls, prompt_tokens: ArrayLike, chosen_tokens: ArrayLike, rejected_tokens: ArrayLike) -> DPOPair:
        ...

    def prompt_len(self) -> int:
        """Number of tokens of the prompt."""

    def chosen_len(self) -> int:
        """Number of tokens of the preferred completion."""

    def rejected_len(self) -> int:
        """Number of tokens of the dispreferred completion."""

    @property
    def prompt_tokens(self) -> NDArray[np.uint32]:
        """Token ids of the prompt, a new uint32 `[P]`."""

    @property
    def chosen_tokens(self) -> NDArray[np.uint32]:
        """Token ids of the preferred completion, a new uint32 `[C]`."""

    @property
    def rejected_tokens(self) -> NDArray[np.uint32]:
        """Token ids of the dispreferred completion, a new uint32 `[R]`."""

    def chosen_ids(self) -> NDArray[np.uint32]:
        """Prompt and preferred completion, a new uint32 `[P + C]`."""

    def rejected_ids(self) -> NDArray[np.uint32]:
        """Prompt and dispreferred completion, a new uint32 `[P + R]`."""

    def chosen_mask(self) -> NDArray[np.bool_]:
        """Which of `chosen_ids()` are the completion's and enter a loss, bool `[P + C]`."""

    def rejected_mask(self) -> NDArray[np.bool_]:
        """Which of `rejected_ids()` are the completion's and enter a loss, bool `[P + R]`."""

    def __eq__(self, other: object, /) -> bool:
        ...

    def __ne__(self, other: object, /) -> bool:
        ...

    def __hash__(self) -> int:
        ...

@overload
def compute_lambda_returns(rewards: NDArray[np.float32], next_values: NDArray[np.float32], gamma: float=0.99, lam: float=0.95, *, dones: ArrayLike | None=None, terminated: ArrayLike | None=None, truncated: ArrayLike | None=None) -> NDArray[np.float32]:
    """lambda-returns G_t = r_t + gamma ((1 - lam) V(s_{t+1}) + lam G_{t+1}).

    After termination both values are 0; after truncation and the last step G_{t+1} is V(s_{t+1}).
    Equal to GAE's advantages plus V(s_t) where V(s_{t+1}) is the next step's value. Sources: Sutton
    and Barto 2018, eq. 12.3; the recursion is eq. 6 of Hafner et al. 2020 (Dreamer). A NaN spoils
    its step and those before it in the same episode.

    Args:
        rewards: r_t, `[T]` or `[T, N]`.
        next_values: V(s_{t+1}) of the state each step reached, shape of rewards; ignored after
            termination.
        gamma: discount in [0, 1].
        lam: weight of longer returns in [0, 1].
        dones: episode ends after step t without bootstrap, shape of rewards, bool or numbers.
        terminated: s_{t+1} is terminal, shape of rewards.
        truncated: the episode was cut after step t, shape of rewards.

    Returns:
        The returns, shape of rewards: float32 if rewards and next_values are, else float64.

    Raises:
        ShapeError: an array has another shape or is not numeric.
        ConfigError: gamma or lam out of range, or contradicting arguments.
    """

@overload
def compute_lambda_returns(rewards: NDArray[np.float64], next_values: ArrayLike, gamma: float=0.99, lam: float=0.95, *, dones: ArrayLike | None=None, terminated: ArrayLike | None=None, truncated: ArrayLike | None=None) -> NDArray[np.float64]:
    ...

@overload
def compute_lambda_returns(rewards: ArrayLike, next_values: ArrayLike, gamma: float=0.99, lam: float=0.95, *, dones: ArrayLike | None=None, terminated: ArrayLike | None=None, truncated: ArrayLike | None=None) -> NDArray[np.floating[Any]]:
    ...

@overload
def compute_n_step_returns(rewards: NDArray[np.float32], next_values: NDArray[np.float32], n: int, gamma: float=0.99, *, dones: ArrayLike | None=None, terminated: ArrayLike | None=None, truncated: ArrayLike | None=None) -> NDArray[np.float32]:
    """n-step returns G_t = r_t + ... + gamma^(m-1) r_{t+m-1} + gamma^m V(s_{t+m}).

    m is n, or fewer where the episode or the array ends first: a window never crosses the end of an
    episode. V(s_{t+m}) is the value of the state the window's last step reached: 0 after
    termination, the final observation's after truncation. Source: Sutton and Barto 2018, eq. 7.1.
    Takes time proportional to T, whatever n is. A NaN spoils the windows that hold it.

    Args:
        rewards: r_t, `[T]` or `[T, N]`.
        next_values: V(s_{t+1}) of the state each step reached, shape of rewards; ignored after
            termination.
        n: rewards in a window, at least 1.
        gamma: discount in [0, 1].
        dones: episode ends after step t without bootstrap, shape of rewards, bool or numbers.
        terminated: s_{t+1} is terminal, shape of rewards.
        truncated: the episode was cut after step t, shape of rewards.

    Returns:
        The returns, shape of rewards: float32 if rewards and next_values are, else float64.

    Raises:
        ShapeError: an array has another shape or is not numeric.
        ConfigError: n or gamma out of range, or contradicting arguments.
    """

@overload
def compute_n_step_returns(rewards: NDArray[np.float64], next_values: ArrayLike, n: int, gamma: float=0.99, *, dones: ArrayLike | None=None, terminated: ArrayLike | None=None, truncated: ArrayLike | None=None) -> NDArray[np.float64]:
    ...

@overload
def compute_n_step_returns(rewards: ArrayLike, next_values: ArrayLike, n: int, gamma: float=0.99, *, dones: ArrayLike | None=None, terminated: ArrayLike | None=None, truncated: ArrayLike | None=None) -> NDArray[np.floating[Any]]:
    ...

@overload
def compute_vtrace(log_rhos: NDArray[np.float32], rewards: NDArray[np.float32], values: NDArray[np.float32], dones: ArrayLike | None=None, bootstrap_value: ArrayLike | None=None, gamma: float=0.99, rho_bar: float=1.0, c_bar: float=1.0, *, lam: float=1.0, terminated: ArrayLike | None=None, truncated: ArrayLike | None=None, next_values: ArrayLike | None=None) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """V-trace targets and policy-gradient advantages of off-policy steps.

    With rho_t = min(rho_bar, exp(log_rho_t)) and c_t = lam min(c_bar, exp(log_rho_t)):
    delta_t = rho_t (r_t + gamma V(s_{t+1}) - V(s_t)), vs_t = V(s_t) + delta_t +
    gamma c_t (vs_{t+1} - V(s_{t+1})), pg_t = rho_t (r_t + gamma vs_{t+1} - V(s_t)).
    Nothing follows a termination; after a truncation and after the last step vs_{t+1} is
    V(s_{t+1}). Source: Espeholt et al. 2018 (IMPALA), eq. 1 and section 4.2, lambda as in remark 2.

    Two forms, as in `compute_gae`: `dones` and `bootstrap_value`, or `terminated`, `truncated` and
    `next_values`. A NaN spoils its step and those before it in the same episode; nothing beyond an
    end is read. An infinite ratio that is not clipped gives infinities or NaN likewise.

    Args:
        log_rhos: log of target over behaviour probability of the actions, `[T]` or `[T, N]`.
        rewards: r_t, `[T]` or `[T, N]`.
        values: V(s_t), likewise.
        dones: episode ends after step t, likewise, bool or numbers.
        bootstrap_value: V of the state after the last step, a number for `[T]`, else `[N]`.
        gamma: discount in [0, 1].
        rho_bar: largest ratio in delta and pg, at least 0; may be infinite.
        c_bar: largest ratio in the trace, at least 0; may be infinite.
        lam: trace decay in [0, 1].
        terminated: s_{t+1} is terminal, shape of rewards.
        truncated: the episode was cut after step t, shape of rewards; needs `next_values`.
        next_values: V(s_{t+1}) of the state each step reached, shape of rewards; instead of
            `bootstrap_value`; ignored where terminated.

    Returns:
        (vs, pg_advantages), each of the shape of rewards: float32 if log_rhos, rewards and values
        are float32 arrays, else float64.

    Raises:
        ShapeError: an array has another shape or is not numeric.
        ConfigError: a setting out of range, or contradicting arguments.
    """

@overload
def compute_vtrace(log_rhos: ArrayLike, rewards: NDArray[np.float64], values: ArrayLike, dones: ArrayLike | None=None, bootstrap_value: ArrayLike | None=None, gamma: float=0.99, rho_bar: float=1.0, c_bar: float=1.0, *, lam: float=1.0, terminated: ArrayLike | None=None, truncated: ArrayLike | None=None, next_values: ArrayLike | None=None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    ...

@overload
def compute_vtrace(log_rhos: ArrayLike, rewards: ArrayLike, values: ArrayLike, dones: ArrayLike | None=None, bootstrap_value: ArrayLike | None=None, gamma: float=0.99, rho_bar: float=1.0, c_bar: float=1.0, *, lam: float=1.0, terminated: ArrayLike | None=None, truncated: ArrayLike | None=None, next_values: ArrayLike | None=None) -> tuple[NDArray[np.floating[Any]], NDArray[np.floating[Any]]]:
    ...

def native_env_ids() -> list[str]:
    """Ids of the native environments, in alphabetical order; each equals Gymnasium's step by step."""

def stream_seed(seed: int, name: str, index: int=0) -> int:
    """A 63-bit integer for seeding a foreign generator, such as a `torch.Generator`, from the same
    scheme: the first draw of `Stream(seed, name, index)` without its lowest bit.

    Raises:
        ConfigError: seed or index is not an integer in 0..2**64.
    """
