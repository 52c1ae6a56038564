"""The compiled half of rlox: native environments, advantage kernels, random streams.

Array arguments may be NumPy arrays of any real dtype and layout, lists, or detached CPU
tensors. Errors are subclasses of `rlox.errors.RloxError`.
"""
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypedDict, final, overload, type_check_only
import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
__all__ = ['HindsightConfig', 'PrioritizedReplayBuffer', 'ReplayBuffer', 'SequenceReplayBuffer', 'Stream', 'VecEnv', 'compute_gae', 'compute_gae_batched', 'compute_gae_batched_f32', 'compute_gae_time_major', 'native_env_ids', 'stream_seed']

@final
class HindsightConfig:
    """How `ReplayBuffer.sample(her=...)` replaces goals (Andrychowicz et al. 2017, section 4.5).

    For buffers of dict observations with `achieved_goal` and `desired_goal`. A drawn transition is
    relabelled with probability `ratio`: `desired_goal` of both its observations becomes what
    `next_obs` achieved in a transition of the same episode, and its reward is computed anew.
    `terminated` and `truncated` stay. An episode that still runs counts up to its newest
    transition, one that was partly overwritten from its oldest.

    Args:
        compute_reward: `compute_reward(achieved_goal, desired_goal, info)` with the goals of the m
            relabelled transitions, `[m, ...]`, the achieved ones of `next_obs`, and an empty dict;
            returns the rewards, `[m]`. The `compute_reward` of a Gymnasium-Robotics environment.
        strategy: "future" (any transition from the relabelled one on), "final" (the episode's
            last) or "episode" (any).
        k: relabelled transitions for each that is not: `ratio` is k / (k + 1).
        ratio: the probability itself, in [0, 1], instead of `k`.

    Raises:
        UnknownNameError: there is no such strategy.
        ConfigError: `ratio` is out of range.
    """

    def __new__(cls, compute_reward: Callable[..., ArrayLike], strategy: str='future', k: int=4, *, ratio: float | None=None) -> HindsightConfig:
        ...

    @property
    def strategy(self) -> str:
        """The strategy's name."""

    @property
    def ratio(self) -> float:
        """The probability that a drawn transition is relabelled."""

