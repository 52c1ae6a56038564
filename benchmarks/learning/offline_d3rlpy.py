"""One run of d3rlpy 2.8.1 for offline_control.py: learns from a file of rows, plays, prints the returns.

It runs in an environment of its own, which has d3rlpy and not rlox. Settings are those of rlox's defaults
where d3rlpy names them: widths, batches of 256, step sizes, standardised observations of TD3+BC and DT,
rewards of IQL scaled by returns, actions in units of their bounds.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import d3rlpy
import gymnasium as gym
import numpy as np
import torch
from d3rlpy.models import VectorEncoderFactory
from d3rlpy.optimizers import (
    AdamFactory,
    AdamWFactory,
    CosineAnnealingLRFactory,
    WarmupSchedulerFactory,
)
from d3rlpy.preprocessing import (
    MinMaxActionScaler,
    MultiplyRewardScaler,
    ReturnBasedRewardScaler,
    StandardObservationScaler,
)

EPISODES, FIRST = 50, 100_000
CONTEXT, WARMUP, RATE = 10, 1_000, 1e-3  # of the Decision Transformer


def configured(algorithm: str, width: int, updates: int, scaler: Any) -> Any:
    """d3rlpy's algorithm."""
    of: Any = d3rlpy.algos
    wide = VectorEncoderFactory([width, width])
    both = {
        "actor_encoder_factory": wide,
        "critic_encoder_factory": wide,
        "action_scaler": scaler,
        "batch_size": 256,
    }
    if algorithm == "BC":
        return of.BCConfig(
            encoder_factory=wide, batch_size=256, learning_rate=3e-4, action_scaler=scaler
        )
    if algorithm == "TD3+BC":
        return of.TD3PlusBCConfig(**both, observation_scaler=StandardObservationScaler())
    if algorithm == "IQL":
        falling = AdamFactory(lr_scheduler_factory=CosineAnnealingLRFactory(T_max=updates))
        return of.IQLConfig(
            **both, value_encoder_factory=wide, actor_optim_factory=falling,
            reward_scaler=ReturnBasedRewardScaler(multiplier=1000.0),
        )  # fmt: skip
    if algorithm == "CQL":
        return of.CQLConfig(**both, alpha_learning_rate=0.0)
    rising = WarmupSchedulerFactory(warmup_steps=WARMUP)
    adam = AdamWFactory(clip_grad_norm=0.25, weight_decay=1e-4, lr_scheduler_factory=rising)
    return of.DecisionTransformerConfig(
        encoder_factory=VectorEncoderFactory([width]), batch_size=64, context_size=CONTEXT,
        learning_rate=RATE, optim_factory=adam,
        action_scaler=scaler, observation_scaler=StandardObservationScaler(),
        reward_scaler=MultiplyRewardScaler(1e-3),
    )  # fmt: skip


def played(env: gym.Env[Any, Any], act: Any) -> list[float]:
    """Returns of the episodes that all are judged by; `act(obs, reward)` chooses, None begins an episode."""
    found = []
    for number in range(EPISODES):
        obs, _ = env.reset(seed=FIRST + number)
        total, reward, over = 0.0, 0.0, False
        act(None, 0.0)
        while not over:
            obs, reward, terminated, truncated, _ = env.step(act(obs, reward))
            total, over = total + float(reward), terminated or truncated
        found.append(total)
    return found


def main() -> None:
    """Learn, play, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", type=Path)
    parser.add_argument("algorithm")
    parser.add_argument("--env", required=True)
    for name in ("--updates", "--seed", "--width"):
        parser.add_argument(name, type=int, required=True)
    given = parser.parse_args()
    torch.set_num_threads(1)
    d3rlpy.seed(given.seed)
    rows = np.load(given.rows)
    dataset = d3rlpy.dataset.MDPDataset(
        *(rows[name] for name in ("observations", "actions", "rewards", "terminals", "timeouts"))
    )
    env = gym.make(given.env)
    scaler = MinMaxActionScaler(minimum=env.action_space.low, maximum=env.action_space.high)
    algo = configured(given.algorithm, given.width, given.updates, scaler).create(device=False)
    quiet = d3rlpy.logging.NoopAdapterFactory()
    steps = {"n_steps": given.updates, "n_steps_per_epoch": given.updates, "logger_adapter": quiet}
    algo.fit(dataset, show_progress=False, **steps)
    if given.algorithm == "DT":
        best = max(episode.compute_return() for episode in dataset.episodes)
        actor = algo.as_stateful_wrapper(target_return=best)

        def act(obs: Any, reward: float) -> Any:
            return actor.reset() if obs is None else actor.predict(obs, reward)
    else:

        def act(obs: Any, reward: float) -> Any:
            return None if obs is None else algo.predict(obs[None])[0]

    packages = {of.__name__: of.__version__ for of in (d3rlpy, torch, np, gym)}
    print(json.dumps({"returns": played(env, act), "packages": packages}))


if __name__ == "__main__":
    main()
