from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from typing import Any, TypedDict, final, overload, type_check_only

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

__all__ = [
    "HindsightConfig",
    "MmapReplayBuffer",
    "OfflineDatasetBuffer",
    "PrioritizedReplayBuffer",
    "ReplayBuffer",
    "SequenceReplayBuffer",
    "Stream",
    "VecEnv",
    "compute_gae",
    "compute_gae_batched",
    "compute_gae_batched_f32",
    "compute_gae_time_major",
    "native_env_ids",
    "prune_replay",
    "stream_seed",
]

@final
class HindsightConfig:
    def __new__(
        cls,
        compute_reward: Callable[..., ArrayLike],
        strategy: str = "future",
        k: int = 4,
        *,
        ratio: float | None = None,
    ) -> HindsightConfig: ...
    @property
    def strategy(self) -> str: ...
    @property
    def ratio(self) -> float: ...

@final
class ReplayBuffer:
    def __new__(
        cls,
        capacity: int,
        obs_dim: int | None = None,
        act_dim: int | None = None,
        *,
        n_envs: int = 1,
        seed: int = 0,
        obs_shape: tuple[int, ...] | None = None,
        obs_dtype: DTypeLike = "float32",
        obs_spaces: Mapping[str, tuple[DTypeLike, tuple[int, ...]]] | None = None,
        action_shape: tuple[int, ...] | None = None,
        action_dtype: DTypeLike = "float32",
        reward_dtype: DTypeLike = "float32",
        frame_stack: tuple[int, str] | Mapping[str, tuple[int, str]] | None = None,
        extra_columns: Mapping[str, tuple[DTypeLike, tuple[int, ...]]] | None = None,
    ) -> ReplayBuffer: ...
    @classmethod
    def from_spaces(
        cls,
        observation_space: Any,
        action_space: Any,
        capacity: int,
        *,
        n_envs: int = 1,
        seed: int = 0,
        reward_dtype: DTypeLike = "float32",
        frame_stack: tuple[int, str] | Mapping[str, tuple[int, str]] | None = None,
        extra_columns: Mapping[str, tuple[DTypeLike, tuple[int, ...]]] | None = None,
    ) -> ReplayBuffer: ...
    def push(
        self,
        obs: ArrayLike | Mapping[str, ArrayLike],
        action: ArrayLike,
        reward: ArrayLike,
        terminated: ArrayLike,
        truncated: ArrayLike,
        next_obs: ArrayLike | Mapping[str, ArrayLike] | None = None,
        extra: dict[str, Any] | None = None,
    ) -> None: ...
    def push_batch(
        self,
        obs: ArrayLike | Mapping[str, ArrayLike],
        actions: ArrayLike,
        rewards: ArrayLike,
        terminated: ArrayLike,
        truncated: ArrayLike,
        next_obs: ArrayLike | Mapping[str, ArrayLike] | None = None,
        *,
        env_ids: ArrayLike | None = None,
        extra: dict[str, Any] | None = None,
    ) -> None: ...
    def sample(
        self,
        batch_size: int,
        seed: int | None = None,
        *,
        n_batches: int | None = None,
        n_step: int | None = None,
        gamma: float | None = None,
        her: HindsightConfig | None = None,
        out: dict[str, Any] | None = None,
    ) -> dict[str, Any]: ...
    def gather(
        self, indices: ArrayLike, *, out: dict[str, Any] | None = None
    ) -> dict[str, Any]: ...
    def update(self, column: str, indices: ArrayLike, values: ArrayLike) -> int: ...
    def cut_episode(self, env: int = 0) -> None: ...
    def clear(self) -> None: ...
    def state(self) -> dict[str, Any]: ...
    def restore(self, state: dict[str, Any]) -> None: ...
    def save(self, path: str | PathLike[str], name: str = "last") -> int: ...
    def load(self, path: str | PathLike[str], name: str = "last") -> None: ...
    def __len__(self) -> int: ...
    @property
    def capacity(self) -> int: ...
    @property
    def n_envs(self) -> int: ...
    @property
    def n_pushed(self) -> int: ...
    @property
    def nbytes(self) -> int: ...

