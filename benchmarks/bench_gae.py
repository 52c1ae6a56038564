"""Advantages of trajectories: GAE of one (P1), of 256 at once (P2), and V-trace (P3).

pip install -c constraints.txt -e '.[peers]'
python benchmarks/bench_gae.py --install-original
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from harness.case import Case, Goal, Results, System, Tolerance
from harness.cli import Context, run
from harness.systems import (
    function_make,
    local_system,
    original_function_system,
    rlox_function_make,
)
from numpy.typing import NDArray

Array = NDArray[Any]
GAMMA, LAM, END_RATE = 0.99, 0.95, 0.01
P1_SIZES = (128, 2_048, 32_768)
P2_ENVS = 256
P2_STEPS = (64, 2_048)  # one size fits into the private caches of a core, the other does not
P3_STEPS = 2_048
NAMES = ("advantages", "returns")


@dataclass(frozen=True)
class Rollout:
    """Rewards and episode ends `[T, N]`, values `[T + 1, N]`."""

    rewards: Array
    values: Array
    dones: Array

    @classmethod
    def draw(cls, n_steps: int, n_envs: int, dtype: type[np.floating[Any]]) -> Rollout:
        """Draw normal numbers; an episode ends after one step in a hundred."""
        rng = np.random.default_rng(n_steps)
        rewards, values = rng.normal(size=(n_steps, n_envs)), rng.normal(size=(n_steps + 1, n_envs))
        dones = rng.random((n_steps, n_envs)) < END_RATE
        return cls(rewards.astype(dtype), values.astype(dtype), dones)


def env_major(array: Array) -> Array:
    """Reorder `[T, N]` as env 0's steps, env 1's steps, ..."""
    return np.ascontiguousarray(array.T).ravel()


def p1(context: Context) -> Iterator[Case]:
    """Yield GAE of one trajectory in float64."""
    for n_steps in P1_SIZES:
        data = Rollout.draw(n_steps, 1, np.float64)
        arrays = [data.rewards[:, 0].copy(), data.values[:-1, 0].copy(), data.dones[:, 0].copy()]
        last_value = float(data.values[-1, 0])
        arguments = (*arrays, last_value, GAMMA, LAM)
        yield Case(
            row="P1",
            work="GAE of one trajectory, float64",
            size=f"{n_steps:,}",
            ours=(
                local_system("rlox", "rlox", rlox_function_make("compute_gae", arguments, *NAMES), Goal(1.3)),
            ),
            peers=(
                original_function_system(
                    context.original, "compute_gae", arrays, (last_value, GAMMA, LAM), *NAMES
                ),
                local_system("TorchRL", "torchrl", lambda d=data: torchrl_gae(d)),
                local_system("SB3", "sb3", lambda d=data: sb3_gae(d)),
                local_system("NumPy loop", "numpy", function_make(lambda a=arguments: numpy_gae(*a), *NAMES)),
            ),
            tolerance=Tolerance(1e-5, 1e-5),  # TorchRL cuts off the tail of its filter
            elements=n_steps,
        )


def numpy_gae(
    rewards: Array, values: Array, dones: Array, last_value: float, gamma: float, lam: float
) -> tuple[Array, Array]:
    """Compute GAE by the usual loop over NumPy arrays."""
    advantages = np.zeros_like(rewards)
    advantage, next_value = 0.0, last_value
    for t in range(len(rewards) - 1, -1, -1):
        alive = 1.0 - dones[t]
        delta = rewards[t] + gamma * next_value * alive - values[t]
        advantage = delta + gamma * lam * alive * advantage
        advantages[t] = advantage
        next_value = values[t]
    return advantages, advantages + values


def torchrl_gae(data: Rollout, *, loop: bool = False) -> Any:
    """Time TorchRL's vectorised estimator on `[N, T, 1]`, or its loop over time."""
    import torch
    from torchrl.objectives.value import functional

    name = "generalized_advantage_estimate"
    estimate = getattr(functional, name if loop else f"vec_{name}")
    tensors = [
        torch.from_numpy(np.ascontiguousarray(array.T)[..., None])
        for array in (data.values[:-1], data.values[1:], data.rewards, data.dones)
    ]

    def call() -> Any:
        return estimate(GAMMA, LAM, *tensors, tensors[3])

    def answer() -> Results:
        return {name: t.numpy().ravel() for name, t in zip(NAMES, call(), strict=True)}

    return call, answer


def sb3_gae(data: Rollout) -> Any:
    """Time Stable-Baselines3's buffer, with arrays in the precision of the case."""
    import torch
    from gymnasium.spaces import Box, Discrete
    from stable_baselines3.common.buffers import RolloutBuffer

    n_steps, n_envs = data.rewards.shape
    space = Box(-1.0, 1.0, (4,), np.float32)
    buffer = RolloutBuffer(n_steps, space, Discrete(2), "cpu", LAM, GAMMA, n_envs)
    buffer.rewards, buffer.values = data.rewards.copy(), data.values[:-1].copy()
    buffer.advantages = np.zeros_like(data.rewards)
    buffer.episode_starts = np.zeros_like(data.rewards)
    buffer.episode_starts[1:] = data.dones[:-1]
    last = torch.from_numpy(data.values[-1].copy())

    def answer() -> Results:
        buffer.compute_returns_and_advantage(last, data.dones[-1])
        return {"advantages": env_major(buffer.advantages), "returns": env_major(buffer.returns)}

    return lambda: buffer.compute_returns_and_advantage(last, data.dones[-1]), answer


