"""One step of n Python environments in subprocesses (P26): vectors and images.

rlox has one worker for each CPU, unless the column says otherwise; Gymnasium's AsyncVectorEnv has one
process for each environment. Both reset in the step that ends an episode. Processes wait for each other at
every step, so on a busy machine other programs change the wall-clock time more than either system does.

EnvPool is measured as well: its threads step its own environments, which are written in C++. It cannot step
Python environments, which this benchmark is about. So it is no peer; it shows the gain from leaving Python.

    pip install -c constraints.txt -e '.[peers]' && python benchmarks/bench_env_workers.py
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np
from bench_env_stepping import draw_actions, make_stepping_operation
from gymnasium import spaces
from harness.case import Case, Goal, Tolerance
from harness.cli import Context, run
from harness.systems import local_system

SIZES = (8, 64)
FRAMES = 4 * 84 * 84  # bytes of an observation
LENGTH = 100  # steps of an episode with images
VECTORS, IMAGES = "CartPole-v1", "4 x 84 x 84 images"
# EnvPool's closest environment, and how its work differs.
ENVPOOL_ENVS = {
    VECTORS: ("CartPole-v1", "the same environment in C++; it takes none of Python"),
    IMAGES: ("Pong-v5", "images of that size from Pong, four emulated frames a step"),
}


class Frames(gym.Env[Any, Any]):
    """Images that cost nothing to make, so that their transport is measured."""

    observation_space = spaces.Box(0, 255, (FRAMES,), np.uint8)
    action_space = spaces.Discrete(2)

    def __init__(self) -> None:
        self.frame = np.random.default_rng(0).integers(0, 256, FRAMES, dtype=np.uint8)
        self.t = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Return the same image in each first step."""
        super().reset(seed=seed)
        self.t = 0
        return self.frame, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Change one number of the image."""
        self.t += 1
        self.frame[self.t] = action
        return self.frame, 1.0, self.t == LENGTH, False, {}


def cart_pole() -> gym.Env[Any, Any]:
    """Make CartPole as `gymnasium.make_vec` makes it."""
    return gym.make(VECTORS, disable_env_checker=True)


ENV_FACTORIES: dict[str, Callable[[], gym.Env[Any, Any]]] = {VECTORS: cart_pole, IMAGES: Frames}


def p26(context: Context) -> Iterator[Case]:
    """Yield both kinds of environment in both sizes."""
    for kind in ENV_FACTORIES:
        for n in SIZES:
            yield Case(
                row="P26",
                work=f"one step of n x {kind} in subprocesses",
                size=str(n),
                ours=(
                    local_system("rlox", "rlox", lambda kind=kind, n=n: rlox_workers(kind, n), Goal(1.0)),
                    local_system(
                        "rlox one each",
                        "rlox",
                        lambda kind=kind, n=n: rlox_workers(kind, n, worker_envs=1),
                        is_gated=False,
                        note="worker_envs=1",
                    ),
                ),
                peers=(
                    local_system(
                        "Gymnasium async",
                        "gymnasium",
                        lambda kind=kind, n=n: gymnasium_workers(kind, n),
                    ),
                    local_system(
                        "EnvPool",
                        "envpool",
                        lambda kind=kind, n=n: envpool_threads(kind, n),
                        is_compared=False,
                        is_bound=True,
                        note=ENVPOOL_ENVS[kind][1],
                    ),
                ),
                tolerance=Tolerance(0.25, 0.004),
                elements=n,
            )


def rlox_workers(kind: str, n: int, **options: Any) -> Any:
    """Time `step_into` with arrays that are allocated once."""
    from rlox.envs.workers.vec_env import SupervisedVecEnv

    env = SupervisedVecEnv([ENV_FACTORIES[kind]] * n, 1, kind, 60.0, **options)
    obs, rewards = np.empty((n, env.observations.dim), np.float32), np.empty(n)
    terminated, truncated = np.empty(n, np.bool_), np.empty(n, np.bool_)
    env.reset_into(obs)
    return make_stepping_operation(
        lambda step_actions: env.step_into(step_actions, obs, rewards, terminated, truncated),
        list(draw_actions(VECTORS, n)),
        lambda _: (rewards, terminated, truncated),
        n,
    )


def gymnasium_workers(kind: str, n: int) -> Any:
    """Time Gymnasium's AsyncVectorEnv with shared memory, its default."""
    from gymnasium.vector import AsyncVectorEnv, AutoresetMode

    env = AsyncVectorEnv([ENV_FACTORIES[kind]] * n, autoreset_mode=AutoresetMode.SAME_STEP)
    env.reset(seed=1)
    return make_stepping_operation(
        env.step, list(draw_actions(VECTORS, n)), lambda step_result: step_result[1:4], n
    )


def envpool_threads(kind: str, n: int) -> Any:
    """Time EnvPool with a thread for each CPU."""
    import envpool

    from rlox.envs.workers.worker_pool import cpu_count

    env = envpool.make(
        ENVPOOL_ENVS[kind][0],
        env_type="gymnasium",
        num_envs=n,
        num_threads=min(n, cpu_count()),
        seed=1,
    )
    env.reset()
    actions = list(draw_actions(VECTORS, n).astype(np.int32))
    return make_stepping_operation(env.step, actions, lambda step_result: step_result[1:4], n)


ROWS = {"P26": p26}

if __name__ == "__main__":
    sys.exit(run(ROWS, "env_workers", __doc__))
