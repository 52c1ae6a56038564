"""A whole rollout: 256 CartPole environments x 2,048 steps with random actions, then GAE (P12).

Actions and values are drawn beforehand. Every system steps, stores observations, rewards and flags, and
computes advantages and returns.

    pip install -c constraints.txt -e '.[peers]'
    python benchmarks/bench_e2e_rollout.py --install-original
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from harness.case import Case, Goal, Results, System, Tolerance
from harness.cli import Context, run
from harness.systems import ORIGINAL, local_system
from numpy.typing import NDArray

Array = NDArray[Any]
ENV, GAMMA, LAM = "CartPole-v1", 0.99, 0.95
N_ENVS, N_STEPS = 256, 2_048
SB3_STEPS = 64  # SB3's time grows linearly with the steps, so it takes fewer and its time is scaled


def p12(context: Context) -> Iterator[Case]:
    """Yield the rollout with a random policy."""
    rng = np.random.default_rng(12)
    actions = rng.integers(0, 2, (N_STEPS, N_ENVS))
    values = rng.normal(size=(N_STEPS + 1, N_ENVS)).astype(np.float32)
    yield Case(
        row="P12",
        work="rollout of CartPole-v1 with GAE, random policy",
        size=f"{N_ENVS} x {N_STEPS:,}",
        ours=(
            local_system(
                "rlox",
                "rlox",
                lambda: our_rollout(actions, values),
                Goal(4.0, ORIGINAL),
                Goal(100.0, "SB3"),
            ),
        ),
        peers=(
            System(
                name=ORIGINAL,
                package="original",
                prepare=lambda: context.original.runner(
                    "rollout",
                    [actions.astype(np.uint32), values],
                    env_id=ENV,
                    n=N_ENVS,
                    seed=1,
                    gamma=GAMMA,
                    lam=LAM,
                ),
            ),
            local_system(
                "SB3",
                "sb3",
                lambda: sb3_rollout(actions[:SB3_STEPS], values[: SB3_STEPS + 1]),
                scale=N_STEPS / SB3_STEPS,
                note=f"takes {SB3_STEPS} steps, its time multiplied by {N_STEPS // SB3_STEPS}",
            ),
        ),
        # Episode ends per step differ between systems only by chance.
        tolerance=Tolerance(0.15),
        elements=N_ENVS * N_STEPS,
    )


def our_rollout(actions: Array, values: Array) -> Any:
    """Step into the rows of one arena with `step_into`, and compute advantages in the same memory."""
    import rlox

    n_steps, n_envs = actions.shape
    env = rlox.VecEnv(n=n_envs, seed=1, env_id=ENV)
    obs = np.zeros((n_steps + 1, n_envs, env.obs_dim), np.float32)
    rewards = np.zeros((n_steps, n_envs))
    terminated, truncated = (np.zeros((n_steps, n_envs), np.bool_) for _ in range(2))
    rewards_f32, advantages, returns = (np.zeros((n_steps, n_envs), np.float32) for _ in range(3))
    obs[0] = env.reset_all()

    def operation() -> None:
        for t in range(n_steps):
            env.step_into(actions[t], obs[t + 1], rewards[t], terminated[t], truncated[t])
        np.copyto(rewards_f32, rewards)
        rlox.compute_gae_time_major(
            rewards_f32,
            values[:-1],
            values[1:],
            terminated,
            truncated,
            GAMMA,
            LAM,
            advantages=advantages,
            returns=returns,
        )

    def answer() -> Results:
        operation()
        return {"ends": (terminated | truncated).mean(), "reward": rewards.mean()}

    return operation, answer


def sb3_rollout(actions: Array, values: Array) -> Any:
    """Use `DummyVecEnv` and `RolloutBuffer` as SB3's on-policy algorithms do."""
    import torch
    from stable_baselines3.common.buffers import RolloutBuffer
    from stable_baselines3.common.env_util import make_vec_env

    n_steps, n_envs = actions.shape
    env = make_vec_env(ENV, n_envs, seed=1)
    buffer = RolloutBuffer(n_steps, env.observation_space, env.action_space, "cpu", LAM, GAMMA, n_envs)
    tensors, log_prob = torch.from_numpy(values), torch.zeros(n_envs)
    state = {"obs": env.reset(), "dones": np.ones(n_envs, np.bool_)}

    def operation() -> None:
        buffer.reset()
        obs, dones = state["obs"], state["dones"]
        for t in range(n_steps):
            new_obs, rewards, new_dones, _ = env.step(actions[t])
            buffer.add(obs, actions[t], rewards, dones, tensors[t], log_prob)
            obs, dones = new_obs, new_dones
        buffer.compute_returns_and_advantage(tensors[-1], dones)
        state.update(obs=obs, dones=dones)

    def answer() -> Results:
        for _ in range(4):  # Four rollouts pass the first episodes, which all begin together.
            operation()
        ends = (buffer.episode_starts[1:].sum() + state["dones"].sum()) / actions.size
        return {"ends": ends, "reward": buffer.rewards.mean()}

    return operation, answer


ROWS = {"P12": p12}

if __name__ == "__main__":
    sys.exit(run(ROWS, "e2e_rollout", __doc__))
