"""Small runs of every algorithm with the same intervals, for tests of kills and of threads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from helpers.masked_envs import BY_INFO, BY_METHOD
from helpers.small_ppo import small_ppo

UPDATES = 24


def config(**env: Any) -> dict[str, Any]:
    """Return PPO's case: 24 updates, a checkpoint every second and an evaluation every fifth update."""
    env = {"id": "CartPole-v1", "n_envs": 8, **env}
    rollout = 16 * env["n_envs"]
    sizes = {"n_epochs": 2, "net_arch": [16], "batch_size": rollout // 2}
    algo = small_ppo(**sizes, anneal_lr=True, backend="torch")
    return {
        "algo": algo,
        "env": env,
        "seed": 3,
        "total_steps": UPDATES * rollout,
        "checkpoint": {"every": 2 * rollout},
        "eval": {"every": 5 * rollout, "episodes": 2},
        "log": {"every": rollout},
        "device": "cpu",
    }


def replay_case(**algo: Any) -> dict[str, Any]:
    """Return DQN's case: priorities, 24 trainings, the same intervals; the buffer overwrites rows."""
    learning = {"learning_starts": 100, "train_freq": 64, "gradient_steps": 6, "batch_size": 16}
    run_config = config(n_envs=4)
    return {
        **run_config,
        "algo": {
            "name": "dqn",
            **learning,
            "net_arch": [16],
            "n_step": 3,
            "backend": "torch",
            **algo,
        },
        "buffer": {"name": "prioritized", "capacity": 600},
    }


def actor_critic_case(name: str, **algo: Any) -> dict[str, Any]:
    """Return a case of SAC or TD3 with priorities and a normaliser; the noise depends on counts only."""
    run_config = replay_case(name=name, **algo)
    return {**run_config, "env": {**run_config["env"], "id": "Pendulum-v1", "normalize_obs": True}}


def several_trainings_case() -> dict[str, Any]:
    """Return a case of TD3 in Rust whose calls make up to eight trainings, from a log row to the next one."""
    run_config = actor_critic_case("td3", backend="native", train_freq=8, gradient_steps=1)
    return {
        **run_config,
        "env": {**run_config["env"], "normalize_obs": False},
        "buffer": {"name": "uniform", "capacity": 600},
        "algo": {**run_config["algo"], "n_step": 1},
    }


def masked_case() -> dict[str, Any]:
    """Return a case of DQN in an environment that raises at a forbidden action."""
    run_config = replay_case(double_dqn=True)
    doors = {
        "id": BY_METHOD,
        "action_mask": "method",
        "normalize_obs": True,
    }
    return {**run_config, "env": {**run_config["env"], **doors}}


def masked_rollouts() -> dict[str, Any]:
    """Return a case of PPO in the same environment, with masks in the infos."""
    doors = {"id": BY_INFO, "action_mask": "info"}
    run_config = config(n_envs=4)
    return {**run_config, "env": {**run_config["env"], **doors}}


def short_rollouts(backend: str = "torch", **env: Any) -> dict[str, Any]:
    """Return a case of A2C with the same intervals and an update every 16 steps."""
    algo = {"name": "a2c", "n_steps": 16, "net_arch": [16], "backend": backend}
    return {**config(**env), "algo": algo}


def native_case(run_config: dict[str, Any]) -> dict[str, Any]:
    """Return the same case with updates in Rust."""
    return {**run_config, "algo": {**run_config["algo"], "backend": "native"}}


def recurrent_case() -> dict[str, Any]:
    """Return a case of recurrent PPO: kills come within episodes, whose recurrent states only the run has."""
    run_config = config(n_envs=4, normalize_obs=True)
    shape = {"lstm_hidden_size": 8, "batch_size": 32, "n_epochs": 2, "net_arch": [16]}
    return {
        **run_config,
        "algo": {"name": "recurrent_ppo", "n_steps": 16, "anneal_lr": True, **shape},
    }


def bc_case() -> dict[str, Any]:
    """Return a case of BC: 24 ticks of 16 updates, and updates are its unit."""
    run_config = config(n_envs=1)
    data = Path(__file__).parents[1] / "golden" / "datasets" / "CartPole-v1"
    return {
        **run_config,
        "algo": {"name": "bc", "batch_size": 16, "net_arch": [16], "anneal_lr": True},
        "buffer": {"name": "offline", "path": str(data)},
    }


def text_case(name: str, **algo: Any) -> dict[str, Any]:
    """Return a case of a language model: 24 ticks of 4 prompts, and samples are its unit."""
    run_config = config(id="text/copy", n_envs=1)
    batch = 4
    every = {"checkpoint": 2 * batch, "eval": 5 * batch, "log": batch}
    rhythm = {key: {**run_config[key], "every": count} for key, count in every.items()}
    algo = {"name": name, "batch_size": batch, "learning_rate": 1e-3, "anneal_lr": True, **algo}
    return {**run_config, **rhythm, "algo": algo, "task": "copy", "total_steps": UPDATES * batch}


CASES = {
    "8 CartPoles": config(),
    "256 CartPoles": config(n_envs=256),
    "Pendulum, both normalisers": config(id="Pendulum-v1", normalize_obs=True, normalize_reward=True),
    "Gymnasium's CartPole": config(backend="gymnasium"),
    "A2C": short_rollouts(),
    "Recurrent PPO": recurrent_case(),
    "DQN, prioritized": replay_case(),
    "DQN, masked": masked_case(),
    "Rainbow": replay_case(name="rainbow", n_atoms=11, target_update_interval=200),
    "SAC": actor_critic_case("sac", target_update_interval=2),
    "SAC, gSDE": actor_critic_case("sac", use_sde=True, ent_coef="0.1"),
    "SAC, choices": replay_case(name="sac"),
    "TD3": actor_critic_case("td3"),
    "DDPG": actor_critic_case("ddpg"),
    "C51": replay_case(distribution="categorical", n_atoms=11, noisy=True),
    "QR-DQN": replay_case(distribution="quantile", n_quantiles=10),
    "PPO, masked": masked_rollouts(),
    "BC": bc_case(),
    "SFT": text_case("sft"),
    "GRPO": text_case("grpo", rewards=["close"], n_epochs=2, minibatches=2),
    "RLOO": text_case("rloo", rewards=["close"]),
    "DPO": text_case("dpo"),
    "OnlineDPO": text_case("online_dpo", rewards=["close"]),
    # Each iteration is one call, so a test cannot tell its steps apart.
    "Native PPO": native_case(config()),
    "Native A2C": short_rollouts("native"),
    "Native DQN, prioritized": native_case(replay_case()),
    "Native SAC": native_case(actor_critic_case("sac")),
    "Native TD3": native_case(actor_critic_case("td3")),
    "Native TD3, several trainings a call": several_trainings_case(),
    # The normaliser makes the run collect step by step.
    "Native PPO, normalised": native_case(config(normalize_obs=True)),
    "Native A2C, normalised": short_rollouts("native", normalize_obs=True),
}
IN_ONE_CALL = (
    "Native PPO",
    "Native A2C",
    "Native DQN, prioritized",
    "Native SAC",
    "Native TD3",
    "Native TD3, several trainings a call",
)
