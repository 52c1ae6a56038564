"""One step of n environments: the five classic-control environments (P9), large batches (P20).

Every system steps with the same random actions, which are drawn beforehand. All systems reset by themselves:
rlox and its original in the step that ends an episode, Gymnasium and EnvPool in the next step.

P20 compares one step of a large batch with the same number of environment steps in batches of 2,048.

    pip install -c constraints.txt -e '.[peers]'
    python benchmarks/bench_env_stepping.py --install-original
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from harness.case import Case, Goal, Results, System, Tolerance
from harness.cli import Context, run
from harness.systems import ORIGINAL, local_system
from numpy.typing import NDArray

Array = NDArray[Any]
# takes the result of a step, returns (rewards, terminated, truncated)
Outcome = Callable[[Any], tuple[Array, Array, Array]]

SIZES = (1, 16, 256, 2_048)
DISCRETE = {"CartPole-v1": 2, "Acrobot-v1": 3, "MountainCar-v0": 3}
BOUNDS = {"Pendulum-v1": 2.0, "MountainCarContinuous-v0": 1.0}
IN_THE_ORIGINAL = ("CartPole-v1", "Pendulum-v1")
WITH_VECTOR_ENTRY_POINT = ("CartPole-v1",)
POOL = 64  # steps of actions, used in turn
LARGE = (16_384, 262_144, 1_048_576)
LARGE_POOL = 4
SMALL = 2_048  # environments of the batch that large batches are compared with
SMALL_BATCHES_NAME = "2,048 at a time"
COPY = "bare copy"
MAX_COST_RATIO = 1.5  # largest ratio of the costs per step
CHECKED_STEPS = 20_000  # environment steps whose rewards and episode ends are compared
NEXT_STEP = "an episode's end is followed by a call that only resets, which is no transition"


def draw_actions(env_id: str, n: int, steps: int = POOL) -> Array:
    """Draw uniform actions: int64 `[steps, n]`, or float32 `[steps, n, 1]`."""
    rng = np.random.default_rng(n)
    if env_id in DISCRETE:
        return rng.integers(0, DISCRETE[env_id], (steps, n))
    bound = BOUNDS[env_id]
    return rng.uniform(-bound, bound, (steps, n, 1)).astype(np.float32)


def p9(context: Context) -> Iterator[Case]:
    """Yield every environment in every size."""
    for env_id in (*DISCRETE, *BOUNDS):
        for n in SIZES:
            actions = draw_actions(env_id, n)
            yield Case(
                row="P9",
                work=f"one step of n x {env_id}",
                size=f"{n:,}",
                ours=our_systems(env_id, n, actions),
                peers=tuple(peer_systems(context, env_id, n, actions)),
                # Means over random episodes: three standard errors of the rarest event, CartPole's episode
                # ends, and the resets that are no transitions.
                tolerance=Tolerance(0.25, 0.004),
                elements=n,
            )


def p20(context: Context) -> Iterator[Case]:
    """Yield an environment whose episodes end often, and one whose episodes last at least 200 steps."""
    for env_id in ("CartPole-v1", "MountainCar-v0"):
        for n in LARGE:
            yield large_case(env_id, n)


def large_case(env_id: str, n: int) -> Case:
    """Compare one step of a large batch with n / 2,048 steps of a small one."""
    actions, small_actions = draw_actions(env_id, n, LARGE_POOL), draw_actions(env_id, SMALL)
    return Case(
        row="P20",
        work=f"one step of many x {env_id}",
        size=f"{n:,}",
        ours=(
            local_system(
                "rlox",
                "rlox",
                lambda: our_step(env_id, n, actions),
                Goal(1 / MAX_COST_RATIO, against=SMALL_BATCHES_NAME),
            ),
            local_system(
                "rlox step_into",
                "rlox",
                lambda: our_step_into(env_id, n, actions),
                is_gated=False,
                note="writes into arrays of the caller",
            ),
        ),
        peers=(
            local_system(
                SMALL_BATCHES_NAME,
                "rlox",
                lambda: our_step(env_id, SMALL, small_actions),
                scale=n / SMALL,
                is_compared=False,
                is_bound=True,
                note="as many steps of 2,048 environments, which the caches hold",
            ),
            local_system(
                COPY,
                "numpy",
                lambda: copy_step(env_id, n),
                is_compared=False,
                is_bound=True,
                note="moves as many bytes as a step reads and writes, and computes nothing",
            ),
        ),
        tolerance=Tolerance(0.25, 0.004),
        elements=n,
    )


def copy_step(env_id: str, n: int) -> Any:
    """Copy as many bytes as a step reads and writes: state, actions and results."""
    import rlox

    env = rlox.VecEnv(n=1, env_id=env_id)
    state, obs, action = 8 * env.state_dim, 4 * env.obs_dim, 8
    rewards, flags = 8, 3
    bytes_read, bytes_written = state + action, state + 2 * obs + rewards + flags
    source, target = (np.zeros(n * (bytes_read + bytes_written) // 2, np.uint8) for _ in range(2))
    return lambda: np.copyto(target, source), dict


def our_systems(env_id: str, n: int, actions: Array) -> tuple[System, ...]:
    """Return `step_all` and `step_into`, with float64 and with float32 state."""
    small_goal = Goal(1.5)
    return (
        local_system(
            "rlox",
            "rlox",
            lambda: our_step(env_id, n, actions),
            small_goal if n == 1 else Goal(5.0),
        ),
        local_system(
            "rlox f32",
            "rlox",
            lambda: our_step(env_id, n, actions, precision="f32"),
            small_goal if n == 1 else Goal(8.0),
            note="precision='f32': float32 state",
        ),
        local_system(
            "rlox step_into",
            "rlox",
            lambda: our_step_into(env_id, n, actions),
            is_gated=False,
            note="writes into arrays of the caller",
        ),
        local_system(
            "rlox f32 step_into",
            "rlox",
            lambda: our_step_into(env_id, n, actions, precision="f32"),
            is_gated=False,
        ),
    )


def make_stepping_operation(step: Callable[[Any], Any], actions: Any, outcome: Outcome, n: int) -> Any:
    """Return a timed `step(next actions)`, and a function for the means of its rewards and episode ends."""
    turns = itertools.cycle(actions)

    def operation() -> Any:
        return step(next(turns))

    def answer() -> Results:
        steps = -(-CHECKED_STEPS // n)
        ends = reward = 0.0
        for _ in range(steps):
            rewards, terminated, truncated = outcome(operation())
            ends += np.count_nonzero(np.logical_or(terminated, truncated))
            reward += float(rewards.sum())
        return {"ends": np.array(ends / (steps * n)), "reward": np.array(reward / (steps * n))}

    return operation, answer


def our_step(env_id: str, n: int, actions: Array, **options: str) -> Any:
    """Time `step_all`, which returns new arrays."""
    import rlox

    env = rlox.VecEnv(n=n, seed=1, env_id=env_id, **options)
    env.reset_all()
    return make_stepping_operation(
        env.step_all,
        list(actions),
        lambda step_result: (
            step_result["rewards"],
            step_result["terminated"],
            step_result["truncated"],
        ),
        n,
    )


def our_step_into(env_id: str, n: int, actions: Array, **options: str) -> Any:
    """Time `step_into` with arrays that are allocated once."""
    import rlox

    env = rlox.VecEnv(n=n, seed=1, env_id=env_id, **options)
    obs, rewards = env.reset_all(), np.empty(n)
    terminated, truncated = np.empty(n, np.bool_), np.empty(n, np.bool_)
    return make_stepping_operation(
        lambda step_actions: env.step_into(step_actions, obs, rewards, terminated, truncated),
        list(actions),
        lambda _: (rewards, terminated, truncated),
        n,
    )


def peer_systems(context: Context, env_id: str, n: int, actions: Array) -> Iterator[System]:
    """Yield every peer that has the environment."""
    if env_id in IN_THE_ORIGINAL:
        peer_actions = actions.astype(np.uint32) if env_id in DISCRETE else actions
        yield System(
            name=ORIGINAL,
            package="original",
            prepare=lambda: context.original.runner(
                "vec_env", [peer_actions, np.array(CHECKED_STEPS)], env_id=env_id, n=n, seed=1
            ),
        )
    yield local_system("EnvPool", "envpool", lambda: envpool_step(env_id, n, actions), note=NEXT_STEP)
    yield local_system(
        "Gymnasium sync",
        "gymnasium",
        lambda: gymnasium_step(env_id, n, actions, "sync"),
        note=NEXT_STEP,
    )
    if env_id in WITH_VECTOR_ENTRY_POINT:
        yield local_system(
            "Gymnasium NumPy",
            "gymnasium",
            lambda: gymnasium_step(env_id, n, actions, "vector_entry_point"),
            note=NEXT_STEP,
        )


def envpool_step(env_id: str, n: int, actions: Array) -> Any:
    """Step EnvPool through Gymnasium's interface, synchronously, on one thread."""
    import envpool

    env = envpool.make(env_id, env_type="gymnasium", num_envs=n, num_threads=1, seed=1)
    env.reset()
    peer_actions = actions.astype(np.int32) if env_id in DISCRETE else actions
    return make_stepping_operation(env.step, list(peer_actions), lambda step_result: step_result[1:4], n)


def gymnasium_step(env_id: str, n: int, actions: Array, mode: str) -> Any:
    """Step Gymnasium's loop over environments, or its environment that uses NumPy."""
    import gymnasium

    options = {"disable_env_checker": True} if mode == "sync" else {}
    env = gymnasium.make_vec(env_id, num_envs=n, vectorization_mode=mode, **options)
    env.reset(seed=1)
    return make_stepping_operation(env.step, list(actions), lambda step_result: step_result[1:4], n)


ROWS = {"P9": p9, "P20": p20}

if __name__ == "__main__":
    sys.exit(run(ROWS, "env_stepping", __doc__))
