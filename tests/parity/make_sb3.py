"""Writes `golden/CASE.npz`: initial weights, batches, and the results of Stable-Baselines3.

`python tests/parity/make_sb3.py [CASE ...]` with `tests` on the path and Stable-Baselines3 installed. Its
own `train()` runs on a buffer with the given rows; wrappers of `backward`, `clip_grad_norm_` and the
optimizers' steps record their arguments. Arrays of a file, besides those of `traces.py`:

| name | of |
|---|---|
| `meta/made_by` | the library and its version; empty for cases whose settings it does not support |
| `init/TENSOR` | weights before the first update; targets start as copies |
| `batch/NAME` | `[trains, rows, ...]`, the input of each `train` call, including the noise |
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import gymnasium as gym
import numpy as np
import stable_baselines3 as sb3
import torch
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.sb2_compat.rmsprop_tf_like import RMSpropTFLike

from parity.batches import draw, each
from parity.cases import (
    ACT,
    BATCH,
    CASES,
    CHOICES,
    GOLDEN,
    HIDDEN,
    OBS,
    SB3_VERSION,
    TRAIN_FREQ,
    Arrays,
    Case,
    initial_weights,
)
from parity.sb3_names import LOSSES, begins_as, ours_of
from parity.traces import Row, trace

CLASSES = {"ppo": sb3.PPO, "a2c": sb3.A2C, "dqn": sb3.DQN, "sac": sb3.SAC, "td3": sb3.TD3}


class Spaces(gym.Env[Any, Any]):
    """An environment with spaces that is never stepped."""

    def __init__(self, box: bool) -> None:
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (OBS,), np.float32)
        self.action_space = gym.spaces.Box(-1, 1, (ACT,), np.float32) if box else gym.spaces.Discrete(CHOICES)


class InOrder(ReplayBuffer):
    """Returns its rows in stored order; `discounts` `[rows, 1]` are SB3's own for m-step returns."""

    discounts: torch.Tensor | None = None

    def sample(self, batch_size: int, env: Any = None) -> Any:
        samples = self._get_samples(np.arange(batch_size), env)
        return samples._replace(discounts=self.discounts)


def made(case: Case, init: Arrays) -> Any:
    """Make SB3's algorithm with the settings of `case` and the given weights."""
    model = CLASSES[case.algo]("MlpPolicy", Spaces(case.box), device="cpu", seed=0, **arguments(case))
    model.set_logger(Logger(folder=None, output_formats=[]))
    names = {theirs: begins_as(ours_of(case, theirs), init) for theirs in model.policy.state_dict()}
    model.policy.load_state_dict({n: torch.from_numpy(init[ours]) for n, ours in names.items()})
    if case.algo == "sac":
        with torch.no_grad():
            model.log_ent_coef.copy_(torch.from_numpy(init["log_alpha"]))
    return model


def arguments(case: Case) -> dict[str, Any]:
    """Return the settings by SB3's names."""
    s = case.settings
    policy: dict[str, Any] = {"net_arch": list(HIDDEN)}
    out: dict[str, Any] = {"learning_rate": s["learning_rate"], "policy_kwargs": policy}
    if case.algo in ("ppo", "a2c"):
        out |= {name: s[name] for name in ("vf_coef", "ent_coef", "max_grad_norm")}
        out["normalize_advantage"] = s["normalize_advantages"]
    if case.algo == "ppo":
        return out | {
            "n_steps": 2 * BATCH,
            "batch_size": BATCH,
            "n_epochs": s["n_epochs"],
            "clip_range": s["clip_eps"],
        }
    if case.algo == "a2c":
        if s["rms_prop_tf_like"]:
            policy["optimizer_class"] = RMSpropTFLike
            policy["optimizer_kwargs"] = {"alpha": 0.99, "eps": s["rms_prop_eps"]}
        return out | {"n_steps": BATCH, "rms_prop_eps": s["rms_prop_eps"]}
    out |= {"gamma": s["gamma"], "tau": s["tau"], "batch_size": BATCH, "buffer_size": BATCH}
    out["replay_buffer_class"] = InOrder
    more = {
        "dqn": ("max_grad_norm", "target_update_interval"),
        "sac": ("target_entropy", "use_sde"),
        "td3": ("policy_delay", "target_policy_noise", "target_noise_clip"),
    }
    return out | {name: s[name] for name in more[case.algo]}


