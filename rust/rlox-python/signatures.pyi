from collections.abc import Iterable
from typing import Any, TypedDict, final, overload, type_check_only

import numpy as np
from numpy.typing import ArrayLike, NDArray
from typing_extensions import disjoint_base

__all__ = [
    "Acrobot",
    "CartPole",
    "MountainCar",
    "MountainCarContinuous",
    "NativeEnv",
    "Pendulum",
    "SingleEnv",
    "Stream",
    "VecEnv",
    "compute_gae",
    "compute_gae_batched",
    "compute_gae_batched_f32",
    "compute_gae_time_major",
    "native_env_ids",
    "stream_seed",
]

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
    def __new__(cls, env_id: str, seed: int = 0) -> SingleEnv: ...
    def reset(self, seed: int | None = None) -> NDArray[np.float32]: ...
    def step(self, action: ArrayLike) -> _SingleStep: ...
    def get_state(self) -> NDArray[np.float64]: ...
    def set_state(self, state: ArrayLike, elapsed: int | None = None) -> None: ...
    def snapshot(self) -> dict[str, NDArray[Any] | int | str]: ...
    def restore(self, snapshot: dict[str, NDArray[Any] | int | str]) -> None: ...

@final
class Acrobot(SingleEnv):
    def __new__(cls, seed: int = 0) -> Acrobot: ...

@final
class CartPole(SingleEnv):
    def __new__(cls, seed: int = 0) -> CartPole: ...

@final
class MountainCar(SingleEnv):
    def __new__(cls, seed: int = 0) -> MountainCar: ...

@final
class MountainCarContinuous(SingleEnv):
    def __new__(cls, seed: int = 0) -> MountainCarContinuous: ...

@final
class Pendulum(SingleEnv):
    def __new__(cls, seed: int = 0) -> Pendulum: ...

@final
class VecEnv(NativeEnv):
    def __new__(
        cls,
        n: int,
        seed: int = 0,
        env_id: str = "CartPole-v1",
        *,
        seeds: Iterable[int] | None = None,
        shard: int = 1024,
        parallel_from: int = 16384,
        precision: str = "f64",
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
    def precision(self) -> str: ...


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
def stream_seed(seed: int, name: str, index: int = 0) -> int: ...