@final
class SequenceReplayBuffer:
    def __new__(
        cls,
        capacity: int,
        obs_dim: int | None = None,
        act_dim: int | None = None,
        *,
        n_envs: int = 1,
        seed: int = 0,
        cross_episodes: bool = False,
        obs_shape: tuple[int, ...] | None = None,
        obs_dtype: DTypeLike = "float32",
        obs_spaces: Mapping[str, tuple[DTypeLike, tuple[int, ...]]] | None = None,
        action_shape: tuple[int, ...] | None = None,
        action_dtype: DTypeLike = "float32",
        reward_dtype: DTypeLike = "float32",
        frame_stack: tuple[int, str] | Mapping[str, tuple[int, str]] | None = None,
        extra_columns: Mapping[str, tuple[DTypeLike, tuple[int, ...]]] | None = None,
    ) -> SequenceReplayBuffer: ...
    @classmethod
    def from_spaces(
        cls,
        observation_space: Any,
        action_space: Any,
        capacity: int,
        *,
        n_envs: int = 1,
        seed: int = 0,
        cross_episodes: bool = False,
        reward_dtype: DTypeLike = "float32",
        frame_stack: tuple[int, str] | Mapping[str, tuple[int, str]] | None = None,
        extra_columns: Mapping[str, tuple[DTypeLike, tuple[int, ...]]] | None = None,
    ) -> SequenceReplayBuffer: ...
    def push(
        self,
        obs: ArrayLike | Mapping[str, ArrayLike],
        action: ArrayLike,
        reward: ArrayLike,
        terminated: ArrayLike,
        truncated: ArrayLike,
        next_obs: ArrayLike | Mapping[str, ArrayLike] | None = None,
        extra: dict[str, Any] | None = None,
    ) -> None: ...
    def push_batch(
        self,
        obs: ArrayLike | Mapping[str, ArrayLike],
        actions: ArrayLike,
        rewards: ArrayLike,
        terminated: ArrayLike,
        truncated: ArrayLike,
        next_obs: ArrayLike | Mapping[str, ArrayLike] | None = None,
        *,
        env_ids: ArrayLike | None = None,
        extra: dict[str, Any] | None = None,
    ) -> None: ...
    def sample(
        self,
        batch_size: int,
        seq_len: int,
        seed: int | None = None,
        *,
        n_batches: int | None = None,
        out: dict[str, Any] | None = None,
    ) -> dict[str, Any]: ...
    def gather(
        self, indices: ArrayLike, *, out: dict[str, Any] | None = None
    ) -> dict[str, Any]: ...
    def update(self, column: str, indices: ArrayLike, values: ArrayLike) -> int: ...
    def cut_episode(self, env: int = 0) -> None: ...
    def clear(self) -> None: ...
    def state(self) -> dict[str, Any]: ...
    def restore(self, state: dict[str, Any]) -> None: ...
    def __len__(self) -> int: ...
    @property
    def capacity(self) -> int: ...
    @property
    def n_envs(self) -> int: ...
    @property
    def n_pushed(self) -> int: ...
    @property
    def nbytes(self) -> int: ...