class Recorder:
    """Records each optimizer step of a model."""

    def __init__(self, case: Case, model: Any) -> None:
        self.case, self.model = case, model
        self.rows: list[Row] = []
        self.totals: list[float] = []
        self.parameters = dict(model.policy.named_parameters())
        if case.algo == "sac":
            self.parameters["log_alpha"] = model.log_ent_coef
        self.names = {id(p): ours_of(case, name) for name, p in self.parameters.items()}
        self.before: Arrays = {}

    @contextmanager
    def watching(self) -> Iterator[None]:
        backward, clip = torch.Tensor.backward, torch.nn.utils.clip_grad_norm_

        def backwards(loss: Any, *args: Any, **kwargs: Any) -> None:
            self.totals.append(loss.item())
            backward(loss, *args, **kwargs)

        def clipping(parameters: Any, limit: float) -> Any:
            listed = list(parameters)
            self.before = self.gradients(listed)
            return clip(listed, limit)

        with ExitStack() as stack:
            stack.enter_context(mock.patch.object(torch.Tensor, "backward", backwards))
            stack.enter_context(mock.patch.object(torch.nn.utils, "clip_grad_norm_", clipping))
            for optimizer in self.optimizers():
                stack.enter_context(mock.patch.object(optimizer, "step", self.stepping(optimizer)))
            yield

    def optimizers(self) -> list[Any]:
        if self.case.algo in ("ppo", "a2c", "dqn"):
            return [self.model.policy.optimizer]
        found = [self.model.actor.optimizer, self.model.critic.optimizer]
        return found + ([self.model.ent_coef_optimizer] if self.case.algo == "sac" else [])

    def gradients(self, parameters: Any) -> Arrays:
        return {self.names[id(p)]: p.grad.numpy().copy() for p in parameters if p.grad is not None}

    def stepping(self, optimizer: Any) -> Any:
        step = optimizer.step

        def stepped() -> None:
            found = self.gradients(p for group in optimizer.param_groups for p in group["params"])
            step()
            clipped = found if self.before else {}
            self.rows.append(Row({}, self.before or found, clipped, self.weights()))
            self.before = {}

        return stepped

    def weights(self, targets: bool = False) -> Arrays:
        found = ((self.names[id(p)], p) for p in self.parameters.values())
        return {n: p.detach().numpy().copy() for n, p in found if n.startswith("target") == targets}

    def update(self) -> list[Row]:
        """Return the rows since the last call; the steps of several optimizers form one update."""
        rows, totals, self.rows, self.totals = self.rows, self.totals, [], []
        logged = {k.partition("/")[2]: v for k, v in self.model.logger.name_to_value.items()}
        self.model.logger.name_to_value.clear()
        losses = {
            name: sign * logged[key] for name, (key, sign) in LOSSES[self.case.algo].items() if key in logged
        }
        if self.case.algo in ("ppo", "a2c"):
            for row, total in zip(rows, totals, strict=True):
                row.losses = losses | {"total": total}
            return rows
        gradients = {name: g for row in rows for name, g in row.gradients.items()}
        clipped = {name: g for row in rows for name, g in row.clipped.items()}
        return [Row(losses, gradients, clipped, rows[-1].weights)]


def fill(case: Case, model: Any, batch: Arrays) -> None:
    """Put the rows of a batch into the model's buffer."""
    rows = len(batch["obs"])
    if case.algo in ("ppo", "a2c"):
        buffer = model.rollout_buffer
        buffer.reset()
        for i in range(rows):
            value, log_prob = (torch.from_numpy(batch[n][i : i + 1]) for n in ("values", "log_probs"))
            buffer.add(batch["obs"][i], batch["actions"][i], 0.0, 0.0, value, log_prob)
        buffer.advantages[:, 0], buffer.returns[:, 0] = batch["advantages"], batch["returns"]
        return
    model.replay_buffer.reset()
    if "steps" in case.extras:
        discounts = np.float32(case.settings["gamma"]) ** batch["steps"][:, None]
        model.replay_buffer.discounts = torch.from_numpy(discounts.astype(np.float32))
    for i in range(rows):
        ended = batch["terminated"][i] or batch["truncated"][i]
        info = [{"TimeLimit.truncated": bool(batch["truncated"][i])}]
        row = (batch[name][i : i + 1] for name in ("obs", "next_obs", "actions", "rewards"))
        model.replay_buffer.add(*row, np.array([ended]), info)


def trained(case: Case, model: Any, batch: Arrays) -> None:
    """Run SB3's `train()` on a batch."""
    fill(case, model, batch)
    if case.algo == "dqn":
        for _ in range(TRAIN_FREQ):
            model._on_step()
    if "torch_seed" in batch:
        torch.manual_seed(int(batch["torch_seed"]))
    if case.algo == "ppo":
        orders = iter(batch["order"])
        with mock.patch("numpy.random.permutation", lambda n: next(orders)):
            model.train()
    elif case.algo == "a2c":
        model.train()
    else:
        model.train(gradient_steps=1, batch_size=BATCH)


def golden(name: str) -> Arrays:
    case, rng = CASES[name], np.random.default_rng(zlib.crc32(name.encode()))
    init = initial_weights(case, rng)
    batches = draw(case, init, rng)
    out = {f"init/{n}": a for n, a in init.items()} | {f"batch/{n}": a for n, a in batches.items()}
    if not case.sb3:
        return out | {"meta/made_by": np.array("")}
    model = made(case, init)
    recorder, rows = Recorder(case, model), []
    with recorder.watching():
        for batch in each(batches):
            trained(case, model, batch)
            rows += recorder.update()
    out["meta/made_by"] = np.array(f"stable-baselines3 {sb3.__version__}")
    return out | trace(case, rows, recorder.weights(targets=True))


def main() -> None:
    if sb3.__version__ != SB3_VERSION:
        raise SystemExit(f"stable-baselines3 {sb3.__version__} is here, {SB3_VERSION} is compared with")
    torch.set_num_threads(1)
    GOLDEN.mkdir(exist_ok=True)
    for name in sys.argv[1:] or CASES:
        arrays = golden(name)
        small = {k: a.astype(np.float32) if a.dtype == np.float64 else a for k, a in arrays.items()}
        np.savez_compressed(GOLDEN / f"{name}.npz", **small)


if __name__ == "__main__":
    main()
