"""One step of n Python environments in subprocesses (P26): vectors and images.

rlox has as many workers as there are CPUs, unless the column says otherwise; Gymnasium's AsyncVectorEnv
has a process for each environment. Both reset within the step that ends an episode. A process waits for
another at every step, so on a machine that others use the clock says more of them than of either.

EnvPool stands beside: threads that step environments of its own, written in C++. It takes none of Python,
which this is about, so it is no peer but what leaving Python would bring.

    pip install -c constraints.txt -e '.[peers]' && python benchmarks/bench_env_workers.py
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np
from bench_env_stepping import draw_actions, stepping
from gymnasium import spaces
from harness.case import Case, Goal, Tolerance
from harness.cli import Context, run
from harness.systems import local

SIZES = (8, 64)
FRAMES = 4 * 84 * 84  # bytes of an observation
LENGTH = 100  # steps of an episode of images
VECTORS, IMAGES = "CartPole-v1", "4 x 84 x 84 images"
# What EnvPool has that shows the same, and how that is not the same work.
POOLS = {
    VECTORS: ("CartPole-v1", "the same environment in C++; it takes none of Python"),
    IMAGES: ("Pong-v5", "images of that size from Pong, four emulated frames a step"),
}


class Frames(gym.Env[Any, Any]):
    """Images at no cost: the time is that of their transport."""

    observation_space = spaces.Box(0, 255, (FRAMES,), np.uint8)
    action_space = spaces.Discrete(2)

    def __init__(self) -> None:
        self.frame = np.random.default_rng(0).integers(0, 256, FRAMES, dtype=np.uint8)
        self.t = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """The same image at first."""
        super().reset(seed=seed)
        self.t = 0
        return self.frame, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One number of it changes."""
        self.t += 1
        self.frame[self.t] = action
        return self.frame, 1.0, self.t == LENGTH, False, {}


def cart_pole() -> gym.Env[Any, Any]:
    """As `gymnasium.make_vec` makes it."""
    return gym.make(VECTORS, disable_env_checker=True)


MAKE: dict[str, Callable[[], gym.Env[Any, Any]]] = {VECTORS: cart_pole, IMAGES: Frames}


def p26(context: Context) -> Iterator[Case]:
    """Both kinds in both sizes."""
    for kind in MAKE:
        for n in SIZES:
            yield Case(
                row="P26",
                work=f"one step of n x {kind} in subprocesses",
                size=str(n),
                ours=(
                    local("rlox", "rlox", lambda kind=kind, n=n: ours(kind, n), Goal(1.0)),
                    local(
                        "rlox one each",
                        "rlox",
                        lambda kind=kind, n=n: ours(kind, n, worker_envs=1),
                        gated=False,
                        note="worker_envs=1",
                    ),
                ),
                peers=(
                    local("Gymnasium async", "gymnasium", lambda kind=kind, n=n: theirs(kind, n)),
                    local(
                        "EnvPool",
                        "envpool",
                        lambda kind=kind, n=n: pooled(kind, n),
                        compared=False,
                        bound=True,
                        note=POOLS[kind][1],
                    ),
                ),
                tolerance=Tolerance(0.25, 0.004),
                elements=n,
            )


def ours(kind: str, n: int, **options: Any) -> Any:
    """`step_into` arrays that are made once."""
    from rlox.envs.workers.pool import SupervisedVecEnv

    env = SupervisedVecEnv([MAKE[kind]] * n, 1, kind, 60.0, **options)
    obs, rewards = np.empty((n, env.observations.dim), np.float32), np.empty(n)
    terminated, truncated = np.empty(n, np.bool_), np.empty(n, np.bool_)
    env.reset_into(obs)
    return stepping(
        lambda chosen: env.step_into(chosen, obs, rewards, terminated, truncated),
        list(draw_actions(VECTORS, n)),
        lambda _: (rewards, terminated, truncated),
        n,
    )


def theirs(kind: str, n: int) -> Any:
    """Gymnasium's, with shared memory, which is its default."""
    from gymnasium.vector import AsyncVectorEnv, AutoresetMode

    env = AsyncVectorEnv([MAKE[kind]] * n, autoreset_mode=AutoresetMode.SAME_STEP)
    env.reset(seed=1)
    return stepping(env.step, list(draw_actions(VECTORS, n)), lambda got: got[1:4], n)


def pooled(kind: str, n: int) -> Any:
    """EnvPool with a thread for each CPU."""
    import envpool

    from rlox.envs.workers.crew import cpus

    env = envpool.make(
        POOLS[kind][0], env_type="gymnasium", num_envs=n, num_threads=min(n, cpus()), seed=1
    )
    env.reset()
    actions = list(draw_actions(VECTORS, n).astype(np.int32))
    return stepping(env.step, actions, lambda got: got[1:4], n)


ROWS = {"P26": p26}

if __name__ == "__main__":
    sys.exit(run(ROWS, "env_workers", __doc__))
