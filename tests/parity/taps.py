"""Records the optimizers of rlox's learners, and makes the batches for them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from parity.cases import Arrays, Case
from parity.traces import Row
from rlox.optim import Optimizer
from rlox.types import Transitions

LOSSES = {
    "loss/policy": "policy",
    "loss/value": "value",
    "policy/entropy": "entropy",
    "loss/q": "q",
}


def neutral(name: str) -> str:
    """Return a tensor's name in the golden files, where layer numbers skip the activations."""
    return re.sub(r"\.(\d+)\.", lambda found: f".{int(found[1]) // 2}.", name)


def with_norms(name: str) -> str:
    """Like `neutral`, for an MLP with layer normalisation: its layers have three modules each."""
    head, number, last = name.split(".")
    layer, kind = divmod(int(number), 3)
    return f"{head}.{'norm.' * kind}{layer}.{last}"


Naming = Callable[[str], str]


def copies(values: Mapping[str, Tensor], naming: Naming = neutral) -> dict[str, Tensor]:
    return {naming(name): value.detach().clone() for name, value in values.items()}


class Tap:
    """Records the gradients and weights of an optimizer; `rows` has one entry for each step.

    `prefix` is added to the names of tensors, which `naming` then turns into those of the golden files.
    """

    def __init__(self, optimizer: Optimizer, prefix: str = "", naming: Naming = neutral) -> None:
        self.optimizer, self.prefix, self.naming = optimizer, prefix, naming
        self.rows: list[Row] = []
        self._backward, self._clip, self._step = optimizer.backward, optimizer.clip, optimizer.step
        optimizer.backward, optimizer.clip = self.backward, self.clip  # type: ignore[method-assign]
        optimizer.step = self.step  # type: ignore[method-assign]

    def backward(self, loss: Tensor, max_norm: float | None) -> Tensor:
        self._backward(loss, None)
        return self.clip(max_norm)

    def clip(self, max_norm: float | None) -> Tensor:
        flat = self.optimizer.flat
        gradients = self._named(flat.views(flat.gradient))
        norm = self._clip(max_norm)
        self.rows.append(Row({}, gradients, self._named(flat.views(flat.gradient))))
        return norm

    def step(self) -> None:
        self._step()
        self.rows[-1].weights = self.weights()

    def weights(self) -> dict[str, Tensor]:
        """Return a copy of the present weights."""
        return self._named(self.optimizer.flat.views(self.optimizer.vector))

    def _named(self, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return copies({self.prefix + name: value for name, value in values.items()}, self.naming)

    def taken(self, metrics: Mapping[str, float] | None = None) -> list[Row]:
        """Return the rows since the last call, with the parts of the loss that the learner reported."""
        rows, self.rows = self.rows, []
        said = metrics or {}
        parts = {ours: said[key] for key, ours in LOSSES.items() if key in said}
        for row in rows:
            row.losses = {**row.losses, **parts}
        return rows


def tensor_of(array: Any, dtype: torch.dtype) -> Tensor:
    found = torch.from_numpy(np.asarray(array))
    return found.to(dtype) if found.is_floating_point() else found


def transitions(case: Case, batch: Arrays, dtype: torch.dtype) -> Transitions:
    """Make one batch, with the discounts that a source computes: gamma^m, 0 after termination."""
    given = {
        name: tensor_of(batch[name], dtype)[None]
        for name in ("obs", "actions", "rewards", "next_obs", "weights")
        if name in batch
    }
    gamma = torch.tensor(case.settings["gamma"], dtype=dtype)
    discounts = gamma ** torch.from_numpy(batch["steps"]) * ~torch.from_numpy(batch["terminated"])
    return Transitions(
        **given,
        discounts=discounts[None],
        indices=np.arange(len(discounts), dtype=np.uint64)[None],
        env_steps=int(batch.get("env_steps", 0)),
    )