def p2(context: Context) -> Iterator[Case]:
    """Yield GAE of 256 environments in float32."""
    for n_steps in P2_STEPS:
        yield batched_case(context, n_steps)


def batched_case(context: Context, n_steps: int) -> Case:
    """Make the case for one length of the rollout."""
    data = Rollout.draw(n_steps, P2_ENVS, np.float32)
    flat = [env_major(a) for a in (data.rewards, data.values[:-1], data.dones)]
    single = [*flat[:2], flat[2].astype(np.float32)]
    return Case(
        row="P2",
        work="GAE of 256 environments, float32",
        size=f"{P2_ENVS} x {n_steps:,}",
        ours=our_batched_gae(data, flat),
        peers=(
            original_function_system(
                context.original,
                "compute_gae_batched_f32",
                [*single, data.values[-1]],
                (n_steps, GAMMA, LAM),
                *NAMES,
            ),
            local_system("TorchRL", "torchrl", lambda: torchrl_gae(data)),
            local_system("TorchRL loop", "torchrl", lambda: torchrl_gae(data, loop=True)),
            local_system("SB3", "sb3", lambda: sb3_gae(data)),
        ),
        tolerance=Tolerance(1e-4, 1e-4),
        elements=P2_ENVS * n_steps,
    )


def our_batched_gae(data: Rollout, flat: list[Array]) -> tuple[System, ...]:
    """Return four ways: time-major into the caller's arrays, into new arrays, exact at time limits;
    env-major.
    """
    rewards_and_values = (data.rewards, data.values[:-1])
    done_arguments = {"dones": data.dones, "last_values": data.values[-1]}
    truncation_arguments = {
        "next_values": data.values[1:].copy(),
        "terminated": data.dones,
        "truncated": np.zeros_like(data.dones),
    }
    out = {name: np.empty_like(data.rewards) for name in NAMES}
    n_steps = len(data.rewards)
    env_major_arguments = (*flat, data.values[-1], n_steps, GAMMA, LAM)
    time_major_goals, env_major_goals = ((Goal(20.0),), (Goal(6.0),)) if n_steps == P2_STEPS[-1] else ((), ())
    return (
        local_system(
            "rlox time-major, into",
            "rlox",
            time_major(*rewards_and_values, **done_arguments, **out),
            *time_major_goals,
        ),
        local_system(
            "rlox time-major, fresh",
            "rlox",
            time_major(*rewards_and_values, **done_arguments),
            note="allocates its results",
        ),
        local_system(
            "rlox time-major, truncation",
            "rlox",
            time_major(*rewards_and_values, **truncation_arguments, **out),
            note="reads next_values and two kinds of flags, exact at time limits; into",
        ),
        local_system(
            "rlox env-major",
            "rlox",
            rlox_function_make("compute_gae_batched_f32", env_major_arguments, *NAMES),
            *env_major_goals,
        ),
    )


def time_major(*arguments: Array, **keyword_arguments: Array) -> Any:
    """Return a factory that times `compute_gae_time_major`; the results are in env-major order."""
    import rlox

    def call() -> Any:
        return rlox.compute_gae_time_major(*arguments, gamma=GAMMA, lam=LAM, **keyword_arguments)

    def answer() -> Results:
        return {name: env_major(part) for name, part in zip(NAMES, call(), strict=True)}

    return lambda: (call, answer)


def p3(context: Context) -> Iterator[Case]:
    """Yield V-trace of one trajectory in float32, the only precision of the original."""
    data = Rollout.draw(P3_STEPS, 1, np.float32)
    log_rhos = np.random.default_rng(3).normal(scale=0.3, size=P3_STEPS).astype(np.float32)
    rewards, values = data.rewards[:, 0].copy(), data.values[:-1, 0].copy()
    dones = data.dones[:, 0].astype(np.float32)
    last_value, names = float(data.values[-1, 0]), ("targets", "advantages")
    arrays = [log_rhos, rewards, values, dones]
    arguments = (*arrays[:3], data.dones[:, 0].copy(), last_value, GAMMA, 1.0, 1.0)
    yield Case(
        row="P3",
        work="V-trace of one trajectory, float32",
        size=f"{P3_STEPS:,}",
        ours=(
            local_system(
                "rlox",
                "rlox",
                rlox_function_make("compute_vtrace", arguments, *names),
                Goal(2.0),
            ),
        ),
        peers=(
            original_function_system(
                context.original, "compute_vtrace", arrays, (last_value, GAMMA, 1.0, 1.0), *names
            ),
            local_system("TorchRL", "torchrl", lambda: torchrl_vtrace(data, log_rhos)),
        ),
        tolerance=Tolerance(1e-4, 1e-4),
        elements=P3_STEPS,
    )


def torchrl_vtrace(data: Rollout, log_rhos: Array) -> Any:
    """Time TorchRL's V-trace on `[T, 1]`."""
    import torch
    from torchrl.objectives.value.functional import vtrace_advantage_estimate

    log_pi = torch.from_numpy(log_rhos[:, None])
    log_mu = torch.zeros_like(log_pi)
    tensors = [
        torch.from_numpy(a.copy()) for a in (data.values[:-1], data.values[1:], data.rewards, data.dones)
    ]

    def call() -> Any:
        return vtrace_advantage_estimate(GAMMA, log_pi, log_mu, *tensors, tensors[3])

    def answer() -> Results:
        advantages, targets = call()
        return {"targets": targets.numpy()[:, 0], "advantages": advantages.numpy()[:, 0]}

    return call, answer


ROWS = {"P1": p1, "P2": p2, "P3": p3}

if __name__ == "__main__":
    sys.exit(run(ROWS, "gae", __doc__))
