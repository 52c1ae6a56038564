from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, TypedDict, TypeVar, final, overload, type_check_only

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from typing_extensions import disjoint_base

__all__ = [
    "Acrobot",
    "CartPole",
    "DPOPair",
    "Explorer",
    "HindsightConfig",
    "Iteration",
    "MmapReplayBuffer",
    "MountainCar",
    "MountainCarContinuous",
    "NativeEnv",
    "OffPolicyEngine",
    "OfflineDatasetBuffer",
    "OnPolicyEngine",
    "Pendulum",
    "PrioritizedReplayBuffer",
    "ReplayBuffer",
    "ReplayIteration",
    "RolloutPolicy",
    "RunningStats",
    "RunningStatsVec",
    "SequenceReplayBuffer",
    "SingleEnv",
    "Stream",
    "VecEnv",
    "compute_batch_group_advantages",
    "compute_batch_token_kl",
    "compute_batch_token_kl_schulman",
    "compute_gae",
    "compute_gae_batched",
    "compute_gae_batched_f32",
    "compute_gae_time_major",
    "compute_group_advantages",
    "compute_lambda_returns",
    "compute_n_step_returns",
    "compute_token_kl",
    "compute_token_kl_schulman",
    "compute_vtrace",
    "explained_variance",
    "native_env_ids",
    "num_threads",
    "pack_sequences",
    "pack_tokens",
    "prune_replay",
    "set_num_threads",
    "stream_seed",
    "unpack_sequences",
]

_Float = TypeVar("_Float", np.float32, np.float64)

@final
class RunningStats:
    def __new__(cls) -> RunningStats: ...
    def update(self, x: float) -> None: ...
    def batch_update(self, xs: ArrayLike) -> None: ...
    def merge(self, other: RunningStats) -> None: ...
    def normalize(self, x: float, clip: float | None = ..., eps: float = ...) -> float: ...
    @overload
    def normalize_batch(
        self, xs: NDArray[np.float32], clip: float | None = ..., eps: float = ...
    ) -> NDArray[np.float32]: ...
    @overload
    def normalize_batch(
        self, xs: ArrayLike, clip: float | None = ..., eps: float = ...
    ) -> NDArray[np.floating[Any]]: ...
    def reset(self) -> None: ...
    def state(self) -> dict[str, int | float]: ...
    def restore(self, state: dict[str, int | float]) -> None: ...
    @property
    def count(self) -> int: ...
    @property
    def mean(self) -> float: ...
    @property
    def var(self) -> float: ...
    @property
    def std(self) -> float: ...

@final
class OnPolicyEngine:
    def __new__(
        cls,
        parameters: Sequence[tuple[str, Sequence[int]]],
        *,
        kind: str,
        size: int,
        obs_dim: int,
        actor: Sequence[int],
        critic: Sequence[int],
        activation: str = ...,
        precision: str = ...,
    ) -> OnPolicyEngine: ...
    def ppo(
        self,
        parameters: NDArray[np.floating[Any]],
        exp_avg: NDArray[np.floating[Any]],
        exp_avg_sq: NDArray[np.floating[Any]],
        steps: NDArray[np.int64],
        obs: ArrayLike,
        actions: ArrayLike,
        log_probs: ArrayLike,
        values: ArrayLike,
        advantages: ArrayLike,
        returns: ArrayLike,
        order: ArrayLike,
        *,
        batch_size: int,
        learning_rate: float,
        clip_eps: float,
        vf_coef: float,
        ent_coef: float,
        max_grad_norm: float | None = ...,
        clip_vloss: bool = ...,
        normalize_advantages: bool = ...,
        target_kl: float | None = ...,
        adam_eps: float = ...,
        mask: ArrayLike | None = ...,
    ) -> dict[str, float]: ...
    def a2c(
        self,
        parameters: NDArray[np.floating[Any]],
        first: NDArray[np.floating[Any]],
        second: NDArray[np.floating[Any]] | None,
        steps: NDArray[np.int64],
        obs: ArrayLike,
        actions: ArrayLike,
        advantages: ArrayLike,
        returns: ArrayLike,
        *,
        learning_rate: float,
        vf_coef: float,
        ent_coef: float,
        max_grad_norm: float | None = ...,
        normalize_advantages: bool = ...,
        alpha: float = ...,
        eps: float = ...,
        tf_like: bool = ...,
        mask: ArrayLike | None = ...,
    ) -> dict[str, float]: ...
    @property
    def gradient(self) -> NDArray[np.floating[Any]]: ...
    def __len__(self) -> int: ...

@final
@final
@final
@final
@final
@final
class OffPolicyEngine:
    def __new__(
        cls,
        algorithm: str,
        parameters: Mapping[str, Sequence[tuple[str, Sequence[int]]]],
        *,
        precision: str = ...,
        **architecture: int | bool | str | Sequence[int],
    ) -> OffPolicyEngine: ...
    @property
    def vector_lengths(self) -> dict[str, int]: ...
    def learn(
        self,
        learned: Mapping[
            str,
            tuple[
                NDArray[np.floating[Any]],
                NDArray[np.floating[Any]],
                NDArray[np.floating[Any]],
                NDArray[np.int64],
            ],
        ],
        targets: Mapping[str, NDArray[np.floating[Any]]],
        obs: ArrayLike,
        actions: ArrayLike,
        rewards: ArrayLike,
        next_obs: ArrayLike,
        discounts: ArrayLike,
        errors: NDArray[np.floating[Any]],
        noise: ArrayLike | None = ...,
        weights: ArrayLike | None = ...,
        *,
        first: int = ...,
        adam_eps: float = ...,
        **settings: float | bool | str | None,
    ) -> dict[str, float]: ...

