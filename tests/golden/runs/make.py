"""Writes the files beside it: what the first updates of small runs left, and what a checkpoint goes on to.

`python tests/golden/runs/make.py [CASE ...]` with `tests` on the path. Made anew only where the arithmetic
of training is meant to change, with the reason in the commit. A checkpoint that is there stays, of the
version that wrote it: today's has to read it.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rlox.algorithms import (
    A2C,
    BC,
    CQL,
    DDPG,
    DPO,
    DQN,
    GRPO,
    IQL,
    PPO,
    RLOO,
    SAC,
    SFT,
    TD3,
    TD3BC,
    DecisionTransformer,
    HybridPPO,
    OnlineDPO,
    Rainbow,
    RecurrentPPO,
)
from rlox.runs.algorithm import Algorithm
from rlox_cli.main import main as rlox
from rlox_cli.provenance import cpu_model

HERE = Path(__file__).parent
UPDATES = 3
SAVED_AFTER = 2  # ticks
SMALL = {"n_envs": 3, "seed": 11, "net_arch": [8, 8]}
ROLLOUT = {"n_steps": 32}
EPOCHS = {**ROLLOUT, "batch_size": 32, "n_epochs": 2}
DATA = "tests/golden/datasets/CartPole-v1"  # from the root, as it stands in the saved configuration
SWINGS = "tests/golden/datasets/Pendulum-v1"
OFFLINE = {"batch_size": 8, "n_envs": 1}
REPLAY = {"learning_starts": 24, "train_freq": 24, "gradient_steps": 4, "batch_size": 16,
          "buffer_size": 60, "target_update_interval": 40, "n_envs": 2}  # fmt: skip
ACTING = {k: v for k, v in REPLAY.items() if k != "target_update_interval"}
STEPS = 3 * 32
# A model of one layer, 8 wide; made by hand: save_llama(Llama(LlamaSize(11, 8, 12, 1, 2, 2)), ...)
TEXT = {"model": "tests/golden/runs/llama", "task": "copy", "batch_size": 4, "learning_rate": 1e-2}

CASES: dict[str, tuple[type[Algorithm], dict[str, Any]]] = {
    "discrete": (PPO, {"env_id": "CartPole-v1", **EPOCHS}),
    "gymnasium": (PPO, {"env_id": "CartPole-v1", "env_backend": "gymnasium", **EPOCHS}),
    "annealed": (
        PPO,
        {
            "env_id": "CartPole-v1",
            "anneal_lr": True,
            "anneal_clip": True,
            "target_kl": 0.003,
            **EPOCHS,
        },
    ),
    "box": (
        PPO,
        {"env_id": "Pendulum-v1", "clip_vloss": True, "normalize_advantages": False, **EPOCHS},
    ),
    "gsde": (PPO, {"env_id": "Pendulum-v1", "use_sde": True, "sde_sample_freq": 4, **EPOCHS}),
    "normalised": (
        PPO,
        {"env_id": "Pendulum-v1", "normalize_obs": True, "normalize_reward": True, **EPOCHS},
    ),
    "recurrent": (
        RecurrentPPO,
        {"env_id": "CartPole-v1", "lstm_hidden_size": 6, "normalize_obs": True, **EPOCHS},
    ),
    "recurrent_box": (
        RecurrentPPO,
        {
            "env_id": "Pendulum-v1",
            "rnn": "gru",
            "lstm_hidden_size": 6,
            "n_lstm_layers": 2,
            "shared_lstm": True,
            "enable_critic_lstm": False,
            **EPOCHS,
        },
    ),
    "hybrid": (HybridPPO, {"env_id": "CartPole-v1", **EPOCHS}),
    "hybrid_box": (HybridPPO, {"env_id": "Pendulum-v1", "normalize_obs": True, **EPOCHS}),
    "a2c": (A2C, {"env_id": "CartPole-v1", "anneal_lr": True, "ent_coef": 0.01, **ROLLOUT}),
    "a2c_box": (A2C, {"env_id": "Pendulum-v1", "rms_prop_tf_like": True, **ROLLOUT}),
    "bc": (BC, {"env_id": "CartPole-v1", "dataset": DATA, **OFFLINE}),
    "td3_bc": (TD3BC, {"env_id": "Pendulum-v1", "dataset": SWINGS, **OFFLINE}),
    "iql": (IQL, {"env_id": "Pendulum-v1", "dataset": SWINGS, "anneal_lr": True, **OFFLINE}),
    "cql": (
        CQL,
        {
            "env_id": "Pendulum-v1",
            "dataset": SWINGS,
            "n_random_actions": 2,
            "auto_alpha": True,
            "cql_target_value": 1.0,
            **OFFLINE,
        },
    ),
    "cql_choices": (CQL, {"env_id": "CartPole-v1", "dataset": DATA, **OFFLINE}),
    "decision_transformer": (
        DecisionTransformer,
        {
            "env_id": "CartPole-v1",
            "dataset": DATA,
            "context_length": 4,
            "hidden": 8,
            "n_layers": 1,
            "max_timesteps": 100,
            **OFFLINE,
        },
    ),
    "dqn": (DQN, {"env_id": "CartPole-v1", "anneal_lr": True, "normalize_obs": True, **REPLAY}),
    "dqn_parts": (
        DQN,
        {
            "env_id": "Acrobot-v1",
            "double_dqn": True,
            "dueling": True,
            "n_step": 3,
            "prioritized": True,
            "gradient_steps": 1,
            **{k: v for k, v in REPLAY.items() if k != "gradient_steps"},
        },
    ),
    "rainbow": (Rainbow, {"env_id": "CartPole-v1", "n_atoms": 11, "v_min": 0.0, **REPLAY}),
    "quantile": (
        DQN,
        {"env_id": "CartPole-v1", "distribution": "quantile", "n_quantiles": 5, **REPLAY},
    ),
    "sac": (SAC, {"env_id": "Pendulum-v1", "normalize_obs": True, **ACTING}),
    "sac_gsde": (SAC, {"env_id": "Pendulum-v1", "use_sde": True, "ent_coef": 0.1, **ACTING}),
    "sac_discrete": (SAC, {"env_id": "CartPole-v1", **ACTING}),
    "td3": (TD3, {"env_id": "Pendulum-v1", "prioritized": True, "n_step": 2, **ACTING}),
    "ddpg": (DDPG, {"env_id": "Pendulum-v1", **ACTING}),
    "sft": (SFT, {"anneal_lr": True, **TEXT}),
    "grpo": (GRPO, {"rewards": ("close",), "n_epochs": 2, **TEXT}),
    "rloo": (RLOO, {"rewards": ("close",), **TEXT}),
    "dpo": (DPO, TEXT),
    "online_dpo": (OnlineDPO, {"rewards": ("close",), **TEXT}),
}
ABSENT: dict[Any, tuple[str, ...]] = {DecisionTransformer: ("net_arch",)}
Arrays = dict[str, NDArray[Any]]


def made(name: str) -> Any:
    """The run of that name at its start."""
    facade: Any
    facade, options = CASES[name]
    engine = {} if facade is HybridPPO else {"backend": "torch"}
    given = {**SMALL, **engine, **options}
    for absent in ABSENT.get(facade, ("n_envs", "net_arch") if "task" in options else ()):
        del given[absent]
    return facade(**given)


def advance(run: Any, updates: int) -> Arrays:
    """Weights and numbers after one more tick (moments after the last), named by the ticks so far."""
    # The horizon of the schedules is the whole run's.
    run.fit(UPDATES * STEPS, hooks=(lambda clock, *_: run.stop("one update"),))
    learned = run.learner.state()
    found = {f"weights/{key}": value.numpy() for key, value in learned["weights"].items()}
    optimizer = learned["optimizer"]
    if updates == UPDATES:
        for name in ("", "adam", "actor", "critic"):
            for key, moments in (
                optimizer.get(name, {} if name else optimizer).get("moments", {}).items()
            ):
                at = f"{name}/" if name in ("actor", "critic") else ""
                found |= {f"{at}{part}/{key}": tensor.numpy() for part, tensor in moments.items()}
    for name in ("target", "target_actor", "target_critic", "reference"):
        found |= {f"{name}/{key}": value.numpy() for key, value in optimizer.get(name, {}).items()}
    found |= {f"metrics/{key}": np.float64(value) for key, value in run.summary().items()}
    return {f"{updates}/{key}": np.array(value) for key, value in found.items()}


def trace(run: Any, first: int = 0) -> Arrays:
    """What the run leaves after each tick up to the last."""
    found: Arrays = {}
    for done in range(first, UPDATES):
        found |= advance(run, done + 1)
    return found


def machine() -> Arrays:
    """What results may depend on in their last bits."""
    cpu = cpu_model()
    return {"machine": np.array([cpu, torch.__version__, np.__version__])}


def continued() -> None:
    """The weights at 512 steps of the run folder, of 256 and of an earlier version."""
    with TemporaryDirectory() as place:
        run = shutil.copytree(HERE / "folder", Path(place) / "run", symlinks=True)
        assert rlox(["train", f"resume={run}", "total_steps=512"]) == 0
        weights = run / "checkpoints" / "last" / "weights.safetensors"
        shutil.copy(weights, HERE / "folder.after.safetensors")


def main(names: list[str]) -> None:
    if not names:
        continued()
    for name in names or CASES:
        run = made(name)
        found = trace(run)
        run.close()
        np.savez_compressed(HERE / f"{name}.npz", **found, **machine())
        if not (HERE / name).exists():
            run = made(name)
            for done in range(SAVED_AFTER):
                advance(run, done + 1)
            run.save(HERE / name)
            run.close()
        run = CASES[name][0].from_checkpoint(HERE / name)
        np.savez_compressed(HERE / f"{name}.after.npz", **trace(run, SAVED_AFTER), **machine())
        run.close()


if __name__ == "__main__":
    main(sys.argv[1:])
