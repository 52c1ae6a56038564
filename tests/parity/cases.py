"""The settings under which updates are compared, and their initial weights."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]

GOLDEN = Path(__file__).parent / "golden"
OBS, CHOICES, ACT = 5, 3, 2
HIDDEN = (16, 12)  # different widths, so that no transposed matrix fits
SB3_VERSION = "2.9.2"
UPDATES, BATCH = 20, 16
EPOCHS, MINIBATCHES = 2, 2  # of each PPO rollout

ACTOR_CRITIC = {
    "vf_coef": 0.5,
    "ent_coef": 0.01,
    "max_grad_norm": 1.5,
}  # this limit clips some of the steps
PPO = {**ACTOR_CRITIC, "learning_rate": 3e-3, "clip_eps": 0.2, "clip_vloss": False,
       "normalize_advantages": True, "batch_size": BATCH, "n_epochs": EPOCHS}  # fmt: skip
A2C = {**ACTOR_CRITIC, "learning_rate": 7e-4, "normalize_advantages": False,
       "use_rms_prop": True, "rms_prop_eps": 1e-5, "rms_prop_tf_like": False}  # fmt: skip
PQN = {"learning_rate": 3e-3, "max_grad_norm": 1.9, "batch_size": BATCH, "n_epochs": EPOCHS,
       "net_arch": HIDDEN}  # fmt: skip
REPLAY = {"learning_rate": 3e-3, "gamma": 0.97}
DQN = {**REPLAY, "max_grad_norm": 0.5, "target_update_interval": 20, "tau": 1.0, "loss": "huber",
       "double_dqn": False, "dueling": False}  # fmt: skip
SAC = {**REPLAY, "tau": 0.05, "target_entropy": -float(ACT), "use_sde": False}
TQC = {**SAC, "n_quantiles": 5, "top_quantiles_to_drop_per_net": 1}
TD3 = {**REPLAY, "tau": 0.05, "policy_delay": 2, "target_policy_noise": 0.2,
       "target_noise_clip": 0.3}  # fmt: skip
TRAIN_FREQ = 4  # environment steps between DQN's batches


@dataclass(frozen=True)
class Case:
    """One algorithm with one set of settings; `sb3`: Stable-Baselines3 supports the same settings."""

    algo: str
    settings: dict[str, Any]
    box: bool = False
    sb3: bool = True
    extras: tuple[str, ...] = field(default=())  # extras of a batch: "steps" > 1, "weights"
    clips: str | None = None  # prefix of the gradients that some updates clip, not all; None: all

    @property
    def trains(self) -> int:
        """How many batches a learner gets."""
        return UPDATES // self.updates

    @property
    def clipped_together(self) -> tuple[str, ...]:
        """Prefixes of tensor names; the gradients of each prefix have one norm, and the norm is limited."""
        if "max_grad_norm" not in self.settings:
            return ()
        apart = ("actor.", "critic.") if self.algo in ("sac", "tqc", "td3") else ("",)
        return apart if self.clips is None else (self.clips,)

    @property
    def updates(self) -> int:
        """Gradient steps per batch."""
        return EPOCHS * MINIBATCHES if self.algo in ("ppo", "pqn") else 1


CASES = {
    "ppo_discrete": Case("ppo", PPO),
    "ppo_box": Case("ppo", PPO, box=True),
    "ppo_value_clip": Case(
        "ppo",
        {**PPO, "clip_vloss": True, "normalize_advantages": False, "max_grad_norm": 3.0},
        box=True,
        sb3=False,
    ),
    "a2c_discrete": Case("a2c", A2C),
    "a2c_box": Case("a2c", {**A2C, "normalize_advantages": True, "max_grad_norm": 2.5}, box=True),
    "a2c_tf_like": Case("a2c", {**A2C, "rms_prop_tf_like": True, "learning_rate": 7e-3}),
    "a2c_adam": Case("a2c", {**A2C, "use_rms_prop": False}, sb3=False),
    "pqn": Case("pqn", PQN, sb3=False),
    "dqn": Case("dqn", DQN),
    "dqn_double": Case(
        "dqn",
        {**DQN, "double_dqn": True, "tau": 0.5, "loss": "mse", "max_grad_norm": 1.2},
        sb3=False,
    ),
    "dqn_parts": Case(
        "dqn",
        {**DQN, "double_dqn": True, "dueling": True},
        sb3=False,
        extras=("steps", "weights"),
    ),
    "sac": Case("sac", SAC, box=True),
    "sac_n_step": Case("sac", SAC, box=True, extras=("steps",)),
    "sac_gsde": Case("sac", {**SAC, "use_sde": True}, box=True),
    "sac_parts": Case(
        "sac",
        {**SAC, "max_grad_norm": 0.5},
        box=True,
        sb3=False,
        extras=("steps", "weights"),
    ),
    "tqc": Case("tqc", TQC, box=True, sb3=False),
    "tqc_parts": Case(
        "tqc",
        {**TQC, "top_quantiles_to_drop_per_net": 2, "max_grad_norm": 0.08},
        box=True,
        sb3=False,
        extras=("steps", "weights"),
        clips="critic.",
    ),
    "td3": Case("td3", TD3, box=True),
    "td3_parts": Case(
        "td3",
        {**TD3, "max_grad_norm": 1.1},
        box=True,
        sb3=False,
        extras=("steps", "weights"),
        clips="critic.",
    ),
    "td3_clipped": Case("td3", {**TD3, "max_grad_norm": 0.09}, box=True, sb3=False, clips="actor."),
}


def initial_weights(case: Case, rng: np.random.Generator) -> Arrays:
    """Draw the initial weights of each network of `case` that learns, by name, in float32."""
    out: Arrays = {}
    for name, sizes in networks(case).items():
        for i, (inputs, outputs) in enumerate(pairwise(sizes)):
            add_layer(out, f"{name}.{i}", inputs, outputs, rng)
    if case.algo == "pqn":  # gains around 1
        for i, width in enumerate(HIDDEN):
            out[f"q.norm.{i}.weight"] = rng.uniform(0.5, 1.5, width).astype(np.float32)
            out[f"q.norm.{i}.bias"] = rng.uniform(-0.5, 0.5, width).astype(np.float32)
    elif case.algo in ("sac", "tqc"):
        heads = {"mean": 0.0} if case.settings["use_sde"] else {"mean": 0.0, "log_std": -1.2}
        for head, centre in heads.items():  # far from the flat ends of tanh
            add_layer(out, f"actor.{head}", HIDDEN[-1], ACT, rng)
            out[f"actor.{head}.bias"] += np.float32(centre)
        if case.settings["use_sde"]:
            out["actor.log_std"] = rng.uniform(-3, -2, (HIDDEN[-1], ACT)).astype(np.float32)
            out["actor.mean.bias"][-1] += 1.6  # so that the mean is clipped in some rows
        out["log_alpha"] = np.float32([-1.5])
    elif case.box and case.algo != "td3":
        out["log_std"] = np.float32([-0.4, 0.2])
    return out


def networks(case: Case) -> dict[str, tuple[int, ...]]:
    """Return the widths of the networks by name; a hidden layer of `x` is `x.0`."""
    head = ACT if case.box else CHOICES
    if case.algo in ("ppo", "a2c"):
        return {"actor": (OBS, *HIDDEN, head), "critic": (OBS, *HIDDEN, 1)}
    if case.algo == "dqn" and case.settings["dueling"]:
        stream = HIDDEN
        return {
            "q.shared": (OBS, HIDDEN[0]),
            "q.value": (*stream, 1),
            "q.advantage": (*stream, CHOICES),
        }
    if case.algo in ("dqn", "pqn"):
        return {"q": (OBS, *HIDDEN, CHOICES)}
    actor = (OBS, *HIDDEN, ACT) if case.algo == "td3" else (OBS, *HIDDEN)
    outputs = case.settings.get("n_quantiles", 1)
    return {"actor": actor, **{f"critic.{k}": (OBS + ACT, *HIDDEN, outputs) for k in (0, 1)}}


def add_layer(out: Arrays, name: str, inputs: int, outputs: int, rng: np.random.Generator) -> None:
    bound = 1.5 / np.sqrt(inputs)
    for part, shape in (("weight", (outputs, inputs)), ("bias", (outputs,))):
        out[f"{name}.{part}"] = rng.uniform(-bound, bound, shape).astype(np.float32)


def made_by_sb3(file: dict[str, Arrays]) -> Arrays:
    """Return SB3's trace, named as in `traces.py`; it is empty if SB3 does not support the settings."""
    parts = ("loss", "grad", "clipped", "weights", "final")
    return {f"{p}/{name}": array for p in parts for name, array in file.get(p, {}).items()}


def load(name: str) -> dict[str, Arrays]:
    """Read the golden file of a case, by the first part of its arrays' names (see `make_sb3.py`)."""
    out: dict[str, Arrays] = {}
    with np.load(GOLDEN / f"{name}.npz") as file:
        for key in file.files:
            part, _, rest = key.partition("/")
            out.setdefault(part, {})[rest] = file[key]
    return out