@final
class Explorer:
    def __new__(cls, engine: OffPolicyEngine, deviation: float = ...) -> Explorer: ...
    def act(
        self,
        parameters: ArrayLike,
        obs: ArrayLike,
        actions: NDArray[Any],
        noise: ArrayLike | None = ...,
    ) -> None: ...
    def collect(
        self,
        parameters: ArrayLike,
        envs: VecEnv,
        obs: NDArray[np.float32],
        next_obs: NDArray[np.float32],
        actions: NDArray[Any],
        rewards: NDArray[np.float64],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        totals: NDArray[np.float64],
        lengths: NDArray[np.int64],
        noise: ArrayLike | None = ...,
        bounds: tuple[ArrayLike, ArrayLike] | None = ...,
        *,
        given: int = ...,
    ) -> (
        tuple[
            NDArray[np.int64],
            NDArray[np.int64],
            NDArray[np.float32],
            NDArray[np.float64],
            NDArray[np.int64],
        ]
        | None
    ): ...

@final
class ReplayIteration:
    def __new__(
        cls,
        explorer: Explorer,
        envs: VecEnv,
        buffer: ReplayBuffer | PrioritizedReplayBuffer,
        batch: dict[str, Any],
        parameters: ArrayLike,
        obs: NDArray[np.float32],
        next_obs: NDArray[np.float32],
        actions: NDArray[Any],
        rewards: NDArray[np.float64],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        totals: NDArray[np.float64],
        lengths: NDArray[np.int64],
        noise: ArrayLike | None = ...,
        bounds: tuple[ArrayLike, ArrayLike] | None = ...,
        *,
        given: int,
        n_step: int,
        gamma: float,
        trainings: int = ...,
    ) -> ReplayIteration: ...
    def learn(
        self,
        learned: Mapping[
            str,
            tuple[
                NDArray[np.floating[Any]],
                NDArray[np.floating[Any]],
                NDArray[np.floating[Any]],
                NDArray[np.int64],
            ],
        ],
        targets: Mapping[str, NDArray[np.floating[Any]]],
        obs: ArrayLike,
        actions: ArrayLike,
        rewards: ArrayLike,
        next_obs: ArrayLike,
        discounts: ArrayLike,
        errors: NDArray[np.floating[Any]],
        noise: ArrayLike | None = ...,
        weights: ArrayLike | None = ...,
        *,
        first: int = ...,
        adam_eps: float = ...,
        **settings: float | bool | str | None,
    ) -> list[dict[str, float]]: ...
    @property
    def trainings(self) -> int: ...
    @property
    def stored(self) -> int: ...
    @property
    def error(self) -> BaseException | None: ...
    @property
    def learned(self) -> int: ...
    @property
    def seconds(self) -> float: ...
    def episodes(
        self,
    ) -> (
        tuple[
            NDArray[np.int64],
            NDArray[np.int64],
            NDArray[np.float32],
            NDArray[np.float64],
            NDArray[np.int64],
        ]
        | None
    ): ...

@final
class RolloutPolicy:
    def __new__(cls, engine: OnPolicyEngine, noise_kept: int | None = ...) -> RolloutPolicy: ...
    def act(
        self,
        parameters: ArrayLike,
        obs: ArrayLike,
        actions: NDArray[Any],
        log_probs: NDArray[np.float32],
        values: NDArray[np.float32],
        *,
        seed: int,
        rollout: int,
        step: int,
        mask: ArrayLike | None = ...,
    ) -> None: ...
    def values(self, parameters: ArrayLike, obs: ArrayLike) -> NDArray[np.float32]: ...
    def outputs(self, parameters: ArrayLike, obs: ArrayLike) -> NDArray[np.float32]: ...
    def collect(
        self,
        parameters: ArrayLike,
        envs: VecEnv,
        obs: NDArray[np.float32],
        actions: NDArray[Any],
        rewards: NDArray[np.float32],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        log_probs: NDArray[np.float32],
        values: NDArray[np.float32],
        next_values: NDArray[np.float32],
        totals: NDArray[np.float64],
        lengths: NDArray[np.int64],
        *,
        seed: int,
        rollout: int,
    ) -> (
        tuple[
            NDArray[np.int64],
            NDArray[np.int64],
            NDArray[np.float32],
            NDArray[np.float64],
            NDArray[np.int64],
        ]
        | None
    ): ...