@final
class MmapReplayBuffer:
    def __new__(
        cls,
        hot_capacity: int,
        total_capacity: int,
        obs_dim: int | None = None,
        act_dim: int | None = None,
        cold_path: str | PathLike[str] | None = None,
        *,
        n_envs: int = 1,
        seed: int = 0,
        reopen: bool = True,
        obs_shape: tuple[int, ...] | None = None,
        obs_dtype: DTypeLike = "float32",
        obs_spaces: Mapping[str, tuple[DTypeLike, tuple[int, ...]]] | None = None,
        action_shape: tuple[int, ...] | None = None,
        action_dtype: DTypeLike = "float32",
        reward_dtype: DTypeLike = "float32",
        frame_stack: tuple[int, str] | Mapping[str, tuple[int, str]] | None = None,
        extra_columns: Mapping[str, tuple[DTypeLike, tuple[int, ...]]] | None = None,
    ) -> MmapReplayBuffer: ...
    def push(
        self,
        obs: ArrayLike | Mapping[str, ArrayLike],
        action: ArrayLike,
        reward: ArrayLike,
        terminated: ArrayLike,
        truncated: ArrayLike,
        next_obs: ArrayLike | Mapping[str, ArrayLike] | None = None,
        extra: dict[str, Any] | None = None,
    ) -> None: ...
    def push_batch(
        self,
        obs: ArrayLike | Mapping[str, ArrayLike],
        actions: ArrayLike,
        rewards: ArrayLike,
        terminated: ArrayLike,
        truncated: ArrayLike,
        next_obs: ArrayLike | Mapping[str, ArrayLike] | None = None,
        *,
        env_ids: ArrayLike | None = None,
        extra: dict[str, Any] | None = None,
    ) -> None: ...
    def sample(
        self,
        batch_size: int,
        seed: int | None = None,
        *,
        n_batches: int | None = None,
        out: dict[str, Any] | None = None,
    ) -> dict[str, Any]: ...
    def flush(self) -> None: ...
    def close(self, keep: bool = False) -> None: ...
    def save(self, name: str = "last") -> None: ...
    def load(self, name: str = "last") -> None: ...
    def verify(self) -> None: ...
    def __len__(self) -> int: ...
    @property
    def capacity(self) -> int: ...
    @property
    def n_envs(self) -> int: ...
    @property
    def n_hot(self) -> int: ...
    @property
    def n_unsealed(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def disk_bytes(self) -> int: ...

@final
class OfflineDatasetBuffer:
    def __new__(
        cls,
        obs: ArrayLike,
        next_obs: ArrayLike,
        actions: ArrayLike,
        rewards: ArrayLike,
        terminated: ArrayLike,
        truncated: ArrayLike,
        normalize: bool = False,
        *,
        seed: int = 0,
    ) -> OfflineDatasetBuffer: ...
    def sample(
        self,
        batch_size: int,
        seed: int | None = None,
        *,
        n_batches: int | None = None,
        out: dict[str, Any] | None = None,
    ) -> dict[str, Any]: ...
    def sample_trajectories(
        self, batch_size: int, seq_len: int, seed: int | None = None
    ) -> dict[str, NDArray[Any]]: ...
    def stats(self) -> dict[str, Any]: ...
    def n_episodes(self) -> int: ...
    def normalize(self, obs: ArrayLike) -> NDArray[Any]: ...
    def denormalize(self, obs: ArrayLike) -> NDArray[Any]: ...
    @property
    def normalized(self) -> bool: ...
    def __len__(self) -> int: ...

@final
class PrioritizedReplayBuffer:
    def __new__(
        cls,
        capacity: int,
        obs_dim: int | None = None,
        act_dim: int | None = None,
        alpha: float = 0.6,
        beta: float = 0.4,
        *,
        n_envs: int = 1,
        seed: int = 0,
        stratified: bool = True,
        obs_shape: tuple[int, ...] | None = None,
        obs_dtype: DTypeLike = "float32",
        obs_spaces: Mapping[str, tuple[DTypeLike, tuple[int, ...]]] | None = None,
        action_shape: tuple[int, ...] | None = None,
        action_dtype: DTypeLike = "float32",
        reward_dtype: DTypeLike = "float32",
        frame_stack: tuple[int, str] | Mapping[str, tuple[int, str]] | None = None,
        extra_columns: Mapping[str, tuple[DTypeLike, tuple[int, ...]]] | None = None,
    ) -> PrioritizedReplayBuffer: ...
    @classmethod
    def from_spaces(
        cls,
        observation_space: Any,
        action_space: Any,
        capacity: int,
        *,
        alpha: float = 0.6,
        beta: float = 0.4,
        n_envs: int = 1,
        seed: int = 0,
        stratified: bool = True,
        reward_dtype: DTypeLike = "float32",
        frame_stack: tuple[int, str] | Mapping[str, tuple[int, str]] | None = None,
        extra_columns: Mapping[str, tuple[DTypeLike, tuple[int, ...]]] | None = None,
    ) -> PrioritizedReplayBuffer: ...
    def push(
        self,
        obs: ArrayLike | Mapping[str, ArrayLike],
        action: ArrayLike,
        reward: ArrayLike,
        terminated: ArrayLike,
        truncated: ArrayLike,
        next_obs: ArrayLike | Mapping[str, ArrayLike] | None = None,
        priority: ArrayLike | None = None,
        extra: dict[str, Any] | None = None,
    ) -> None: ...
    def push_batch(
        self,
        obs: ArrayLike | Mapping[str, ArrayLike],
        actions: ArrayLike,
        rewards: ArrayLike,
        terminated: ArrayLike,
        truncated: ArrayLike,
        next_obs: ArrayLike | Mapping[str, ArrayLike] | None = None,
        priorities: ArrayLike | None = None,
        *,
        env_ids: ArrayLike | None = None,
        extra: dict[str, Any] | None = None,
    ) -> None: ...
    def sample(
        self,
        batch_size: int,
        seed: int | None = None,
        *,
        n_batches: int | None = None,
        n_step: int | None = None,
        gamma: float | None = None,
        out: dict[str, Any] | None = None,
    ) -> dict[str, Any]: ...
    def gather(
        self, indices: ArrayLike, *, out: dict[str, Any] | None = None
    ) -> dict[str, Any]: ...
    def update(self, column: str, indices: ArrayLike, values: ArrayLike) -> int: ...
    def update_priorities(self, indices: ArrayLike, priorities: ArrayLike) -> int: ...
    def set_beta(self, beta: float) -> None: ...
    @property
    def alpha(self) -> float: ...
    @property
    def beta(self) -> float: ...
    def cut_episode(self, env: int = 0) -> None: ...
    def clear(self) -> None: ...
    def state(self) -> dict[str, Any]: ...
    def restore(self, state: dict[str, Any]) -> None: ...
    def save(self, path: str | PathLike[str], name: str = "last") -> int: ...
    def load(self, path: str | PathLike[str], name: str = "last") -> None: ...
    @property
    def max_priority(self) -> float: ...
    def __len__(self) -> int: ...
    @property
    def capacity(self) -> int: ...
    @property
    def n_envs(self) -> int: ...
    @property
    def n_pushed(self) -> int: ...
    @property
    def nbytes(self) -> int: ...

@final
class Stream:
    def __new__(cls, seed: int, name: str, index: int = 0) -> Stream: ...
    def uniform(self, n: int) -> NDArray[np.float64]: ...
    def normal(self, n: int) -> NDArray[np.float64]: ...
    def next_u64(self) -> int: ...
    @property
    def position(self) -> int: ...
    @position.setter
    def position(self, value: int) -> None: ...

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
    def __new__(
        cls,
        n: int,
        seed: int = 0,
        env_id: str = "CartPole-v1",
        *,
        seeds: Iterable[int] | None = None,
        shard: int = 1024,
        parallel_from: int = 16384,
    ) -> VecEnv: ...
    def reset_all(self) -> NDArray[np.float32]: ...
    def observe_into(self, obs: NDArray[np.float32]) -> None: ...
    def step_all(self, actions: ArrayLike) -> _Step: ...
    def step_into(
        self,
        actions: ArrayLike,
        obs: NDArray[np.float32],
        rewards: NDArray[np.float64],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]] | None: ...
    def get_state(self) -> NDArray[np.float64]: ...
    def set_state(self, state: ArrayLike, elapsed: ArrayLike | None = None) -> None: ...
    def snapshot(self) -> dict[str, NDArray[Any] | int | str]: ...
    def restore(self, snapshot: dict[str, NDArray[Any] | int | str]) -> None: ...
    @property
    def n_envs(self) -> int: ...
    @property
    def env_id(self) -> str: ...
    @property
    def obs_dim(self) -> int: ...
    @property
    def state_dim(self) -> int: ...
    @property
    def max_episode_steps(self) -> int: ...
    @property
    def n_actions(self) -> int | None: ...
    @property
    def action_dim(self) -> int: ...
    @property
    def action_low(self) -> NDArray[np.float32] | None: ...
    @property
    def action_high(self) -> NDArray[np.float32] | None: ...
    @property
    def observation_low(self) -> NDArray[np.float32]: ...
    @property
    def observation_high(self) -> NDArray[np.float32]: ...

