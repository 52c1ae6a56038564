"""The compiled half of rlox: native environments, advantage kernels, random streams.

Array arguments may be NumPy arrays of any real dtype and layout, lists, or detached CPU
tensors. Errors are subclasses of `rlox.errors.RloxError`.
"""
from collections.abc import Iterable
from typing import Any, TypedDict, final, overload, type_check_only
import numpy as np
from numpy.typing import ArrayLike, NDArray
from typing_extensions import disjoint_base
__all__ = ['Acrobot', 'CartPole', 'MountainCar', 'MountainCarContinuous', 'NativeEnv', 'Pendulum', 'SingleEnv', 'Stream', 'VecEnv', 'compute_gae', 'compute_gae_batched', 'compute_gae_batched_f32', 'compute_gae_time_major', 'native_env_ids', 'stream_seed']

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
def compute_gae_time_major(rewards: NDArray[np.float32], values: NDArray[np.float32], next_values: ArrayLike, terminated: ArrayLike, truncated: ArrayLike, gamma: float=0.99, lam: float=0.95, *, advantages: NDArray[np.float32] | None=None, returns: NDArray[np.float32] | None=None) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """GAE of a `[T, N]` rollout, vectorised over the N environments and exact at time limits.

    Args:
        rewards: r_t, `[T, N]`.
        values: V(s_t), `[T, N]`.
        next_values: V(s_{t+1}) of the state each step reached, `[T, N]`: the final observation's
            after truncation; ignored after termination.
        terminated: s_{t+1} is terminal, `[T, N]`.
        truncated: the episode was cut after step t, `[T, N]`.
        gamma: discount in [0, 1].
        lam: trace decay in [0, 1].
        advantages: where to write A_t; C-contiguous, of the result's dtype and shape.
        returns: where to write A_t + V(s_t); likewise.

    Returns:
        (advantages, returns), each `[T, N]`: the arrays passed in or fresh ones; float32 if
        rewards and values are, else float64.

    Raises:
        ShapeError: an array has another shape, an output another dtype or layout, or memory is
            shared between an output and another argument.
        ConfigError: gamma or lam out of range.
    """

@overload
def compute_gae_time_major(rewards: NDArray[np.float64], values: ArrayLike, next_values: ArrayLike, terminated: ArrayLike, truncated: ArrayLike, gamma: float=0.99, lam: float=0.95, *, advantages: NDArray[np.float64] | None=None, returns: NDArray[np.float64] | None=None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    ...

@overload
def compute_gae_time_major(rewards: ArrayLike, values: ArrayLike, next_values: ArrayLike, terminated: ArrayLike, truncated: ArrayLike, gamma: float=0.99, lam: float=0.95, *, advantages: NDArray[np.floating[Any]] | None=None, returns: NDArray[np.floating[Any]] | None=None) -> tuple[NDArray[np.floating[Any]], NDArray[np.floating[Any]]]:
    ...

def native_env_ids() -> list[str]:
    """Ids of the native environments, in alphabetical order; each equals Gymnasium's step by step."""

def stream_seed(seed: int, name: str, index: int=0) -> int:
    """A 63-bit integer for seeding a foreign generator, such as a `torch.Generator`, from the same
    scheme: the first draw of `Stream(seed, name, index)` without its lowest bit.

    Raises:
        ConfigError: seed or index is not an integer in 0..2**64.
    """