@final
class Iteration:
    def __new__(
        cls,
        policy: RolloutPolicy,
        envs: VecEnv,
        obs: NDArray[np.float32],
        actions: NDArray[Any],
        rewards: NDArray[np.float32],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        log_probs: NDArray[np.float32],
        values: NDArray[np.float32],
        next_values: NDArray[np.float32],
        advantages: NDArray[np.float32],
        returns: NDArray[np.float32],
        totals: NDArray[np.float64],
        lengths: NDArray[np.int64],
        *,
        seed: int,
        rollout: int,
        gamma: float,
        lam: float,
    ) -> Iteration: ...
    def ppo(
        self,
        parameters: NDArray[np.float32],
        exp_avg: NDArray[np.float32],
        exp_avg_sq: NDArray[np.float32],
        steps: NDArray[np.int64],
        order: ArrayLike,
        *,
        batch_size: int,
        learning_rate: float,
        clip_eps: float,
        vf_coef: float,
        ent_coef: float,
        max_grad_norm: float | None = ...,
        clip_vloss: bool = ...,
        normalize_advantages: bool = ...,
        target_kl: float | None = ...,
        adam_eps: float = ...,
    ) -> dict[str, float]: ...
    def a2c(
        self,
        parameters: NDArray[np.float32],
        first: NDArray[np.float32],
        second: NDArray[np.float32] | None,
        steps: NDArray[np.int64],
        *,
        learning_rate: float,
        vf_coef: float,
        ent_coef: float,
        max_grad_norm: float | None = ...,
        normalize_advantages: bool = ...,
        alpha: float = ...,
        eps: float = ...,
        tf_like: bool = ...,
    ) -> dict[str, float]: ...
    @property
    def collected(self) -> bool: ...
    def episodes(
        self,
    ) -> (
        tuple[
            NDArray[np.int64],
            NDArray[np.int64],
            NDArray[np.float32],
            NDArray[np.float64],
            NDArray[np.int64],
        ]
        | None
    ): ...

