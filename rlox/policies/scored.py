"""Log-probability, entropy and value of actions ("scores" in this package), with their backward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from rlox.networks import Traced, gradient_of, learned, way_back
from rlox.networks.gaussians import LOG_SQRT_2PI
from rlox.networks.traced import require_gradient

__all__ = [
    "Scored",
    "evaluate_choices",
    "evaluate_logits",
    "evaluate_means",
    "evaluate_vectors",
    "evaluate_with_autograd",
]

# The backward functions map the gradients of log-probabilities and entropies (None: 0) to the gradient of
# logits, or to the gradients of means and log_std.
LogitsBackward = Callable[[Tensor, Tensor | None], Tensor]
MeansBackward = Callable[[Tensor, Tensor | None], tuple[Tensor, Tensor]]


class Scored(NamedTuple):
    """Log-probability, entropy and value of each row, `[B]`, detached.

    `learn` backpropagates gradients of the three (None: 0) into the `grad` of the parameters.
    """

    log_probs: Tensor
    entropy: Tensor
    values: Tensor
    learn: Callable[[Tensor, Tensor | None, Tensor], None]


def evaluate_with_autograd(
    evaluate: Callable[[], tuple[Tensor, Tensor, Tensor]], parameters: Iterable[nn.Parameter]
) -> Scored:
    """Score by `evaluate`, with autograd's gradients; `ConfigError` if log-probabilities have no gradient."""
    with torch.enable_grad():
        outputs = evaluate()
    require_gradient("the policy's log-probability has", outputs[0])
    log_probs, entropy, values = (out.detach() for out in outputs)
    return Scored(log_probs, entropy, values, way_back(outputs, learned(parameters)))


def evaluate_logits(logits: Tensor, index: Tensor) -> tuple[Tensor, Tensor, LogitsBackward]:
    """Return log softmax(logits) at `index` `[..., 1]` and the entropy, `[...]` each, of logits `[..., n]`.

    The third result maps the gradients of these two (None: 0) to the gradient of the logits.
    """
    log_p = torch.log_softmax(logits, -1)
    p = log_p.exp()
    entropy = (p * log_p).sum(-1).neg_()

    def back(to_log_probs: Tensor, to_entropy: Tensor | None) -> Tensor:
        slope = to_log_probs.unsqueeze(-1)
        to_logits = (p * slope).neg_().scatter_add_(-1, index, slope)
        if to_entropy is not None:  # dH / d logit_a = -p_a (log p_a + H)
            minus_entropy_slope = (log_p + entropy.unsqueeze(-1)).mul_(p)
            to_logits.addcmul_(minus_entropy_slope, to_entropy.unsqueeze(-1), value=-1.0)
        return to_logits

    return log_p.gather(-1, index).squeeze(-1), entropy, back


def evaluate_means(mean: Tensor, log_std: Tensor, actions: Tensor) -> tuple[Tensor, Tensor, MeansBackward]:
    """Return the log-density of actions and the entropy, `[B]` each.

    `actions` and `mean` are `[B, n]`, `log_std` `[n]`. The third result maps the gradients of these two
    (None: 0) to the gradients of the means and of `log_std`.
    """
    per_std = (-log_std).exp()
    z = (actions - mean).mul_(per_std)
    squares = z.square()
    constant = (log_std + LOG_SQRT_2PI).sum()

    def back(to_log_probs: Tensor, to_entropy: Tensor | None) -> tuple[Tensor, Tensor]:
        slope = to_log_probs.unsqueeze(-1)
        to_log_std = (squares - 1.0).mul_(slope).sum(0)  # d log p / d log_std = z^2 - 1
        if to_entropy is not None:  # dH / d log_std = 1
            to_log_std.add_(to_entropy.sum())
        return (z * per_std).mul_(slope), to_log_std

    log_probs = squares.sum(-1).mul_(-0.5).sub_(constant)
    return log_probs, (constant + 0.5 * len(log_std)).expand(len(z)), back


def evaluate_choices(actor: Traced, critic: Traced, actions: Tensor) -> Scored:
    """Score discrete actions `[B]` by logits `[B, n]`, with hand-derived gradients."""
    log_probs, entropy, back = evaluate_logits(actor.out, actions.unsqueeze(-1))

    def learn(to_log_probs: Tensor, to_entropy: Tensor | None, to_values: Tensor) -> None:
        actor.learn(back(to_log_probs, to_entropy))
        critic.learn(to_values.unsqueeze(-1))

    return Scored(log_probs, entropy, critic.out.squeeze(-1), learn)


def evaluate_vectors(actor: Traced, critic: Traced, log_std: Tensor, actions: Tensor) -> Scored:
    """Score actions `[B, n]` by means `[B, n]` and `log_std` `[n]`, with hand-derived gradients."""
    log_probs, entropy, back = evaluate_means(actor.out, log_std, actions)

    def learn(to_log_probs: Tensor, to_entropy: Tensor | None, to_values: Tensor) -> None:
        to_means, to_log_std = back(to_log_probs, to_entropy)
        actor.learn(to_means)
        gradient_of(log_std).copy_(to_log_std)
        critic.learn(to_values.unsqueeze(-1))

    return Scored(log_probs, entropy, critic.out.squeeze(-1), learn)