@final
class ReplayBuffer:
    """A ring of transitions, sampled uniformly with replacement.

    The oldest transition is overwritten first, in a ring of `capacity // n_envs` rows for each
    environment. An observation is stored once though it is the `next_obs` of one row and the `obs`
    of the next; where the bytes differ (a reset) both are kept. Numbers are stored as they are,
    NaN and infinity included.

    Any number of threads may call any methods at once: a call sees whole rows only, sampling does
    not wait for sampling, and the GIL is released during long calls and while waiting. Results
    never depend on the number of threads.

    Args:
        capacity: transitions held over all environments, up to 2**30.
        obs_dim: numbers per observation; or give `obs_shape` or `obs_spaces`.
        act_dim: numbers per action, 1 for a discrete action; or give `action_shape`.
        n_envs: environments pushed side by side.
        seed: draws without a seed of their own come from `Stream(seed, "replay", i)` for the
            i-th batch.
        obs_shape: shape of an observation.
        obs_dtype: uint8, int32, int64, float32, float64 or bool.
        obs_spaces: `{name: (dtype, shape)}` for observations that are dicts of arrays.
        action_shape: shape of an action.
        action_dtype: as `obs_dtype`.
        reward_dtype: float32 or float64.
        frame_stack: `(k, "first")` or `(k, "last")` if an observation stacks k frames along its
            first or last axis, oldest first (for dict observations, a mapping from names to such
            pairs): each frame is stored once. Stacks are compared by bytes, so any reset
            convention is reproduced exactly; frames that a reset changes take memory of their own.
        extra_columns: `{name: (dtype, shape)}` of further columns, pushed as `extra`.

    Raises:
        ConfigError: a setting is out of range or contradicts another.
        UnknownNameError: a keyword or dtype that does not exist; names the nearest.
    """

    def __new__(cls, capacity: int, obs_dim: int | None=None, act_dim: int | None=None, *, n_envs: int=1, seed: int=0, obs_shape: tuple[int, ...] | None=None, obs_dtype: DTypeLike='float32', obs_spaces: Mapping[str, tuple[DTypeLike, tuple[int, ...]]] | None=None, action_shape: tuple[int, ...] | None=None, action_dtype: DTypeLike='float32', reward_dtype: DTypeLike='float32', frame_stack: tuple[int, str] | Mapping[str, tuple[int, str]] | None=None, extra_columns: Mapping[str, tuple[DTypeLike, tuple[int, ...]]] | None=None) -> ReplayBuffer:
        ...

    @classmethod
    def from_spaces(cls, observation_space: Any, action_space: Any, capacity: int, *, n_envs: int=1, seed: int=0, reward_dtype: DTypeLike='float32', frame_stack: tuple[int, str] | Mapping[str, tuple[int, str]] | None=None, extra_columns: Mapping[str, tuple[DTypeLike, tuple[int, ...]]] | None=None) -> ReplayBuffer:
        """A buffer for the observations and actions of Gymnasium spaces; Discrete actions are
        `(1,)` of the space's dtype. Other keywords are those of the constructor.

        Raises UnsupportedSpaceError for spaces whose elements are no arrays.
        """

    def push(self, obs: ArrayLike | Mapping[str, ArrayLike], action: ArrayLike, reward: ArrayLike, terminated: ArrayLike, truncated: ArrayLike, next_obs: ArrayLike | Mapping[str, ArrayLike] | None=None, extra: dict[str, Any] | None=None) -> None:
        """Stores one transition; with `n_envs > 1` one of each environment, every argument with a
        leading axis `[n_envs]`.

        Args:
            obs: the observation acted on, in the declared shape (or any with as many elements if
                that is flat), or a mapping for dict observations.
            action: a number or array.
            reward: a number.
            terminated: whether the state reached is terminal: its value is 0.
            truncated: whether the episode was cut short: the state reached has a value.
            next_obs: what the step led to, the last observation of the episode where one ended.
                Left out, it is the next `obs` pushed for the same environment (until then, and
                where the episode ends, `obs` itself).
            extra: the extra columns, a dict by name.

        Raises:
            ShapeError: an array of another shape, or a number that the column cannot hold.
        """

    def push_batch(self, obs: ArrayLike | Mapping[str, ArrayLike], actions: ArrayLike, rewards: ArrayLike, terminated: ArrayLike, truncated: ArrayLike, next_obs: ArrayLike | Mapping[str, ArrayLike] | None=None, *, env_ids: ArrayLike | None=None, extra: dict[str, Any] | None=None) -> None:
        """Stores consecutive transitions of one environment, oldest first, each array with a leading
        axis `[n]`; otherwise as `push`.

        Args:
            env_ids: the environment of each row, `[n]`, the rows of one environment in time order;
                without it all are of environment 0.
        """

    def sample(self, batch_size: int, seed: int | None=None, *, n_batches: int | None=None, n_step: int | None=None, gamma: float | None=None, her: HindsightConfig | None=None, out: dict[str, Any] | None=None) -> dict[str, Any]:
        """Draws transitions uniformly, with replacement.

        Args:
            batch_size: rows per batch, B.
            seed: the same seed and contents give the same batch; without one the buffer's own
                draws go on, which `state` saves.
            n_batches: several batches in one call, equal to as many calls; every array then has a
                leading axis `[n_batches]`. With a seed, batch i draws from
                `Stream(seed, "replay", i)`.
            n_step: rewards become R = sum_{k<m} gamma^k r_{t+k} and `next_obs` and the flags those
                of row t+m-1, with m = n_step, or less where the episode ends or the newest row is
                reached; `discounts` is added. (Sutton & Barto 2018, equation 7.1.)
            gamma: discount per step, in [0, 1]; needed with `n_step`.
            her: hindsight relabelling of dict observations; see `HindsightConfig`.
            out: a dict of arrays as returned by an earlier call of the same sizes, or of CPU
                tensors, to be filled in place and returned.

        Returns:
            A dict: `obs` and `next_obs` `[B, ...]` (dicts for dict observations), `actions`
            `[B, act_dim]`, `rewards` `[B]`, `terminated` and `truncated` bool `[B]`, the extra
            columns, `indices` uint64 `[B]` for `gather` and `update`, and with `n_step`
            `discounts` float32 `[B]`, gamma^m (1 - terminated).

        Raises:
            ConfigError: the buffer is empty, or a setting is out of range.
            ShapeError: an array of `out` has another shape or dtype.
        """

    def gather(self, indices: ArrayLike, *, out: dict[str, Any] | None=None) -> dict[str, Any]:
        """The transitions with the given indices, uint64 `[n]`, as `sample` returns them.

        Raises StaleIndexError if one was overwritten or never written.
        """

    def update(self, column: str, indices: ArrayLike, values: ArrayLike) -> int:
        """Writes `values`, `[n, ...]`, into a column (`actions`, `rewards` or an extra one) of the
        rows with the given indices, `[n]`; of an index given twice the last value stays.

        Returns:
            How many rows were overwritten in the meantime and passed over.
        """

    def cut_episode(self, env: int=0) -> None:
        """Ends the running episode of environment `env` after its newest transition, whatever its
        flags say: n-step windows and goals do not join it to what is pushed next. For an
        environment that died and was replaced.
        """

    def clear(self) -> None:
        """Forgets every transition; indices go on counting."""

    def state(self) -> dict[str, Any]:
        """Everything needed to go on from here, as a flat dict of arrays, integers and strings."""

    def restore(self, state: dict[str, Any]) -> None:
        """Continues from what `state` returned, in a buffer of the same columns, capacity and number
        of environments: the same rows, indices and draws.

        Raises CheckpointError or ShapeError for a state that does not fit; nothing is changed then.
        """

    def __len__(self) -> int:
        ...

    @property
    def capacity(self) -> int:
        """Transitions held at most, a multiple of `n_envs`."""

    @property
    def n_envs(self) -> int:
        """Number of environments."""

    @property
    def n_pushed(self) -> int:
        """Transitions pushed so far, overwritten ones included."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory held, counting all records though memory is taken as it is first written."""

