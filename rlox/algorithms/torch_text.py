"""What learners of text have in common: a model with its optimizer, and a reference beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from rlox.algorithms.text import EOS_KEY, SIZE_KEY, TextContext, frozen_copy
from rlox.configs.text import GroupConfig, TextAlgorithmConfig
from rlox.errors import CheckpointError, ConfigError
from rlox.llm import Llama, TextModel
from rlox.llm.adapters import has_adapters
from rlox.llm.advantages import weighted_rewards
from rlox.llm.batches import CompletionBatch, GroupedCompletions
from rlox.optim import Adam
from rlox.stopping import raise_if_expired
from rlox.training.finite import require_finite, require_finite_parameters
from rlox.training.learner import PolicyLearner, to_tensors
from rlox.types import Clock, Update

__all__ = [
    "PartialLoss",
    "TextLearner",
    "completion_metrics",
    "group_metrics",
    "loss_mask",
    "minibatch_slices",
]


class PartialLoss(NamedTuple):
    """What is learned of some rows of a step of the optimizer."""

    loss: Tensor  # a scalar with gradient
    metrics: tuple[Tensor, ...] = ()  # told beside it
    weight: float = 1.0  # of the loss of all rows, in all processes
    metric_weights: Sequence[float] | None = None  # of each number; None: the same


class TextLearner(PolicyLearner[nn.Module]):
    """A language model that learns, and a reference that it is held to; both without dropout.

    Parameters
    ----------
    text : with the model
    config : with the step size and the norm of gradients
    has_reference : whether there is a reference: the one that was given, else the model as it begins
    metric_names : of the numbers that `_step` returns
    """

    def __init__(
        self, text: TextContext, config: TextAlgorithmConfig, has_reference: bool, metric_names: Sequence[str]
    ) -> None:
        module, ref_model = text.model.module.eval(), text.objects.ref_model
        if ref_model is not None and set(ref_model.parameters()) & set(module.parameters()):
            raise ConfigError(
                "ref_model is the model that learns, or has weights of it, and would follow it: give a copy "
                "(copy.deepcopy), or leave it out"
            )
        if text.objects.model is not None:  # folders are asked when they are loaded
            text.model.require_causal()
        self._owns_reference = has_reference and ref_model is None
        self.reference: TextModel | None = None
        if has_reference:
            reference_module = (
                frozen_copy(module) if ref_model is None else ref_model.to(text.model.device).eval()
            )
            self.reference = text.model.with_module(reference_module)
            if ref_model is not None:
                self.reference.require_causal("ref_model")
        super().__init__(module, Adam(module, config.initial("learning_rate"), eps=1e-8))
        self.text, self.group, self._config = text, text.group, config
        self.metric_names = (*metric_names, "train/grad_norm")

    def state(self) -> dict[str, Any]:
        """Weights and moments, and a Llama's size; the reference too, unless it was given."""
        optimizer = self.optimizer.state()
        if isinstance(self.policy, Llama) and not has_adapters(self.policy):
            optimizer[SIZE_KEY] = asdict(self.policy.size)
            if self.policy.eos_ids:  # the folder that they came from may go
                optimizer[EOS_KEY] = list(self.policy.eos_ids)
        if self._owns_reference and self.reference is not None:
            optimizer["reference"] = self.reference.trainable.copies()
        return {"weights": self.text.model.trainable.copies(), "optimizer": optimizer}

    def load_initial_weights(self, weights: Mapping[str, Any]) -> None:
        """Begin with these weights, and be held to them."""
        self.text.model.trainable.load(to_tensors(weights))
        self._load_reference(weights)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`; held to the same reference, which is not saved if it was given."""
        size = state["optimizer"].get(SIZE_KEY)  # weights of one shape are of several numbers of heads
        if isinstance(self.policy, Llama) and size not in (None, asdict(self.policy.size)):
            raise CheckpointError(f"its model is {size}, this one is {asdict(self.policy.size)}")
        self.text.model.trainable.load(to_tensors(state["weights"]))
        self.optimizer.restore(state["optimizer"])
        saved = state["optimizer"].get("reference")
        if self._owns_reference and saved is None:
            raise CheckpointError("its ref_model was given, and is not saved: give it again")
        if self.reference is not None and not self._owns_reference and saved is not None:
            raise CheckpointError("the run is held to a model that it has saved: leave ref_model out")
        if self._owns_reference:
            self._load_reference(saved)

    def _load_reference(self, weights: Mapping[str, Any]) -> None:
        if self._owns_reference and self.reference is not None:
            self.reference.trainable.load(to_tensors(weights))

    @torch.no_grad()
    def reference_log_probs(self, answers: CompletionBatch, temperature: float = 1.0) -> Tensor | None:
        """Log-probabilities by the reference, `[B, T]`; None without one."""
        return None if self.reference is None else self._log_probs_of(self.reference, answers, temperature)

    @torch.no_grad()
    def old_log_probs(self, answers: CompletionBatch, temperature: float = 1.0) -> Tensor:
        """Log-probabilities by the model, `[B, T]`, without gradient."""
        return self._log_probs_of(self.text.model, answers, temperature)

    def _log_probs_of(self, model: TextModel, answers: CompletionBatch, temperature: float) -> Tensor:
        """In `algo.accumulate` parts, as a step is."""
        log_probs = []
        for rows_slice in self.row_slices(len(answers)):
            completions = answers.slice_rows(rows_slice)
            log_probs.append(
                model.completion_log_probs(
                    completions.prompts, completions.tokens, completions.mask, temperature
                )
            )
        return torch.cat(log_probs)

    def log_probs(self, answers: CompletionBatch, temperature: float = 1.0, overwrite: bool = True) -> Tensor:
        """Log-probabilities by the model, `[B, T]`, with gradient, which is taken once with `overwrite`."""
        return self.text.model.completion_log_probs(
            answers.prompts, answers.tokens, answers.mask, temperature, overwrite
        )

    def accumulate_and_step(self, partial_loss: Callable[[slice], PartialLoss], rows: int) -> Tensor:
        """A step of the optimizer on so many rows; the row of metrics.

        `partial_loss` says what is learned of some of them. It is asked `algo.accumulate` times, and the
        gradients are added up, so that the step is the one of all rows at once, up to rounding.
        """
        slices = self.row_slices(rows)
        if len(slices) == 1:
            single = partial_loss(slices[0])
            return self.step_on_loss(
                single.loss, *single.metrics, weight=single.weight, metric_weights=single.metric_weights
            )
        row = self._zero_gradients()
        for rows_slice in slices:
            raise_if_expired()
            partial = partial_loss(rows_slice)
            (partial.weight * partial.loss).backward()  # type: ignore[no-untyped-call]  # of torch
            row += _metric_row(partial.loss, partial.metrics) * _metric_weights(
                row, partial.weight, partial.metrics, partial.metric_weights
            )
        return self._step_all_reduced(row)

    def row_slices(self, rows: int) -> list[slice]:
        """So many rows in `algo.accumulate` parts, none of them empty."""
        bounds = np.linspace(0, rows, min(self._config.accumulate, rows) + 1).astype(int).tolist()
        return [slice(start, end) for start, end in pairwise(bounds)]

    def step_on_loss(
        self,
        loss: Tensor | None,
        *metrics: Tensor,
        weight: float = 1.0,
        metric_weights: Sequence[float] | None = None,
    ) -> Tensor:
        """A step down the gradient of `loss`; the row of metrics.

        Of several processes each has `weight` of the loss of all, and `metric_weights` of the numbers (None:
        the same); one that has nothing of a batch has no loss.
        """
        if loss is None:
            return self._step_all_reduced(self._zero_gradients())
        row = _metric_row(loss, metrics)
        if self.group.size == 1:
            norm = self.optimizer.backward(loss, self._config.max_grad_norm)
            self.optimizer.step()
            return torch.cat([row, norm.reshape(1)])
        self.optimizer.backward(weight * loss, None)
        return self._step_all_reduced(row * _metric_weights(row, weight, metrics, metric_weights))

    def _zero_gradients(self) -> Tensor:
        """A gradient of 0, to which parameters add theirs from here on, and a row of zeros."""
        self.optimizer.clip(None)
        self.optimizer.gradient.zero_()
        return torch.zeros(len(self.metric_names) - 1, device=self.optimizer.vector.device)

    def _step_all_reduced(self, row: Tensor) -> Tensor:
        """A step down the sum of the gradients of all processes, whose rows are added up, too."""
        self.group.sum_(self.optimizer.gradient)
        self.group.sum_(row)
        norm = self.optimizer.clip(self._config.max_grad_norm)
        self.optimizer.step()
        return torch.cat([row, norm.reshape(1)])

    def build_update(
        self,
        rows: Sequence[Tensor],
        clock: Clock,
        prompts: int,
        extra_metrics: Mapping[str, float] | None = None,
    ) -> Update:
        """What an update did, of so many prompts; a batch of which nothing is to be learned has no rows."""
        metrics = {"train/learning_rate": self.optimizer.lr, **(extra_metrics or {})}
        self.group.require_same(self.optimizer.vector, "the weights that learn")
        if rows:
            table, label = torch.stack(list(rows)), f"update {clock.updates}"
            require_finite(table, self.metric_names, label)
            require_finite_parameters(self.policy, self.optimizer.vector, label)
            metrics |= dict(zip(self.metric_names, table.mean(0).tolist(), strict=True))
        return Update(metrics, len(rows), prompts * self.group.size)

    def apply_schedules(self, clock: Clock) -> None:
        """The step size at this time of the run; dropout is off, whatever happened to the model since."""
        self.policy.eval()
        self.optimizer.lr = self._config.at("learning_rate", clock.remaining)


def _metric_row(loss: Tensor, metrics: Sequence[Tensor]) -> Tensor:
    """Metrics without gradient."""
    return torch.stack([loss.detach(), *(n.detach() for n in metrics)]).float()


def _metric_weights(
    row: Tensor, weight: float, metrics: Sequence[Tensor], metric_weights: Sequence[float] | None
) -> Tensor:
    """What each metric of a part counts among all."""
    return row.new_tensor([weight, *(metric_weights or [weight] * len(metrics))])


def minibatch_slices(config: GroupConfig, rows: int) -> Iterator[slice]:
    """The rows of each step of the optimizer, for every time that a batch is gone through."""
    bounds = np.linspace(0, rows, min(config.minibatches, rows) + 1).astype(int).tolist()
    for _ in range(config.n_epochs):
        for start, end in pairwise(bounds):
            yield slice(start, end)


def completion_metrics(batch: GroupedCompletions) -> dict[str, float]:
    """What is told of completions; names of TRL."""
    return {
        "completions/clipped_ratio": float(1.0 - batch.has_ended.mean()),
        "completions/mean_length": float(batch.lengths.mean()),
    }


def group_metrics(batch: GroupedCompletions, weights: Sequence[float] | None) -> dict[str, float]:
    """The part of the groups whose rewards are all the same: nothing is learned of those."""
    rewards = weighted_rewards(batch.rewards, weights).reshape(-1, batch.group_size)
    low, high = (np.where(np.isnan(rewards), fill, rewards) for fill in (np.inf, -np.inf))
    return {"reward/zero_std": float((low.min(1) >= high.max(1)).mean())}


def loss_mask(batch: GroupedCompletions, config: GroupConfig) -> Tensor:
    """Tokens that are learned from; none of a completion that was cut off, if those are left out."""
    mask = batch.generated_tokens.mask
    return mask & batch.generated_tokens.has_ended.unsqueeze(1) if config.mask_truncated else mask
