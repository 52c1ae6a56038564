"""Makes small runs of every algorithm and engine: their first updates, and updates after a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

import rlox.algorithms
from golden.files import HERE, Arrays

UPDATES = 3
SAVED_AFTER = 2  # ticks
SMALL = {"n_envs": 3, "seed": 11, "net_arch": [8, 8]}
ROLLOUT = {"n_steps": 32}
EPOCHS = {**ROLLOUT, "batch_size": 32, "n_epochs": 2}
EPISODES = {"CartPole-v1": 12, "Pendulum-v1": 1}
"""Number of episodes of an untrained policy in the dataset of each environment."""
# Paths from the root of the checkout, as in the saved configurations.
CHOICES = {"env_id": "CartPole-v1", "dataset": "tests/golden/datasets/CartPole-v1"}
NUMBERS = {"env_id": "Pendulum-v1", "dataset": "tests/golden/datasets/Pendulum-v1"}
OFFLINE = {"batch_size": 8, "n_envs": 1}
REPLAY = {"learning_starts": 24, "train_freq": 24, "gradient_steps": 4, "batch_size": 16,
          "buffer_size": 60, "target_update_interval": 40, "n_envs": 2}  # fmt: skip
ACTING = {k: v for k, v in REPLAY.items() if k != "target_update_interval"}
PARTS = {"double_dqn": True, "dueling": True, "n_step": 3, "prioritized": True}
STEPS = 3 * 32
TEXT = {"model": "tests/golden/runs/llama", "task": "copy", "batch_size": 4, "learning_rate": 1e-2}
ANNEALED = {"anneal_lr": True, "anneal_clip": True, "target_kl": 0.003}
SEEN = {"normalize_obs": True, "normalize_rule": "sb3"}
NORMALISED = {**SEEN, "normalize_reward": True}
GRU = {"rnn": "gru", "lstm_hidden_size": 6, "n_lstm_layers": 2, "shared_lstm": True,
       "enable_critic_lstm": False}  # fmt: skip
ALPHA = {"n_random_actions": 2, "auto_alpha": True, "cql_target_value": 1.0}
SEQUENCES = {"context_length": 4, "hidden": 8, "n_layers": 1, "max_timesteps": 100}
CARTPOLE, PENDULUM = {"env_id": "CartPole-v1"}, {"env_id": "Pendulum-v1"}
NATIVE = {"backend": "native"}

RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "discrete": ("PPO", {**CARTPOLE, **EPOCHS}),
    "gymnasium": ("PPO", {**CARTPOLE, "env_backend": "gymnasium", **EPOCHS}),
    "annealed": ("PPO", {**CARTPOLE, **ANNEALED, **EPOCHS}),
    "box": ("PPO", {**PENDULUM, "clip_vloss": True, "normalize_advantages": False, **EPOCHS}),
    "gsde": ("PPO", {**PENDULUM, "use_sde": True, "sde_sample_freq": 4, **EPOCHS}),
    "normalised": ("PPO", {**PENDULUM, **NORMALISED, **EPOCHS}),
    "recurrent": (
        "RecurrentPPO",
        {**CARTPOLE, "lstm_hidden_size": 6, **SEEN, **EPOCHS},
    ),
    "recurrent_box": ("RecurrentPPO", {**PENDULUM, **GRU, **EPOCHS}),
    "hybrid": ("HybridPPO", {**CARTPOLE, **EPOCHS}),
    "hybrid_box": ("HybridPPO", {**PENDULUM, **SEEN, **EPOCHS}),
    "a2c": ("A2C", {**CARTPOLE, "anneal_lr": True, "ent_coef": 0.01, **ROLLOUT}),
    "a2c_box": ("A2C", {**PENDULUM, "rms_prop_tf_like": True, **ROLLOUT}),
    "pqn": ("PQN", {**CARTPOLE, **SEEN, **EPOCHS}),
    "bc": ("BC", {**CHOICES, **OFFLINE}),
    "td3_bc": ("TD3BC", {**NUMBERS, **OFFLINE}),
    "iql": ("IQL", {**NUMBERS, "anneal_lr": True, **OFFLINE}),
    "cql": ("CQL", {**NUMBERS, **ALPHA, **OFFLINE}),
    "cql_choices": ("CQL", {**CHOICES, **OFFLINE}),
    "decision_transformer": ("DecisionTransformer", {**CHOICES, **SEQUENCES, **OFFLINE}),
    "dqn": ("DQN", {**CARTPOLE, "anneal_lr": True, **SEEN, **REPLAY}),
    "dqn_parts": ("DQN", {"env_id": "Acrobot-v1", **REPLAY, **PARTS, "gradient_steps": 1}),
    "rainbow": ("Rainbow", {**CARTPOLE, "n_atoms": 11, "v_min": 0.0, **REPLAY}),
    "quantile": ("DQN", {**CARTPOLE, "distribution": "quantile", "n_quantiles": 5, **REPLAY}),
    "sac": ("SAC", {**PENDULUM, **SEEN, **ACTING}),
    "sac_gsde": ("SAC", {**PENDULUM, "use_sde": True, "ent_coef": 0.1, **ACTING}),
    "sac_discrete": ("SAC", {**CARTPOLE, **ACTING}),
    "tqc": ("TQC", {**PENDULUM, "n_quantiles": 5, **ACTING}),
    "td3": ("TD3", {**PENDULUM, "prioritized": True, "n_step": 2, **ACTING}),
    "ddpg": ("DDPG", {**PENDULUM, **ACTING}),
    "sft": ("SFT", {"anneal_lr": True, **TEXT}),
    "grpo": ("GRPO", {"rewards": ("close",), "n_epochs": 2, **TEXT}),
    "rloo": ("RLOO", {"rewards": ("close",), **TEXT}),
    "dpo": ("DPO", TEXT),
    "online_dpo": ("OnlineDPO", {"rewards": ("close",), **TEXT}),
    "native_ppo": ("PPO", {**CARTPOLE, **ANNEALED, **EPOCHS, **NATIVE}),
    "native_ppo_normalised": ("PPO", {**PENDULUM, **NORMALISED, **EPOCHS, **NATIVE}),
    "native_a2c": ("A2C", {**PENDULUM, **ROLLOUT, **NATIVE}),
    "native_dqn": ("DQN", {**CARTPOLE, **REPLAY, **PARTS, **NATIVE}),
    "native_sac": ("SAC", {**PENDULUM, **ACTING, **NATIVE}),
    "native_td3": ("TD3", {**PENDULUM, "prioritized": True, "n_step": 2, **ACTING, **NATIVE}),
    "native_ddpg": ("DDPG", {**PENDULUM, **ACTING, **NATIVE}),
    "native_bc": ("BC", {**CHOICES, **OFFLINE, **NATIVE}),
    "native_td3_bc": ("TD3BC", {**NUMBERS, **OFFLINE, **NATIVE}),
    "native_iql": ("IQL", {**NUMBERS, **OFFLINE, **NATIVE}),
}
"""The class of each run, by its name in `rlox.algorithms`, and its arguments in addition to `SMALL`."""
ABSENT = {"DecisionTransformer": ("net_arch",), "HybridPPO": ("backend",)}
"""Arguments that a class does not accept."""


def start(name: str) -> Any:
    """Return the run of that name before its first step, with the torch backend unless it sets another."""
    facade, options = RUNS[name]
    given = {**SMALL, "backend": "torch", **options}
    for absent in ABSENT.get(facade, ("n_envs", "net_arch") if "task" in options else ()):
        del given[absent]
    return getattr(rlox.algorithms, facade)(**given)


def advance(run: Any, updates: int) -> Arrays:
    """Return weights and metrics after one more tick, and moments after the last, prefixed by its number."""
    # Schedules use the length of the whole run.
    run.fit(UPDATES * STEPS, hooks=(lambda clock, *_: run.stop("one update"),))
    learned = run.learner.state()
    found = {f"weights/{key}": value for key, value in learned["weights"].items()}
    optimizer = learned["optimizer"]
    if updates == UPDATES:
        for name in ("", "adam", "actor", "critic"):
            part = optimizer.get(name, {} if name else optimizer)
            prefix = f"{name}/" if name in ("actor", "critic") else ""
            for key, moments in part.get("moments", {}).items():
                found |= {f"{prefix}{which}/{key}": value for which, value in moments.items()}
    for name in ("target", "target_actor", "target_critic", "reference"):
        found |= {f"{name}/{key}": value for key, value in optimizer.get(name, {}).items()}
    found |= {f"metrics/{key}": np.float64(value) for key, value in run.summary().items()}
    return {f"{updates}/{key}": np.array(value) for key, value in found.items()}


def trace(run: Any, first: int = 0) -> Arrays:
    """Return the arrays of a run after each tick up to the last."""
    found: Arrays = {}
    for done in range(first, UPDATES):
        found |= advance(run, done + 1)
    run.close()
    return found


def checkpoint(name: str, place: Path) -> Path:
    """Return the golden checkpoint of a run, of any version; if there is none, make one in `place`."""
    folder = HERE / "runs" / name
    if not folder.exists():
        folder = place / "runs" / name
        run = start(name)
        for done in range(SAVED_AFTER):
            advance(run, done + 1)
        run.save(folder)
        run.close()
        for lock in folder.rglob("lock"):
            lock.unlink()
    return folder


def make_trace(name: str, place: Path) -> dict[str, Arrays]:
    """Make the arrays of the run from its start."""
    return {f"runs/{name}": trace(start(name))}


def make_continuation(name: str, place: Path) -> dict[str, Arrays]:
    """Make the arrays of the run from its golden checkpoint, which is opened read-only."""
    facade = getattr(rlox.algorithms, RUNS[name][0])
    run = facade.from_checkpoint(checkpoint(name, place))
    return {f"runs/{name}.after": trace(run, SAVED_AFTER)}


def make_dataset(env: str, place: Path) -> dict[str, Arrays]:
    """Make the dataset of an environment unless it exists: a new one would change all runs on it."""
    from rlox.runs.record import (
        record,
        write_dataset,
    )  # imported here, because old commits lack it and make other cases without it

    if not (HERE / "datasets" / env).exists():
        policy = rlox.algorithms.PPO(env, seed=1)
        dataset = record(policy, EPISODES[env], seed=1, deterministic=False)
        write_dataset(dataset, place / "datasets" / env)
    return {}


def make_llama(place: Path) -> dict[str, Arrays]:
    """Make a model of one layer, 8 wide, unless it exists."""
    from rlox.llm import Llama, LlamaSize, save_llama

    if not (HERE / "runs" / "llama").exists():
        with torch.random.fork_rng():
            torch.manual_seed(0)
            save_llama(Llama(LlamaSize(11, 8, 12, 1, 2, 2)), place / "runs" / "llama")
    return {}