@final
class SequenceReplayBuffer:
    """A ring of transitions, sampled as windows of consecutive ones.

    Storage, `push`, `push_batch`, `gather`, `update` and thread safety are those of
    `ReplayBuffer`; only `sample` differs.

    Args:
        capacity: transitions held over all environments, up to 2**30.
        obs_dim: numbers per observation; or give `obs_shape` or `obs_spaces`.
        act_dim: numbers per action, 1 for a discrete action; or give `action_shape`.
        n_envs: environments pushed side by side.
        seed: draws without a seed of their own come from `Stream(seed, "replay", i)` for the
            i-th batch.
        cross_episodes: windows may go on into the next episode of the same environment, where
            `is_first` is set; by default they never do.
        obs_shape: and the other keywords, as for `ReplayBuffer`.

    Raises:
        ConfigError: a setting is out of range or contradicts another.
        UnknownNameError: a keyword or dtype that does not exist; names the nearest.
    """

    def __new__(cls, capacity: int, obs_dim: int | None=None, act_dim: int | None=None, *, n_envs: int=1, seed: int=0, cross_episodes: bool=False, obs_shape: tuple[int, ...] | None=None, obs_dtype: DTypeLike='float32', obs_spaces: Mapping[str, tuple[DTypeLike, tuple[int, ...]]] | None=None, action_shape: tuple[int, ...] | None=None, action_dtype: DTypeLike='float32', reward_dtype: DTypeLike='float32', frame_stack: tuple[int, str] | Mapping[str, tuple[int, str]] | None=None, extra_columns: Mapping[str, tuple[DTypeLike, tuple[int, ...]]] | None=None) -> SequenceReplayBuffer:
        ...

    @classmethod
    def from_spaces(cls, observation_space: Any, action_space: Any, capacity: int, *, n_envs: int=1, seed: int=0, cross_episodes: bool=False, reward_dtype: DTypeLike='float32', frame_stack: tuple[int, str] | Mapping[str, tuple[int, str]] | None=None, extra_columns: Mapping[str, tuple[DTypeLike, tuple[int, ...]]] | None=None) -> SequenceReplayBuffer:
        """As `ReplayBuffer.from_spaces`."""

    def push(self, obs: ArrayLike | Mapping[str, ArrayLike], action: ArrayLike, reward: ArrayLike, terminated: ArrayLike, truncated: ArrayLike, next_obs: ArrayLike | Mapping[str, ArrayLike] | None=None, extra: dict[str, Any] | None=None) -> None:
        """As `ReplayBuffer.push`."""

    def push_batch(self, obs: ArrayLike | Mapping[str, ArrayLike], actions: ArrayLike, rewards: ArrayLike, terminated: ArrayLike, truncated: ArrayLike, next_obs: ArrayLike | Mapping[str, ArrayLike] | None=None, *, env_ids: ArrayLike | None=None, extra: dict[str, Any] | None=None) -> None:
        """As `ReplayBuffer.push_batch`."""

    def sample(self, batch_size: int, seq_len: int, seed: int | None=None, *, n_batches: int | None=None, out: dict[str, Any] | None=None) -> dict[str, Any]:
        """Draws windows of `seq_len` consecutive transitions of one environment, with replacement.

        Uniform over all places where a whole window fits into its episode, which ends at the
        newest transition if it still runs and begins at the oldest held. An episode shorter than
        `seq_len` has one place, its first transition, and its window is padded with zeros.

        Args:
            batch_size: windows per batch, B.
            seq_len: transitions per window, L.
            seed: as for `ReplayBuffer.sample`.
            n_batches: as for `ReplayBuffer.sample`.
            out: as for `ReplayBuffer.sample`.

        Returns:
            The dict of `ReplayBuffer.sample` with leading axes `[B, L]`, and bool `[B, L]`
            `is_first`, where an episode begins (not merely a window), and `mask`, False where the
            window is padding, whose `indices` are 2**64 - 1.

        Raises:
            ConfigError: the buffer is empty, or a setting is out of range.
            ShapeError: an array of `out` has another shape or dtype.
        """

    def gather(self, indices: ArrayLike, *, out: dict[str, Any] | None=None) -> dict[str, Any]:
        """As `ReplayBuffer.gather`."""

    def update(self, column: str, indices: ArrayLike, values: ArrayLike) -> int:
        """As `ReplayBuffer.update`; padded places of a window are passed over and counted."""

    def cut_episode(self, env: int=0) -> None:
        """As `ReplayBuffer.cut_episode`: no window crosses the cut."""

    def clear(self) -> None:
        """Forgets every transition; indices go on counting."""

    def state(self) -> dict[str, Any]:
        """As `ReplayBuffer.state`."""

    def restore(self, state: dict[str, Any]) -> None:
        """As `ReplayBuffer.restore`."""

    def __len__(self) -> int:
        ...

    @property
    def capacity(self) -> int:
        """Transitions held at most, a multiple of `n_envs`."""

    @property
    def n_envs(self) -> int:
        """Number of environments."""

    @property
    def n_pushed(self) -> int:
        """Transitions pushed so far, overwritten ones included."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory held, counting all records though memory is taken as it is first written."""