@final
class RunningStatsVec:
    def __new__(cls, dim: int) -> RunningStatsVec: ...
    def update(self, x: ArrayLike) -> None: ...
    def batch_update(self, xs: ArrayLike) -> None: ...
    def merge(self, other: RunningStatsVec) -> None: ...
    @overload
    def normalize(
        self, x: NDArray[np.float32], clip: float | None = ..., eps: float = ...
    ) -> NDArray[np.float32]: ...
    @overload
    def normalize(
        self, x: ArrayLike, clip: float | None = ..., eps: float = ...
    ) -> NDArray[np.floating[Any]]: ...
    @overload
    def normalize_batch(
        self, xs: NDArray[np.float32], clip: float | None = ..., eps: float = ...
    ) -> NDArray[np.float32]: ...
    @overload
    def normalize_batch(
        self, xs: ArrayLike, clip: float | None = ..., eps: float = ...
    ) -> NDArray[np.floating[Any]]: ...
    def reset(self) -> None: ...
    def state(self) -> dict[str, int | NDArray[np.float64]]: ...
    def restore(self, state: dict[str, int | NDArray[np.float64]]) -> None: ...
    @property
    def dim(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def mean(self) -> NDArray[np.float64]: ...
    @property
    def var(self) -> NDArray[np.float64]: ...
    @property
    def std(self) -> NDArray[np.float64]: ...

@final
class HindsightConfig:
    def __new__(
        cls,
        compute_reward: Callable[..., ArrayLike],
        strategy: str = ...,
        k: int = ...,
        *,
        ratio: float | None = ...,
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
        obs_dim: int | None = ...,
        act_dim: int | None = ...,
        *,
        n_envs: int = ...,
        seed: int = ...,
        sampler: Literal["uniform", "episode_balanced"] = ...,
        obs_shape: tuple[int, ...] | None = ...,
        obs_dtype: DTypeLike = ...,
        obs_spaces: Mapping[str, tuple[DTypeLike, tuple[int, ...]]] | None = ...,
        action_shape: tuple[int, ...] | None = ...,
        action_dtype: DTypeLike = ...,
        reward_dtype: DTypeLike = ...,
        frame_stack: tuple[int, str] | Mapping[str, tuple[int, str]] | None = ...,
        extra_columns: Mapping[str, tuple[DTypeLike, tuple[int, ...]]] | None = ...,
    ) -> ReplayBuffer: ...
    @classmethod
    def from_spaces(
        cls,
        observation_space: Any,
        action_space: Any,
        capacity: int,
        *,
        n_envs: int = ...,
        seed: int = ...,
        sampler: Literal["uniform", "episode_balanced"] = ...,
        reward_dtype: DTypeLike = ...,
        frame_stack: tuple[int, str] | Mapping[str, tuple[int, str]] | None = ...,
        extra_columns: Mapping[str, tuple[DTypeLike, tuple[int, ...]]] | None = ...,
    ) -> ReplayBuffer: ...
    def push(
        self,
        obs: ArrayLike | Mapping[str, ArrayLike],
        action: ArrayLike,
        reward: ArrayLike,
        terminated: ArrayLike,
        truncated: ArrayLike,
        next_obs: ArrayLike | Mapping[str, ArrayLike] | None = ...,
        extra: dict[str, Any] | None = ...,
    ) -> None: ...
    def push_batch(
        self,
        obs: ArrayLike | Mapping[str, ArrayLike],
        actions: ArrayLike,
        rewards: ArrayLike,
        terminated: ArrayLike,
        truncated: ArrayLike,
        next_obs: ArrayLike | Mapping[str, ArrayLike] | None = ...,
        *,
        env_ids: ArrayLike | None = ...,
        extra: dict[str, Any] | None = ...,
    ) -> None: ...
    def sample(
        self,
        batch_size: int,
        seed: int | None = ...,
        *,
        n_batches: int | None = ...,
        n_step: int | None = ...,
        gamma: float | None = ...,
        her: HindsightConfig | None = ...,
        out: dict[str, Any] | None = ...,
    ) -> dict[str, Any]: ...
    def gather(self, indices: ArrayLike, *, out: dict[str, Any] | None = ...) -> dict[str, Any]: ...
    def update(self, column: str, indices: ArrayLike, values: ArrayLike) -> int: ...
    def cut_episode(self, env: int = ...) -> None: ...
    def clear(self) -> None: ...
    def state(self) -> dict[str, Any]: ...
    def restore(self, state: dict[str, Any]) -> None: ...
    def save(self, path: str | PathLike[str], name: str = ...) -> int: ...
    def load(self, path: str | PathLike[str], name: str = ...) -> None: ...
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
        obs_dim: int | None = ...,
        act_dim: int | None = ...,
        *,
        n_envs: int = ...,
        seed: int = ...,
        cross_episodes: bool = ...,
        obs_shape: tuple[int, ...] | None = ...,
        obs_dtype: DTypeLike = ...,
        obs_spaces: Mapping[str, tuple[DTypeLike, tuple[int, ...]]] | None = ...,
        action_shape: tuple[int, ...] | None = ...,
        action_dtype: DTypeLike = ...,
        reward_dtype: DTypeLike = ...,
        frame_stack: tuple[int, str] | Mapping[str, tuple[int, str]] | None = ...,
        extra_columns: Mapping[str, tuple[DTypeLike, tuple[int, ...]]] | None = ...,
    ) -> SequenceReplayBuffer: ...
    @classmethod
    def from_spaces(
        cls,
        observation_space: Any,
        action_space: Any,
        capacity: int,
        *,
        n_envs: int = ...,
        seed: int = ...,
        cross_episodes: bool = ...,
        reward_dtype: DTypeLike = ...,
        frame_stack: tuple[int, str] | Mapping[str, tuple[int, str]] | None = ...,
        extra_columns: Mapping[str, tuple[DTypeLike, tuple[int, ...]]] | None = ...,
    ) -> SequenceReplayBuffer: ...
    def push(
        self,
        obs: ArrayLike | Mapping[str, ArrayLike],
        action: ArrayLike,
        reward: ArrayLike,
        terminated: ArrayLike,
        truncated: ArrayLike,
        next_obs: ArrayLike | Mapping[str, ArrayLike] | None = ...,
        extra: dict[str, Any] | None = ...,
    ) -> None: ...
    def push_batch(
        self,
        obs: ArrayLike | Mapping[str, ArrayLike],
        actions: ArrayLike,
        rewards: ArrayLike,
        terminated: ArrayLike,
        truncated: ArrayLike,
        next_obs: ArrayLike | Mapping[str, ArrayLike] | None = ...,
        *,
        env_ids: ArrayLike | None = ...,
        extra: dict[str, Any] | None = ...,
    ) -> None: ...
    def sample(
        self,
        batch_size: int,
        seq_len: int,
        seed: int | None = ...,
        *,
        n_batches: int | None = ...,
        out: dict[str, Any] | None = ...,
    ) -> dict[str, Any]: ...
    def gather(self, indices: ArrayLike, *, out: dict[str, Any] | None = ...) -> dict[str, Any]: ...
    def update(self, column: str, indices: ArrayLike, values: ArrayLike) -> int: ...
    def cut_episode(self, env: int = ...) -> None: ...
    def clear(self) -> None: ...
    def state(self) -> dict[str, Any]: ...
    def restore(self, state: dict[str, Any]) -> None: ...
    def save(self, path: str | PathLike[str], name: str = ...) -> int: ...
    def load(self, path: str | PathLike[str], name: str = ...) -> None: ...
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
        obs_dim: int | None = ...,
        act_dim: int | None = ...,
        cold_path: str | PathLike[str] | None = ...,
        *,
        n_envs: int = ...,
        seed: int = ...,
        reopen: bool = ...,
        obs_shape: tuple[int, ...] | None = ...,
        obs_dtype: DTypeLike = ...,
        obs_spaces: Mapping[str, tuple[DTypeLike, tuple[int, ...]]] | None = ...,
        action_shape: tuple[int, ...] | None = ...,
        action_dtype: DTypeLike = ...,
        reward_dtype: DTypeLike = ...,
        frame_stack: tuple[int, str] | Mapping[str, tuple[int, str]] | None = ...,
        extra_columns: Mapping[str, tuple[DTypeLike, tuple[int, ...]]] | None = ...,
    ) -> MmapReplayBuffer: ...
    def push(
        self,
        obs: ArrayLike | Mapping[str, ArrayLike],
        action: ArrayLike,
        reward: ArrayLike,
        terminated: ArrayLike,
        truncated: ArrayLike,
        next_obs: ArrayLike | Mapping[str, ArrayLike] | None = ...,
        extra: dict[str, Any] | None = ...,
    ) -> None: ...
    def push_batch(
        self,
        obs: ArrayLike | Mapping[str, ArrayLike],
        actions: ArrayLike,
        rewards: ArrayLike,
        terminated: ArrayLike,
        truncated: ArrayLike,
        next_obs: ArrayLike | Mapping[str, ArrayLike] | None = ...,
        *,
        env_ids: ArrayLike | None = ...,
        extra: dict[str, Any] | None = ...,
    ) -> None: ...
    def sample(
        self,
        batch_size: int,
        seed: int | None = ...,
        *,
        n_batches: int | None = ...,
        n_step: int | None = ...,
        gamma: float | None = ...,
        out: dict[str, Any] | None = ...,
    ) -> dict[str, Any]: ...
    def gather(self, indices: ArrayLike, *, out: dict[str, Any] | None = ...) -> dict[str, Any]: ...
    def update(self, column: str, indices: ArrayLike, values: ArrayLike) -> int: ...
    def cut_episode(self, env: int = ...) -> None: ...
    def flush(self) -> None: ...
    def close(self, keep: bool = ...) -> None: ...
    def save(self, name: str = ...) -> None: ...
    def load(self, name: str = ...) -> None: ...
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
        normalize: bool = ...,
        *,
        seed: int = ...,
    ) -> OfflineDatasetBuffer: ...
    def sample(
        self,
        batch_size: int,
        seed: int | None = ...,
        *,
        n_batches: int | None = ...,
        out: dict[str, Any] | None = ...,
    ) -> dict[str, Any]: ...
    def sample_trajectories(
        self, batch_size: int, seq_len: int, seed: int | None = ...
    ) -> dict[str, NDArray[Any]]: ...
    def stats(self) -> dict[str, Any]: ...
    def n_episodes(self) -> int: ...
    def normalize(self, obs: ArrayLike) -> NDArray[Any]: ...
    def denormalize(self, obs: ArrayLike) -> NDArray[Any]: ...
    def save(self, path: str | PathLike[str], name: str = ...) -> int: ...
    def load(self, path: str | PathLike[str], name: str = ...) -> None: ...
    @property
    def normalized(self) -> bool: ...
    def __len__(self) -> int: ...

