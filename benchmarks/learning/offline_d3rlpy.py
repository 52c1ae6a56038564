"""Train d3rlpy 2.8.1 once for offline_control.py: learn from a file of rows, play, print the returns.

The script runs in an environment that has d3rlpy but not rlox. The settings are rlox's defaults where d3rlpy
has them: widths, batches of 256, step sizes, standardised observations of TD3+BC and DT, rewards of IQL
scaled by returns, actions in units of their bounds.
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

EPISODES, FIRST_SEED = 50, 100_000
CONTEXT_LENGTH, WARMUP, LEARNING_RATE = 10, 1_000, 1e-3  # of the Decision Transformer


def make_config(algorithm: str, width: int, updates: int, scaler: Any) -> Any:
    """Return d3rlpy's configuration of the algorithm."""
    algos: Any = d3rlpy.algos
    encoder = VectorEncoderFactory([width, width])
    common_options = {
        "actor_encoder_factory": encoder,
        "critic_encoder_factory": encoder,
        "action_scaler": scaler,
        "batch_size": 256,
    }
    if algorithm == "BC":
        return algos.BCConfig(
            encoder_factory=encoder, batch_size=256, learning_rate=3e-4, action_scaler=scaler
        )
    if algorithm == "TD3+BC":
        return algos.TD3PlusBCConfig(**common_options, observation_scaler=StandardObservationScaler())
    if algorithm == "IQL":
        actor_optimizer = AdamFactory(lr_scheduler_factory=CosineAnnealingLRFactory(T_max=updates))
        return algos.IQLConfig(
            **common_options, value_encoder_factory=encoder, actor_optim_factory=actor_optimizer,
            reward_scaler=ReturnBasedRewardScaler(multiplier=1000.0),
        )  # fmt: skip
    if algorithm == "CQL":
        return algos.CQLConfig(**common_options, alpha_learning_rate=0.0)
    warmup_schedule = WarmupSchedulerFactory(warmup_steps=WARMUP)
    adam = AdamWFactory(clip_grad_norm=0.25, weight_decay=1e-4, lr_scheduler_factory=warmup_schedule)
    return algos.DecisionTransformerConfig(
        encoder_factory=VectorEncoderFactory([width]), batch_size=64, context_size=CONTEXT_LENGTH,
        learning_rate=LEARNING_RATE, optim_factory=adam,
        action_scaler=scaler, observation_scaler=StandardObservationScaler(),
        reward_scaler=MultiplyRewardScaler(1e-3),
    )  # fmt: skip


def play_episodes(env: gym.Env[Any, Any], act: Any) -> list[float]:
    """Play the common evaluation episodes and return their returns.

    `act(obs, reward)` chooses an action; an observation of None begins an episode.
    """
    returns = []
    for number in range(EPISODES):
        obs, _ = env.reset(seed=FIRST_SEED + number)
        total, reward, is_over = 0.0, 0.0, False
        act(None, 0.0)
        while not is_over:
            obs, reward, terminated, truncated, _ = env.step(act(obs, reward))
            total, is_over = total + float(reward), terminated or truncated
        returns.append(total)
    return returns


def main() -> None:
    """Learn, play, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", type=Path)
    parser.add_argument("algorithm")
    parser.add_argument("--env", required=True)
    for name in ("--updates", "--seed", "--width"):
        parser.add_argument(name, type=int, required=True)
    args = parser.parse_args()
    torch.set_num_threads(1)
    d3rlpy.seed(args.seed)
    rows = np.load(args.rows)
    dataset = d3rlpy.dataset.MDPDataset(
        *(rows[name] for name in ("observations", "actions", "rewards", "terminals", "timeouts"))
    )
    env = gym.make(args.env)
    scaler = MinMaxActionScaler(minimum=env.action_space.low, maximum=env.action_space.high)
    algo = make_config(args.algorithm, args.width, args.updates, scaler).create(device=False)
    quiet = d3rlpy.logging.NoopAdapterFactory()
    steps = {"n_steps": args.updates, "n_steps_per_epoch": args.updates, "logger_adapter": quiet}
    algo.fit(dataset, show_progress=False, **steps)
    if args.algorithm == "DT":
        best = max(episode.compute_return() for episode in dataset.episodes)
        actor = algo.as_stateful_wrapper(target_return=best)

        def act(obs: Any, reward: float) -> Any:
            return actor.reset() if obs is None else actor.predict(obs, reward)
    else:

        def act(obs: Any, reward: float) -> Any:
            return None if obs is None else algo.predict(obs[None])[0]

    packages = {module.__name__: module.__version__ for module in (d3rlpy, torch, np, gym)}
    print(json.dumps({"returns": play_episodes(env, act), "packages": packages}))


if __name__ == "__main__":
    main()