@final
class PrioritizedReplayBuffer:
    """A ring of transitions, sampled with probability proportional to priority^alpha.

    Slot i is drawn with P(i) = p_i / sum of p, p_i = priority^alpha (0^0 = 1), and has the weight
    (N P(i))^-beta divided by the largest weight of any transition held (Schaul et al. 2016,
    equation 1 and section 3.4). A batch is stratified: one draw in each of B equal parts of the
    sum (appendix B.2.1). Storage, columns and thread safety are those of `ReplayBuffer`.

    Args:
        capacity: transitions held over all environments, up to 2**30.
        obs_dim: numbers per observation; or give `obs_shape` or `obs_spaces`.
        act_dim: numbers per action, 1 for a discrete action; or give `action_shape`.
        alpha: priority exponent in [0, 1]: 0 is uniform, 1 fully prioritized.
        beta: exponent of the importance weights in [0, 1].
        n_envs: environments pushed side by side.
        seed: as for `ReplayBuffer`.
        stratified: False draws independently instead.
        obs_shape: and the other keywords, as for `ReplayBuffer`.

    Raises:
        ConfigError: a setting is out of range or contradicts another.
        UnknownNameError: a keyword or dtype that does not exist; names the nearest.
    """

    def __new__(cls, capacity: int, obs_dim: int | None=None, act_dim: int | None=None, alpha: float=0.6, beta: float=0.4, *, n_envs: int=1, seed: int=0, stratified: bool=True, obs_shape: tuple[int, ...] | None=None, obs_dtype: DTypeLike='float32', obs_spaces: Mapping[str, tuple[DTypeLike, tuple[int, ...]]] | None=None, action_shape: tuple[int, ...] | None=None, action_dtype: DTypeLike='float32', reward_dtype: DTypeLike='float32', frame_stack: tuple[int, str] | Mapping[str, tuple[int, str]] | None=None, extra_columns: Mapping[str, tuple[DTypeLike, tuple[int, ...]]] | None=None) -> PrioritizedReplayBuffer:
        ...

    @classmethod
    def from_spaces(cls, observation_space: Any, action_space: Any, capacity: int, *, alpha: float=0.6, beta: float=0.4, n_envs: int=1, seed: int=0, stratified: bool=True, reward_dtype: DTypeLike='float32', frame_stack: tuple[int, str] | Mapping[str, tuple[int, str]] | None=None, extra_columns: Mapping[str, tuple[DTypeLike, tuple[int, ...]]] | None=None) -> PrioritizedReplayBuffer:
        """As `ReplayBuffer.from_spaces`."""

    def push(self, obs: ArrayLike | Mapping[str, ArrayLike], action: ArrayLike, reward: ArrayLike, terminated: ArrayLike, truncated: ArrayLike, next_obs: ArrayLike | Mapping[str, ArrayLike] | None=None, priority: ArrayLike | None=None, extra: dict[str, Any] | None=None) -> None:
        """As `ReplayBuffer.push`, with a priority in [0, 1e100]; without one the largest seen so
        far, 1 at first. With `n_envs > 1` priorities are `[n_envs]`.
        """

    def push_batch(self, obs: ArrayLike | Mapping[str, ArrayLike], actions: ArrayLike, rewards: ArrayLike, terminated: ArrayLike, truncated: ArrayLike, next_obs: ArrayLike | Mapping[str, ArrayLike] | None=None, priorities: ArrayLike | None=None, *, env_ids: ArrayLike | None=None, extra: dict[str, Any] | None=None) -> None:
        """As `ReplayBuffer.push_batch`, with priorities, `[n]`, as in `push`."""

    def sample(self, batch_size: int, seed: int | None=None, *, n_batches: int | None=None, n_step: int | None=None, gamma: float | None=None, out: dict[str, Any] | None=None) -> dict[str, Any]:
        """Draws transitions with probability proportional to priority^alpha, with replacement.

        Args:
            batch_size: rows per batch, B.
            seed: and the other arguments, as for `ReplayBuffer.sample`.

        Returns:
            The dict of `ReplayBuffer.sample` with `weights`, float32 `[B]`, in (0, 1].

        Raises:
            ConfigError: the buffer is empty, or a setting is out of range.
            ShapeError: an array of `out` has another shape or dtype.
        """

    def gather(self, indices: ArrayLike, *, out: dict[str, Any] | None=None) -> dict[str, Any]:
        """As `ReplayBuffer.gather`."""

    def update(self, column: str, indices: ArrayLike, values: ArrayLike) -> int:
        """As `ReplayBuffer.update`."""

    def update_priorities(self, indices: ArrayLike, priorities: ArrayLike) -> int:
        """Sets the priorities, `[n]`, of the rows with the given indices, `[n]`: new absolute TD
        errors plus a small constant. Of an index given twice the last priority stays.

        Returns:
            How many rows were overwritten in the meantime and passed over.

        Raises:
            ConfigError: a priority is negative, NaN or above 1e100; nothing is changed then.
            ShapeError: the lengths differ.
        """

    def set_beta(self, beta: float) -> None:
        """Replaces beta, in [0, 1]."""

    @property
    def alpha(self) -> float:
        """Exponent of the priorities."""

    @property
    def beta(self) -> float:
        """Exponent of the importance weights."""

    def cut_episode(self, env: int=0) -> None:
        """As `ReplayBuffer.cut_episode`."""

    def clear(self) -> None:
        """Forgets every transition and its priority; indices go on counting."""

    def state(self) -> dict[str, Any]:
        """As `ReplayBuffer.state`."""

    def restore(self, state: dict[str, Any]) -> None:
        """As `ReplayBuffer.restore`."""

    def __len__(self) -> int:
        ...

    @property
    def capacity(self) -> int:
        """Transitions held at most, a multiple of `n_envs`."""

    @property
    def n_envs(self) -> int:
        """Number of environments."""

    @property
    def n_pushed(self) -> int:
        """Transitions pushed so far, overwritten ones included."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory held, counting all records though memory is taken as it is first written."""

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