@final
class PrioritizedReplayBuffer:
    def __new__(
        cls,
        capacity: int,
        obs_dim: int | None = ...,
        act_dim: int | None = ...,
        alpha: float = ...,
        beta: float = ...,
        *,
        n_envs: int = ...,
        seed: int = ...,
        stratified: bool = ...,
        obs_shape: tuple[int, ...] | None = ...,
        obs_dtype: DTypeLike = ...,
        obs_spaces: Mapping[str, tuple[DTypeLike, tuple[int, ...]]] | None = ...,
        action_shape: tuple[int, ...] | None = ...,
        action_dtype: DTypeLike = ...,
        reward_dtype: DTypeLike = ...,
        frame_stack: tuple[int, str] | Mapping[str, tuple[int, str]] | None = ...,
        extra_columns: Mapping[str, tuple[DTypeLike, tuple[int, ...]]] | None = ...,
    ) -> PrioritizedReplayBuffer: ...
    @classmethod
    def from_spaces(
        cls,
        observation_space: Any,
        action_space: Any,
        capacity: int,
        *,
        alpha: float = ...,
        beta: float = ...,
        n_envs: int = ...,
        seed: int = ...,
        stratified: bool = ...,
        reward_dtype: DTypeLike = ...,
        frame_stack: tuple[int, str] | Mapping[str, tuple[int, str]] | None = ...,
        extra_columns: Mapping[str, tuple[DTypeLike, tuple[int, ...]]] | None = ...,
    ) -> PrioritizedReplayBuffer: ...
    def push(
        self,
        obs: ArrayLike | Mapping[str, ArrayLike],
        action: ArrayLike,
        reward: ArrayLike,
        terminated: ArrayLike,
        truncated: ArrayLike,
        next_obs: ArrayLike | Mapping[str, ArrayLike] | None = ...,
        priority: ArrayLike | None = ...,
        extra: dict[str, Any] | None = ...,
    ) -> None: ...
    def push_batch(
        self,
        obs: ArrayLike | Mapping[str, ArrayLike],
        actions: ArrayLike,
        rewards: ArrayLike,
        terminated: ArrayLike,
        truncated: ArrayLike,
        next_obs: ArrayLike | Mapping[str, ArrayLike] | None = ...,
        priorities: ArrayLike | None = ...,
        *,
        env_ids: ArrayLike | None = ...,
        extra: dict[str, Any] | None = ...,
    ) -> None: ...
    def sample(
        self,
        batch_size: int,
        seed: int | None = ...,
        *,
        n_batches: int | None = ...,
        n_step: int | None = ...,
        gamma: float | None = ...,
        out: dict[str, Any] | None = ...,
    ) -> dict[str, Any]: ...
    def gather(self, indices: ArrayLike, *, out: dict[str, Any] | None = ...) -> dict[str, Any]: ...
    def update(self, column: str, indices: ArrayLike, values: ArrayLike) -> int: ...
    def update_priorities(self, indices: ArrayLike, priorities: ArrayLike) -> int: ...
    def set_beta(self, beta: float) -> None: ...
    @property
    def alpha(self) -> float: ...
    @property
    def beta(self) -> float: ...
    def cut_episode(self, env: int = ...) -> None: ...
    def clear(self) -> None: ...
    def state(self) -> dict[str, Any]: ...
    def restore(self, state: dict[str, Any]) -> None: ...
    def save(self, path: str | PathLike[str], name: str = ...) -> int: ...
    def load(self, path: str | PathLike[str], name: str = ...) -> None: ...
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
    def __new__(cls, seed: int, name: str, index: int = ...) -> Stream: ...
    def uniform(self, n: int) -> NDArray[np.float64]: ...
    def normal(self, n: int) -> NDArray[np.float64]: ...
    def standard_normal(self, n: int) -> NDArray[np.float32]: ...
    def permutation(self, n: int) -> NDArray[np.int64]: ...
    def orthogonal(self, rows: int, columns: int) -> NDArray[np.float64]: ...
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

