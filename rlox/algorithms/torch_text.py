"""What learners of text have in common: a model with its optimizer, and a reference beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from rlox.algorithms.text import ENDS, SIZE, Text, frozen_copy
from rlox.configs.text import GroupConfig, TextAlgorithmConfig
from rlox.errors import CheckpointError, ConfigError
from rlox.llm import Llama, TextModel
from rlox.llm.adapters import has_adapters
from rlox.llm.batches import Answers, Tokens
from rlox.llm.rewards import weighted_rewards
from rlox.optim import Adam
from rlox.stopping import check
from rlox.training.finite import require_finite, require_finite_parameters
from rlox.training.learner import PolicyLearner, tensors
from rlox.types import Clock, Update

__all__ = ["Part", "TextLearner", "counting_mask", "of_completions", "of_groups", "parts_of"]


class Part(NamedTuple):
    """What is learned of some rows of a step of the optimizer."""

    loss: Tensor  # a scalar with gradient
    numbers: tuple[Tensor, ...] = ()  # told beside it
    share: float = 1.0  # of the loss of all rows, in all processes
    shares: Sequence[float] | None = None  # of each number; None: the same


class TextLearner(PolicyLearner[nn.Module]):
    """A language model that learns, and a reference that it is held to; both without dropout.

    Parameters
    ----------
    text : with the model
    config : with the step size and the norm of gradients
    referred : whether there is a reference: the one that was given, else the model as it begins
    names : of the numbers that `_step` returns
    """

    def __init__(
        self, text: Text, config: TextAlgorithmConfig, referred: bool, names: Sequence[str]
    ) -> None:
        module, given = text.model.module.eval(), text.given.ref_model
        if given is not None and set(given.parameters()) & set(module.parameters()):
            raise ConfigError(
                "ref_model is the model that learns, or has weights of it, and would follow it: give a copy "
                "(copy.deepcopy), or leave it out"
            )
        if text.given.model is not None:  # folders are asked when they are loaded
            text.model.require_causal()
        self._own = referred and given is None
        self.reference: TextModel | None = None
        if referred:
            held = frozen_copy(module) if given is None else given.to(text.model.device).eval()
            self.reference = text.model.like(held)
            if given is not None:
                self.reference.require_causal("ref_model")
        super().__init__(module, Adam(module, config.initial("learning_rate"), eps=1e-8))
        self.text, self.group, self._config = text, text.group, config
        self.names = (*names, "train/grad_norm")

    def state(self) -> dict[str, Any]:
        """Weights and moments, and a Llama's size; the reference too, unless it was given."""
        optimizer = self.optimizer.state()
        if isinstance(self.policy, Llama) and not has_adapters(self.policy):
            optimizer[SIZE] = asdict(self.policy.size)
            if self.policy.ends:  # the folder that they came from may go
                optimizer[ENDS] = list(self.policy.ends)
        if self._own and self.reference is not None:
            optimizer["reference"] = self.reference.learned.copied()
        return {"weights": self.text.model.learned.copied(), "optimizer": optimizer}

    def begin_from(self, weights: Mapping[str, Any]) -> None:
        """Begin with these weights, and be held to them."""
        self.text.model.learned.load(tensors(weights))
        self._refer_to(weights)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`; held to the same reference, which is not saved if it was given."""
        size = state["optimizer"].get(SIZE)  # weights of one shape are of several numbers of heads
        if isinstance(self.policy, Llama) and size not in (None, asdict(self.policy.size)):
            raise CheckpointError(f"its model is {size}, this one is {asdict(self.policy.size)}")
        self.text.model.learned.load(tensors(state["weights"]))
        self.optimizer.restore(state["optimizer"])
        saved = state["optimizer"].get("reference")
        if self._own and saved is None:
            raise CheckpointError("its ref_model was given, and is not saved: give it again")
        if self.reference is not None and not self._own and saved is not None:
            raise CheckpointError(
                "the run is held to a model that it has saved: leave ref_model out"
            )
        if self._own:
            self._refer_to(saved)

    def _refer_to(self, weights: Mapping[str, Any]) -> None:
        if self._own and self.reference is not None:
            self.reference.learned.load(tensors(weights))

    @torch.no_grad()
    def referred(self, answers: Answers, temperature: float = 1.0) -> Tensor | None:
        """Log-probabilities by the reference, `[B, T]`; None without one."""
        return None if self.reference is None else self._by(self.reference, answers, temperature)

    @torch.no_grad()
    def said_before(self, answers: Answers, temperature: float = 1.0) -> Tensor:
        """Log-probabilities by the model, `[B, T]`, without gradient."""
        return self._by(self.text.model, answers, temperature)

    def _by(self, model: TextModel, answers: Answers, temperature: float) -> Tensor:
        """In `algo.accumulate` parts, as a step is."""
        found = []
        for at in self.pieces(len(answers)):
            part = answers.part(at)
            found.append(
                model.completion_log_probs(part.prompts, part.tokens, part.mask, temperature)
            )
        return torch.cat(found)

    def said(self, answers: Answers, temperature: float = 1.0, overwrite: bool = True) -> Tensor:
        """Log-probabilities by the model, `[B, T]`, with gradient, which is taken once with `overwrite`."""
        return self.text.model.completion_log_probs(
            answers.prompts, answers.tokens, answers.mask, temperature, overwrite
        )

    def stepped_by(self, part: Callable[[slice], Part], rows: int) -> Tensor:
        """A step of the optimizer on so many rows; the row of metrics.

        `part` says what is learned of some of them. It is asked `algo.accumulate` times, and the gradients
        are added up, so that the step is the one of all rows at once, up to rounding.
        """
        pieces = self.pieces(rows)
        if len(pieces) == 1:
            whole = part(pieces[0])
            return self.stepped(whole.loss, *whole.numbers, share=whole.share, shares=whole.shares)
        row = self._nothing()
        for at in pieces:
            check()
            of = part(at)
            (of.share * of.loss).backward()  # type: ignore[no-untyped-call]  # of torch
            row += _row(of.loss, of.numbers) * _weights(row, of.share, of.numbers, of.shares)
        return self._step_down(row)

    def pieces(self, rows: int) -> list[slice]:
        """So many rows in `algo.accumulate` parts, none of them empty."""
        edges = np.linspace(0, rows, min(self._config.accumulate, rows) + 1).astype(int).tolist()
        return [slice(begin, end) for begin, end in pairwise(edges)]

    def stepped(
        self,
        loss: Tensor | None,
        *numbers: Tensor,
        share: float = 1.0,
        shares: Sequence[float] | None = None,
    ) -> Tensor:
        """A step down the gradient of `loss`; the row of metrics.

        Of several processes each has `share` of the loss of all, and `shares` of the numbers (None: the
        same); one that has nothing of a batch has no loss.
        """
        if loss is None:
            return self._step_down(self._nothing())
        row = _row(loss, numbers)
        if self.group.size == 1:
            norm = self.optimizer.backward(loss, self._config.max_grad_norm)
            self.optimizer.step()
            return torch.cat([row, norm.reshape(1)])
        self.optimizer.backward(share * loss, None)
        return self._step_down(row * _weights(row, share, numbers, shares))

    def _nothing(self) -> Tensor:
        """A gradient of 0, to which parameters add theirs from here on, and a row of zeros."""
        self.optimizer.clip(None)
        self.optimizer.gradient.zero_()
        return torch.zeros(len(self.names) - 1, device=self.optimizer.vector.device)

    def _step_down(self, row: Tensor) -> Tensor:
        """A step down the sum of the gradients of all processes, whose rows are added up, too."""
        self.group.sum_(self.optimizer.gradient)
        self.group.sum_(row)
        norm = self.optimizer.clip(self._config.max_grad_norm)
        self.optimizer.step()
        return torch.cat([row, norm.reshape(1)])

    def learned(
        self,
        rows: Sequence[Tensor],
        clock: Clock,
        prompts: int,
        told: Mapping[str, float] | None = None,
    ) -> Update:
        """What an update did, of so many prompts; a batch of which nothing is to be learned has no rows."""
        metrics = {"train/learning_rate": self.optimizer.lr, **(told or {})}
        self.group.require_same(self.optimizer.vector, "the weights that learn")
        if rows:
            table, where = torch.stack(list(rows)), f"update {clock.updates}"
            require_finite(table, self.names, where)
            require_finite_parameters(self.policy, self.optimizer.vector, where)
            metrics |= dict(zip(self.names, table.mean(0).tolist(), strict=True))
        return Update(metrics, len(rows), prompts * self.group.size)

    def anneal(self, clock: Clock) -> None:
        """The step size at this time of the run; dropout is off, whatever happened to the model since."""
        self.policy.eval()
        self.optimizer.lr = self._config.at("learning_rate", clock.remaining)


def _row(loss: Tensor, numbers: Sequence[Tensor]) -> Tensor:
    """Metrics without gradient."""
    return torch.stack([loss.detach(), *(n.detach() for n in numbers)]).float()


def _weights(
    row: Tensor, share: float, numbers: Sequence[Tensor], shares: Sequence[float] | None
) -> Tensor:
    """What each metric of a part counts among all."""
    return row.new_tensor([share, *(shares or [share] * len(numbers))])


def parts_of(config: GroupConfig, rows: int) -> Iterator[slice]:
    """The rows of each step of the optimizer, for every time that a batch is gone through."""
    edges = np.linspace(0, rows, min(config.minibatches, rows) + 1).astype(int).tolist()
    for _ in range(config.n_epochs):
        for begin, end in pairwise(edges):
            yield slice(begin, end)


def of_completions(batch: Tokens) -> dict[str, float]:
    """What is told of completions; names of TRL."""
    return {
        "completions/clipped_ratio": float(1.0 - batch.ended.mean()),
        "completions/mean_length": float(batch.lengths.mean()),
    }


def of_groups(batch: Tokens, weights: Sequence[float] | None) -> dict[str, float]:
    """The part of the groups whose rewards are all the same: nothing is learned of those."""
    worth = weighted_rewards(batch.rewards, weights).reshape(-1, batch.group_size)
    low, high = (np.where(np.isnan(worth), by, worth) for by in (np.inf, -np.inf))
    return {"reward/zero_std": float((low.min(1) >= high.max(1)).mean())}


def counting_mask(batch: Tokens, config: GroupConfig) -> Tensor:
    """Tokens that are learned from; none of a completion that was cut off, if those are left out."""
    mask = batch.written.mask
    return mask & batch.written.ended.unsqueeze(1) if config.mask_truncated else mask