@final
class VecEnv:
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

    Raises:
        UnknownNameError: `env_id` is not native; names the nearest.
        ConfigError: `n`, a seed or `shard` is out of range.
        ShapeError: `seeds` has another length than `n`.
    """

    def __new__(cls, n: int, seed: int=0, env_id: str='CartPole-v1', *, seeds: Iterable[int] | None=None, shard: int=1024, parallel_from: int=16384) -> VecEnv:
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
        """Replaces the state of every environment, streams and step counts staying as they are.

        Args:
            state: finite numbers `[n, state_dim]`.
            elapsed: steps already taken in each running episode, integers `[n]`, each below
                `max_episode_steps`; None keeps the present counts.

        Raises:
            ShapeError, NonFiniteError, ConfigError: what was given does not fit; nothing changes.
        """

    def snapshot(self) -> dict[str, NDArray[Any] | int | str]:
        """Everything needed to continue exactly here, as a dict of arrays, integers and strings:
        `format`, `env_id`, `n_envs`, `state`, `elapsed`, and each stream's `seeds`, `indices`
        and `positions`.
        """

    def restore(self, snapshot: dict[str, NDArray[Any] | int | str]) -> None:
        """Continues from a `snapshot()` of the same environment and size, made under any seed.

        Raises:
            CheckpointError: a field is missing, or of another environment, size or format.
            ShapeError, NonFiniteError, ConfigError: an array does not fit; nothing changes.
        """

    @property
    def n_envs(self) -> int:
        """Number of environments."""

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