@disjoint_base
class NativeEnv:
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

@type_check_only
class _SingleStep(TypedDict):
    obs: NDArray[np.float32]
    reward: float
    terminated: bool
    truncated: bool

@disjoint_base
class SingleEnv(NativeEnv):
    def __new__(cls, env_id: str, seed: int = ...) -> SingleEnv: ...
    def reset(self, seed: int | None = ...) -> NDArray[np.float32]: ...
    def step(self, action: ArrayLike) -> _SingleStep: ...
    def get_state(self) -> NDArray[np.float64]: ...
    def set_state(self, state: ArrayLike, elapsed: int | None = ...) -> None: ...
    def snapshot(self) -> dict[str, NDArray[Any] | int | str]: ...
    def restore(self, snapshot: dict[str, NDArray[Any] | int | str]) -> None: ...

@final
class Acrobot(SingleEnv):
    def __new__(cls, seed: int = ...) -> Acrobot: ...

@final
class CartPole(SingleEnv):
    def __new__(cls, seed: int = ...) -> CartPole: ...

@final
class MountainCar(SingleEnv):
    def __new__(cls, seed: int = ...) -> MountainCar: ...

@final
class MountainCarContinuous(SingleEnv):
    def __new__(cls, seed: int = ...) -> MountainCarContinuous: ...

@final
class Pendulum(SingleEnv):
    def __new__(cls, seed: int = ...) -> Pendulum: ...