@overload
def compute_gae(
    rewards: NDArray[np.float32],
    values: NDArray[np.float32],
    dones: ArrayLike | None = None,
    last_value: float = 0.0,
    gamma: float = 0.99,
    lam: float = 0.95,
    *,
    terminated: ArrayLike | None = None,
    truncated: ArrayLike | None = None,
    next_values: ArrayLike | None = None,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]: ...
@overload
def compute_gae(
    rewards: NDArray[np.float64],
    values: ArrayLike,
    dones: ArrayLike | None = None,
    last_value: float = 0.0,
    gamma: float = 0.99,
    lam: float = 0.95,
    *,
    terminated: ArrayLike | None = None,
    truncated: ArrayLike | None = None,
    next_values: ArrayLike | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
@overload
def compute_gae(
    rewards: ArrayLike,
    values: ArrayLike,
    dones: ArrayLike | None = None,
    last_value: float = 0.0,
    gamma: float = 0.99,
    lam: float = 0.95,
    *,
    terminated: ArrayLike | None = None,
    truncated: ArrayLike | None = None,
    next_values: ArrayLike | None = None,
) -> tuple[NDArray[np.floating[Any]], NDArray[np.floating[Any]]]: ...
@overload
def compute_gae_batched(
    rewards: NDArray[np.float32],
    values: NDArray[np.float32],
    dones: ArrayLike | None = None,
    last_values: ArrayLike | None = None,
    n_steps: int | None = None,
    gamma: float = 0.99,
    lam: float = 0.95,
    *,
    terminated: ArrayLike | None = None,
    truncated: ArrayLike | None = None,
    next_values: ArrayLike | None = None,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]: ...
@overload
def compute_gae_batched(
    rewards: NDArray[np.float64],
    values: ArrayLike,
    dones: ArrayLike | None = None,
    last_values: ArrayLike | None = None,
    n_steps: int | None = None,
    gamma: float = 0.99,
    lam: float = 0.95,
    *,
    terminated: ArrayLike | None = None,
    truncated: ArrayLike | None = None,
    next_values: ArrayLike | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
@overload
def compute_gae_batched(
    rewards: ArrayLike,
    values: ArrayLike,
    dones: ArrayLike | None = None,
    last_values: ArrayLike | None = None,
    n_steps: int | None = None,
    gamma: float = 0.99,
    lam: float = 0.95,
    *,
    terminated: ArrayLike | None = None,
    truncated: ArrayLike | None = None,
    next_values: ArrayLike | None = None,
) -> tuple[NDArray[np.floating[Any]], NDArray[np.floating[Any]]]: ...
def compute_gae_batched_f32(
    rewards: ArrayLike,
    values: ArrayLike,
    dones: ArrayLike | None = None,
    last_values: ArrayLike | None = None,
    n_steps: int | None = None,
    gamma: float = 0.99,
    lam: float = 0.95,
    *,
    terminated: ArrayLike | None = None,
    truncated: ArrayLike | None = None,
    next_values: ArrayLike | None = None,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]: ...
@overload
def compute_gae_time_major(
    rewards: NDArray[np.float32],
    values: NDArray[np.float32],
    next_values: ArrayLike,
    terminated: ArrayLike,
    truncated: ArrayLike,
    gamma: float = 0.99,
    lam: float = 0.95,
    *,
    advantages: NDArray[np.float32] | None = None,
    returns: NDArray[np.float32] | None = None,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]: ...
@overload
def compute_gae_time_major(
    rewards: NDArray[np.float64],
    values: ArrayLike,
    next_values: ArrayLike,
    terminated: ArrayLike,
    truncated: ArrayLike,
    gamma: float = 0.99,
    lam: float = 0.95,
    *,
    advantages: NDArray[np.float64] | None = None,
    returns: NDArray[np.float64] | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
@overload
def compute_gae_time_major(
    rewards: ArrayLike,
    values: ArrayLike,
    next_values: ArrayLike,
    terminated: ArrayLike,
    truncated: ArrayLike,
    gamma: float = 0.99,
    lam: float = 0.95,
    *,
    advantages: NDArray[np.floating[Any]] | None = None,
    returns: NDArray[np.floating[Any]] | None = None,
) -> tuple[NDArray[np.floating[Any]], NDArray[np.floating[Any]]]: ...
def native_env_ids() -> list[str]: ...
def prune_replay(path: str | PathLike[str], keep: list[str]) -> int: ...
def stream_seed(seed: int, name: str, index: int = 0) -> int: ...
