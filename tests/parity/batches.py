"""Draws batches that rounding cannot push over a kink; redraws those too near one in the transcription."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from parity.cases import (
    ACT,
    BATCH,
    CHOICES,
    EPOCHS,
    HIDDEN,
    MINIBATCHES,
    OBS,
    TRAIN_FREQ,
    Arrays,
    Case,
)
from parity.transcriptions import TRANSCRIPTIONS
from parity.transcriptions.actor_critic import judged
from parity.transcriptions.common import Kinks

MARGIN = 2e-4  # rounding in float32 moves the compared values by about 1e-6
TRIES = 400
DOUBLE = torch.float64


def tensors(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Tensor]:
    """Convert to float64, which also holds integers."""
    return {name: torch.as_tensor(np.asarray(a)).to(DOUBLE) for name, a in arrays.items()}


def transcription(case: Case, init: Arrays) -> Any:
    return TRANSCRIPTIONS[case.algo](tensors(init), case.settings)


def draw(case: Case, init: Arrays, rng: np.random.Generator) -> Arrays:
    """Draw all batches of a case, `[trains, ...]`."""
    learner, kept = transcription(case, init), []
    for train in range(case.trains):
        batch, learner = _settled(case, learner, train, rng)
        kept.append(batch)
    return {name: np.stack([batch[name] for batch in kept]) for name in kept[0]}


def _settled(case: Case, learner: Any, train: int, rng: np.random.Generator) -> tuple[Arrays, Any]:
    """Draw a batch that is far enough from every kink, and return it with the updated learner."""
    for _ in range(TRIES):
        batch = _batch(case, learner, train, rng)
        tried = copy.deepcopy(learner)
        tried.kinks = Kinks()
        tried.train(tensors(batch))
        if tried.kinks.distance > MARGIN:
            return batch, tried
    raise RuntimeError(f"no batch {train} keeps {MARGIN} from {tried.kinks.where}")


def _batch(case: Case, learner: Any, train: int, rng: np.random.Generator) -> Arrays:
    if case.algo in REPLAYED:
        return _replayed(case, train, rng)
    return _values(learner, rng) if case.algo == "pqn" else _rollout(case, learner, rng)


REPLAYED = ("dqn", "sac", "tqc", "td3")


def _normal(rng: np.random.Generator, *shape: int) -> NDArray[np.float32]:
    return rng.standard_normal(shape).astype(np.float32)


def _rollout(case: Case, learner: Any, rng: np.random.Generator) -> Arrays:
    """Draw rows near the policy's outputs, some beyond the clipping range."""
    rows = BATCH * MINIBATCHES if case.algo == "ppo" else BATCH
    obs = _normal(rng, rows, OBS)
    actions = _normal(rng, rows, ACT) if case.box else rng.integers(CHOICES, size=rows)
    said = [
        judged(learner.weights, *row) for row in zip(*tensors({"o": obs, "a": actions}).values(), strict=True)
    ]
    log_probs, _, values = (torch.stack(column).detach().numpy() for column in zip(*said, strict=True))
    old_values = (values + 0.3 * _normal(rng, rows)).astype(np.float32)
    advantages = 0.5 + 1.5 * _normal(rng, rows)
    out = {
        "obs": obs,
        "actions": actions,
        "log_probs": (log_probs + rng.uniform(-0.4, 0.4, rows)).astype(np.float32),
        "values": old_values,
        "advantages": advantages,
        "returns": old_values + advantages,
    }
    if case.algo == "ppo":
        out["order"] = np.stack([rng.permutation(rows) for _ in range(EPOCHS)])
    return out


def _values(learner: Any, rng: np.random.Generator) -> Arrays:
    """Draw rows whose returns are around the values of their actions."""
    rows = BATCH * MINIBATCHES
    obs, actions = _normal(rng, rows, OBS), rng.integers(CHOICES, size=rows)
    q = [learner.values(row)[action] for row, action in zip(tensors({"o": obs})["o"], actions, strict=True)]
    returns = (torch.stack(q).detach().numpy() + 1.2 * _normal(rng, rows)).astype(np.float32)
    order = np.stack([rng.permutation(rows) for _ in range(EPOCHS)])
    return {"obs": obs, "actions": actions, "returns": returns, "order": order}


def _replayed(case: Case, train: int, rng: np.random.Generator) -> Arrays:
    ended = rng.random(BATCH)
    out: Arrays = {
        "obs": _normal(rng, BATCH, OBS),
        "actions": rng.uniform(-1, 1, (BATCH, ACT)).astype(np.float32)
        if case.box
        else rng.integers(CHOICES, size=BATCH),
        "rewards": _normal(rng, BATCH),
        "next_obs": _normal(rng, BATCH, OBS),
        "terminated": ended < 0.2,
        "truncated": ended > 0.8,
        "steps": rng.integers(1, 4, BATCH) if "steps" in case.extras else np.ones(BATCH, np.int64),
    }
    if "weights" in case.extras:
        out["weights"] = rng.uniform(0.2, 1, BATCH).astype(np.float32)
    if case.algo == "dqn":
        out["env_steps"] = np.array(TRAIN_FREQ * (train + 1))
    return out | _noise(case, rng)


def _noise(case: Case, rng: np.random.Generator) -> Arrays:
    """Draw the noise that Stable-Baselines3 draws after `torch.manual_seed(torch_seed)`, in its order."""
    if case.algo == "dqn":
        return {}
    seed = int(rng.integers(2**31))
    generator = torch.Generator().manual_seed(seed)
    if case.algo == "td3":
        drawn = torch.empty(BATCH, ACT).normal_(0, case.settings["target_policy_noise"], generator=generator)
        return {"noise_target": drawn.numpy(), "torch_seed": np.array(seed)}
    gsde = case.settings["use_sde"]
    shape = (HIDDEN[-1], ACT) if gsde else (BATCH, ACT)
    zeros, ones = torch.zeros(shape), torch.ones(shape)
    first, second = (torch.normal(zeros, ones, generator=generator).numpy() for _ in range(2))
    if gsde:
        second = first  # one matrix for both observations
    return {"noise_obs": first, "noise_next": second, "torch_seed": np.array(seed)}


def each(batches: Arrays) -> Iterator[Arrays]:
    """Yield the batches of a case one by one."""
    for i in range(len(next(iter(batches.values())))):
        yield {name: array[i] for name, array in batches.items()}