@final
class VecEnv(NativeEnv):
    def __new__(
        cls,
        n: int,
        seed: int = ...,
        env_id: str = ...,
        *,
        seeds: Iterable[int] | None = ...,
        shard: int = ...,
        parallel_from: int = ...,
        precision: str = ...,
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
    def set_state(self, state: ArrayLike, elapsed: ArrayLike | None = ...) -> None: ...
    def snapshot(self) -> dict[str, NDArray[Any] | int | str]: ...
    def restore(self, snapshot: dict[str, NDArray[Any] | int | str]) -> None: ...
    @property
    def n_envs(self) -> int: ...
    @property
    def precision(self) -> str: ...

@overload
def compute_gae(
    rewards: NDArray[np.float32],
    values: NDArray[np.float32],
    dones: ArrayLike | None = ...,
    last_value: float = ...,
    gamma: float = ...,
    lam: float = ...,
    *,
    terminated: ArrayLike | None = ...,
    truncated: ArrayLike | None = ...,
    next_values: ArrayLike | None = ...,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]: ...
@overload
def compute_gae(
    rewards: NDArray[np.float64],
    values: ArrayLike,
    dones: ArrayLike | None = ...,
    last_value: float = ...,
    gamma: float = ...,
    lam: float = ...,
    *,
    terminated: ArrayLike | None = ...,
    truncated: ArrayLike | None = ...,
    next_values: ArrayLike | None = ...,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
@overload
def compute_gae(
    rewards: ArrayLike,
    values: ArrayLike,
    dones: ArrayLike | None = ...,
    last_value: float = ...,
    gamma: float = ...,
    lam: float = ...,
    *,
    terminated: ArrayLike | None = ...,
    truncated: ArrayLike | None = ...,
    next_values: ArrayLike | None = ...,
) -> tuple[NDArray[np.floating[Any]], NDArray[np.floating[Any]]]: ...
@overload
def compute_gae_batched(
    rewards: NDArray[np.float32],
    values: NDArray[np.float32],
    dones: ArrayLike | None = ...,
    last_values: ArrayLike | None = ...,
    n_steps: int | None = ...,
    gamma: float = ...,
    lam: float = ...,
    *,
    terminated: ArrayLike | None = ...,
    truncated: ArrayLike | None = ...,
    next_values: ArrayLike | None = ...,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]: ...
@overload
def compute_gae_batched(
    rewards: NDArray[np.float64],
    values: ArrayLike,
    dones: ArrayLike | None = ...,
    last_values: ArrayLike | None = ...,
    n_steps: int | None = ...,
    gamma: float = ...,
    lam: float = ...,
    *,
    terminated: ArrayLike | None = ...,
    truncated: ArrayLike | None = ...,
    next_values: ArrayLike | None = ...,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
@overload
def compute_gae_batched(
    rewards: ArrayLike,
    values: ArrayLike,
    dones: ArrayLike | None = ...,
    last_values: ArrayLike | None = ...,
    n_steps: int | None = ...,
    gamma: float = ...,
    lam: float = ...,
    *,
    terminated: ArrayLike | None = ...,
    truncated: ArrayLike | None = ...,
    next_values: ArrayLike | None = ...,
) -> tuple[NDArray[np.floating[Any]], NDArray[np.floating[Any]]]: ...
def compute_gae_batched_f32(
    rewards: ArrayLike,
    values: ArrayLike,
    dones: ArrayLike | None = ...,
    last_values: ArrayLike | None = ...,
    n_steps: int | None = ...,
    gamma: float = ...,
    lam: float = ...,
    *,
    terminated: ArrayLike | None = ...,
    truncated: ArrayLike | None = ...,
    next_values: ArrayLike | None = ...,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]: ...
@overload
def compute_gae_time_major(
    rewards: NDArray[np.float32],
    values: NDArray[np.float32],
    next_values: ArrayLike | None = ...,
    terminated: ArrayLike | None = ...,
    truncated: ArrayLike | None = ...,
    gamma: float = ...,
    lam: float = ...,
    *,
    dones: ArrayLike | None = ...,
    last_values: ArrayLike | None = ...,
    advantages: NDArray[np.float32] | None = ...,
    returns: NDArray[np.float32] | None = ...,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]: ...
@overload
def compute_gae_time_major(
    rewards: NDArray[np.float64],
    values: ArrayLike,
    next_values: ArrayLike | None = ...,
    terminated: ArrayLike | None = ...,
    truncated: ArrayLike | None = ...,
    gamma: float = ...,
    lam: float = ...,
    *,
    dones: ArrayLike | None = ...,
    last_values: ArrayLike | None = ...,
    advantages: NDArray[np.float64] | None = ...,
    returns: NDArray[np.float64] | None = ...,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
@overload
def compute_gae_time_major(
    rewards: ArrayLike,
    values: ArrayLike,
    next_values: ArrayLike | None = ...,
    terminated: ArrayLike | None = ...,
    truncated: ArrayLike | None = ...,
    gamma: float = ...,
    lam: float = ...,
    *,
    dones: ArrayLike | None = ...,
    last_values: ArrayLike | None = ...,
    advantages: NDArray[np.floating[Any]] | None = ...,
    returns: NDArray[np.floating[Any]] | None = ...,
) -> tuple[NDArray[np.floating[Any]], NDArray[np.floating[Any]]]: ...
@overload
def compute_group_advantages(
    rewards: NDArray[_Float],
    *,
    scale: Literal["group", "batch", "none"] = ...,
    ddof: int = ...,
    eps: float = ...,
) -> NDArray[_Float]: ...
@overload
def compute_group_advantages(
    rewards: ArrayLike,
    *,
    scale: Literal["group", "batch", "none"] = ...,
    ddof: int = ...,
    eps: float = ...,
) -> NDArray[np.floating[Any]]: ...
@overload
def compute_batch_group_advantages(
    rewards: NDArray[_Float],
    group_size: int | None = ...,
    *,
    scale: Literal["group", "batch", "none"] = ...,
    ddof: int = ...,
    eps: float = ...,
) -> NDArray[_Float]: ...
@overload
def compute_batch_group_advantages(
    rewards: ArrayLike,
    group_size: int | None = ...,
    *,
    scale: Literal["group", "batch", "none"] = ...,
    ddof: int = ...,
    eps: float = ...,
) -> NDArray[np.floating[Any]]: ...
def compute_token_kl(
    log_p: ArrayLike,
    log_q: ArrayLike,
    *,
    estimator: Literal["exact", "k1", "k2", "k3"] = ...,
    mask: ArrayLike | None = ...,
    reduction: Literal["sum", "mean"] = ...,
) -> float: ...
def compute_token_kl_schulman(
    log_p: ArrayLike,
    log_q: ArrayLike,
    *,
    mask: ArrayLike | None = ...,
    reduction: Literal["sum", "mean"] = ...,
) -> float: ...
@overload
def compute_batch_token_kl(
    log_p: NDArray[_Float],
    log_q: NDArray[_Float],
    seq_len: int | None = ...,
    *,
    estimator: Literal["exact", "k1", "k2", "k3"] = ...,
    mask: ArrayLike | None = ...,
    reduction: Literal["sum", "mean"] = ...,
) -> NDArray[_Float]: ...
@overload
def compute_batch_token_kl(
    log_p: ArrayLike,
    log_q: ArrayLike,
    seq_len: int | None = ...,
    *,
    estimator: Literal["exact", "k1", "k2", "k3"] = ...,
    mask: ArrayLike | None = ...,
    reduction: Literal["sum", "mean"] = ...,
) -> NDArray[np.floating[Any]]: ...
@overload
def compute_batch_token_kl_schulman(
    log_p: NDArray[_Float],
    log_q: NDArray[_Float],
    seq_len: int | None = ...,
    *,
    mask: ArrayLike | None = ...,
    reduction: Literal["sum", "mean"] = ...,
) -> NDArray[_Float]: ...
@overload
def compute_batch_token_kl_schulman(
    log_p: ArrayLike,
    log_q: ArrayLike,
    seq_len: int | None = ...,
    *,
    mask: ArrayLike | None = ...,
    reduction: Literal["sum", "mean"] = ...,
) -> NDArray[np.floating[Any]]: ...
def pack_sequences(
    lengths: ArrayLike, max_len: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.int64]]: ...

@type_check_only
class _PackedTokens(TypedDict):
    tokens: NDArray[np.int64]
    packed: NDArray[np.int64]
    masks: NDArray[np.bool_]
    positions: NDArray[np.int64]
    cu_seqlens: NDArray[np.int32]
    order: NDArray[np.int64]

def pack_tokens(
    sequences: Iterable[ArrayLike], max_len: int, *, pad_token_id: int = ...
) -> _PackedTokens: ...
def unpack_sequences(values: Any, packed: ArrayLike) -> list[Any]: ...

@final
class DPOPair:
    def __new__(
        cls, prompt_tokens: ArrayLike, chosen_tokens: ArrayLike, rejected_tokens: ArrayLike
    ) -> DPOPair: ...
    def prompt_len(self) -> int: ...
    def chosen_len(self) -> int: ...
    def rejected_len(self) -> int: ...
    @property
    def prompt_tokens(self) -> NDArray[np.uint32]: ...
    @property
    def chosen_tokens(self) -> NDArray[np.uint32]: ...
    @property
    def rejected_tokens(self) -> NDArray[np.uint32]: ...
    def chosen_ids(self) -> NDArray[np.uint32]: ...
    def rejected_ids(self) -> NDArray[np.uint32]: ...
    def chosen_mask(self) -> NDArray[np.bool_]: ...
    def rejected_mask(self) -> NDArray[np.bool_]: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@overload
def compute_lambda_returns(
    rewards: NDArray[np.float32],
    next_values: NDArray[np.float32],
    gamma: float = ...,
    lam: float = ...,
    *,
    dones: ArrayLike | None = ...,
    terminated: ArrayLike | None = ...,
    truncated: ArrayLike | None = ...,
) -> NDArray[np.float32]: ...
@overload
def compute_lambda_returns(
    rewards: NDArray[np.float64],
    next_values: ArrayLike,
    gamma: float = ...,
    lam: float = ...,
    *,
    dones: ArrayLike | None = ...,
    terminated: ArrayLike | None = ...,
    truncated: ArrayLike | None = ...,
) -> NDArray[np.float64]: ...
@overload
def compute_lambda_returns(
    rewards: ArrayLike,
    next_values: ArrayLike,
    gamma: float = ...,
    lam: float = ...,
    *,
    dones: ArrayLike | None = ...,
    terminated: ArrayLike | None = ...,
    truncated: ArrayLike | None = ...,
) -> NDArray[np.floating[Any]]: ...
@overload
def compute_n_step_returns(
    rewards: NDArray[np.float32],
    next_values: NDArray[np.float32],
    n: int,
    gamma: float = ...,
    *,
    dones: ArrayLike | None = ...,
    terminated: ArrayLike | None = ...,
    truncated: ArrayLike | None = ...,
) -> NDArray[np.float32]: ...
@overload
def compute_n_step_returns(
    rewards: NDArray[np.float64],
    next_values: ArrayLike,
    n: int,
    gamma: float = ...,
    *,
    dones: ArrayLike | None = ...,
    terminated: ArrayLike | None = ...,
    truncated: ArrayLike | None = ...,
) -> NDArray[np.float64]: ...
@overload
def compute_n_step_returns(
    rewards: ArrayLike,
    next_values: ArrayLike,
    n: int,
    gamma: float = ...,
    *,
    dones: ArrayLike | None = ...,
    terminated: ArrayLike | None = ...,
    truncated: ArrayLike | None = ...,
) -> NDArray[np.floating[Any]]: ...
@overload
def compute_vtrace(
    log_rhos: NDArray[np.float32],
    rewards: NDArray[np.float32],
    values: NDArray[np.float32],
    dones: ArrayLike | None = ...,
    bootstrap_value: ArrayLike | None = ...,
    gamma: float = ...,
    rho_bar: float = ...,
    c_bar: float = ...,
    *,
    lam: float = ...,
    terminated: ArrayLike | None = ...,
    truncated: ArrayLike | None = ...,
    next_values: ArrayLike | None = ...,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]: ...
@overload
def compute_vtrace(
    log_rhos: ArrayLike,
    rewards: NDArray[np.float64],
    values: ArrayLike,
    dones: ArrayLike | None = ...,
    bootstrap_value: ArrayLike | None = ...,
    gamma: float = ...,
    rho_bar: float = ...,
    c_bar: float = ...,
    *,
    lam: float = ...,
    terminated: ArrayLike | None = ...,
    truncated: ArrayLike | None = ...,
    next_values: ArrayLike | None = ...,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
@overload
def compute_vtrace(
    log_rhos: ArrayLike,
    rewards: ArrayLike,
    values: ArrayLike,
    dones: ArrayLike | None = ...,
    bootstrap_value: ArrayLike | None = ...,
    gamma: float = ...,
    rho_bar: float = ...,
    c_bar: float = ...,
    *,
    lam: float = ...,
    terminated: ArrayLike | None = ...,
    truncated: ArrayLike | None = ...,
    next_values: ArrayLike | None = ...,
) -> tuple[NDArray[np.floating[Any]], NDArray[np.floating[Any]]]: ...
def explained_variance(values: ArrayLike, returns: ArrayLike) -> float: ...
def native_env_ids() -> list[str]: ...
def prune_replay(path: str | PathLike[str], keep: list[str]) -> int: ...
def num_threads() -> int: ...
def set_num_threads(n: int | None = ...) -> None: ...
def stream_seed(seed: int, name: str, index: int = ...) -> int: ...
