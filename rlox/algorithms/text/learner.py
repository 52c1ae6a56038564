"""Base class of the learners of text: a model with its optimizer, and a reference model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from rlox.algorithms.text.components import TextContext, frozen_copy
from rlox.algorithms.text.objects import EOS_KEY, SIZE_KEY
from rlox.configs.text import GroupConfig, TextAlgorithmConfig
from rlox.errors import CheckpointError, ConfigError
from rlox.llm import Llama, TextModel
from rlox.llm.adapters import has_adapters
from rlox.llm.advantages import weighted_rewards
from rlox.llm.batches import CompletionBatch, GroupedCompletions
from rlox.optim import Adam
from rlox.stopping import raise_if_expired
from rlox.training.learner import PolicyLearner, require_finite, require_finite_parameters, to_tensors
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
    """The loss of some of the rows of an optimizer step."""

    loss: Tensor  # a scalar with gradient
    metrics: tuple[Tensor, ...] = ()  # reported with the loss
    weight: float = 1.0  # share of this loss in the loss of all rows of all processes
    metric_weights: Sequence[float] | None = None  # share of each metric; None: `weight`


class TextLearner(PolicyLearner[nn.Module]):
    """A language model that learns, and optionally a reference model; both without dropout.

    Parameters
    ----------
    text : context of the run, with the model
    config : configuration, with the learning rate and the maximum gradient norm
    has_reference : whether there is a reference: the given one, else the initial model
    metric_names : names of the metrics of an optimizer step, without the gradient norm
    """

    def __init__(
        self, text: TextContext, config: TextAlgorithmConfig, has_reference: bool, metric_names: Sequence[str]
    ) -> None:
        module, ref_model = text.model.module.eval(), text.objects.ref_model
        if ref_model is not None and set(ref_model.parameters()) & set(module.parameters()):
            raise ConfigError(
                "ref_model is the model that learns, or shares weights with it, and would change with it: "
                "give a copy (copy.deepcopy), or leave it out"
            )
        if text.objects.model is not None:  # models of folders are checked when they are loaded
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
        """Return weights and moments, a Llama's size, and the reference unless it was given."""
        optimizer = self.optimizer.state()
        if isinstance(self.policy, Llama) and not has_adapters(self.policy):
            optimizer[SIZE_KEY] = asdict(self.policy.size)
            if self.policy.eos_ids:  # the model's folder may be deleted
                optimizer[EOS_KEY] = list(self.policy.eos_ids)
        if self._owns_reference and self.reference is not None:
            optimizer["reference"] = self.reference.trainable.copies()
        return {"weights": self.text.model.trainable.copies(), "optimizer": optimizer}

    def load_initial_weights(self, weights: Mapping[str, Any]) -> None:
        """Replace the initial weights by these, in the reference too unless it was given."""
        self.text.model.trainable.load(to_tensors(weights))
        self._load_reference(weights)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`, with the same reference; a given reference is not saved."""
        size = state["optimizer"].get(SIZE_KEY)  # equal shapes do not imply equal numbers of heads
        if isinstance(self.policy, Llama) and size not in (None, asdict(self.policy.size)):
            raise CheckpointError(f"its model is {size}, this run's is {asdict(self.policy.size)}")
        self.text.model.trainable.load(to_tensors(state["weights"]))
        self.optimizer.restore(state["optimizer"])
        saved = state["optimizer"].get("reference")
        if self._owns_reference and saved is None:
            raise CheckpointError("its ref_model was given, and is not saved: give it again")
        if self.reference is not None and not self._owns_reference and saved is not None:
            raise CheckpointError("the run has saved its own reference model: leave ref_model out")
        if self._owns_reference:
            self._load_reference(saved)

    def _load_reference(self, weights: Mapping[str, Any]) -> None:
        if self._owns_reference and self.reference is not None:
            self.reference.trainable.load(to_tensors(weights))

    @torch.no_grad()
    def reference_log_probs(self, answers: CompletionBatch, temperature: float = 1.0) -> Tensor | None:
        """Return the reference's log-probabilities, `[B, T]`; None without a reference."""
        return None if self.reference is None else self._log_probs_of(self.reference, answers, temperature)

    @torch.no_grad()
    def old_log_probs(self, answers: CompletionBatch, temperature: float = 1.0) -> Tensor:
        """Return the model's log-probabilities, `[B, T]`, without gradient."""
        return self._log_probs_of(self.text.model, answers, temperature)

    def _log_probs_of(self, model: TextModel, answers: CompletionBatch, temperature: float) -> Tensor:
        """Return log-probabilities, computed in `algo.accumulate` parts like a step."""
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
        """Return the model's log-probabilities, `[B, T]`; `overwrite`: the gradient can be taken once."""
        return self.text.model.completion_log_probs(
            answers.prompts, answers.tokens, answers.mask, temperature, overwrite
        )

    def accumulate_and_step(self, partial_loss: Callable[[slice], PartialLoss], n_rows: int) -> Tensor:
        """Take an optimizer step on `n_rows` rows and return the row of metrics.

        `partial_loss` computes the loss of a slice of the rows. It is called `algo.accumulate` times and the
        gradients are summed, so the step equals that of all rows at once, up to rounding.
        """
        slices = self.row_slices(n_rows)
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

    def row_slices(self, n_rows: int) -> list[slice]:
        """Split `n_rows` rows into `algo.accumulate` slices, fewer if some would be empty."""
        bounds = np.linspace(0, n_rows, min(self._config.accumulate, n_rows) + 1).astype(int).tolist()
        return [slice(start, end) for start, end in pairwise(bounds)]

    def step_on_loss(
        self,
        loss: Tensor | None,
        *metrics: Tensor,
        weight: float = 1.0,
        metric_weights: Sequence[float] | None = None,
    ) -> Tensor:
        """Take a step on the gradient of `loss` and return the row of metrics.

        With several processes, `weight` is this process's share of the loss over all processes, and
        `metric_weights` its shares of the metrics (None: `weight`). `loss` is None if this process has no
        rows of the batch.
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
        """Zero the gradients, to accumulate from here on, and return a row of zeros for the metrics."""
        self.optimizer.clip(None)
        self.optimizer.gradient.zero_()
        return torch.zeros(len(self.metric_names) - 1, device=self.optimizer.vector.device)

    def _step_all_reduced(self, row: Tensor) -> Tensor:
        """Sum gradients and metrics over all processes, take a step and return the row of metrics."""
        self.group.sum_(self.optimizer.gradient)
        self.group.sum_(row)
        norm = self.optimizer.clip(self._config.max_grad_norm)
        self.optimizer.step()
        return torch.cat([row, norm.reshape(1)])

    def build_update(
        self,
        rows: Sequence[Tensor],
        clock: Clock,
        n_prompts: int,
        extra_metrics: Mapping[str, float] | None = None,
    ) -> Update:
        """Build the update for `n_prompts` prompts; `rows` is empty if the batch has nothing to learn."""
        metrics = {"train/learning_rate": self.optimizer.lr, **(extra_metrics or {})}
        self.group.require_same(self.optimizer.vector, "the trainable weights")
        if rows:
            table, label = torch.stack(list(rows)), f"update {clock.updates}"
            require_finite(table, self.metric_names, label)
            require_finite_parameters(self.policy, self.optimizer.vector, label)
            metrics |= dict(zip(self.metric_names, table.mean(0).tolist(), strict=True))
        return Update(metrics, len(rows), n_prompts * self.group.size)

    def apply_schedules(self, clock: Clock) -> None:
        """Set the learning rate; set evaluation mode again, in case the user changed the model's mode."""
        self.policy.eval()
        self.optimizer.lr = self._config.at("learning_rate", clock.remaining)


def _metric_row(loss: Tensor, metrics: Sequence[Tensor]) -> Tensor:
    """Return loss and metrics as one row without gradient."""
    return torch.stack([loss.detach(), *(n.detach() for n in metrics)]).float()


def _metric_weights(
    row: Tensor, weight: float, metrics: Sequence[Tensor], metric_weights: Sequence[float] | None
) -> Tensor:
    """Return the weight of each metric of a part in the sum over parts."""
    return row.new_tensor([weight, *(metric_weights or [weight] * len(metrics))])


def minibatch_slices(config: GroupConfig, n_rows: int) -> Iterator[slice]:
    """Yield the row slice of each optimizer step, for every epoch over a batch."""
    bounds = np.linspace(0, n_rows, min(config.minibatches, n_rows) + 1).astype(int).tolist()
    for _ in range(config.n_epochs):
        for start, end in pairwise(bounds):
            yield slice(start, end)


def completion_metrics(batch: GroupedCompletions) -> dict[str, float]:
    """Return the metrics of completions, under TRL's names."""
    return {
        "completions/clipped_ratio": float(1.0 - batch.has_ended.mean()),
        "completions/mean_length": float(batch.lengths.mean()),
    }


def group_metrics(batch: GroupedCompletions, weights: Sequence[float] | None) -> dict[str, float]:
    """Return the fraction of groups with equal rewards, from which nothing is learned."""
    rewards = weighted_rewards(batch.rewards, weights).reshape(-1, batch.group_size)
    low, high = (np.where(np.isnan(rewards), fill, rewards) for fill in (np.inf, -np.inf))
    return {"reward/zero_std": float((low.min(1) >= high.max(1)).mean())}


def loss_mask(batch: GroupedCompletions, config: GroupConfig) -> Tensor:
    """Return the mask of tokens to learn from; `mask_truncated` excludes completions that were cut off."""
    mask = batch.generated_tokens.mask
    return mask & batch.generated_tokens.has_ended.unsqueeze(1) if config.mask_truncated else mask
