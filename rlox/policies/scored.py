"""What a policy says of actions, and the way back to its parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from rlox.networks import Traced, gradient_of, learned, way_back
from rlox.networks.density import LOG_SQRT_2PI

__all__ = ["Scored", "choices", "graph", "vectors"]


class Scored(NamedTuple):
    """Log-probability, entropy and value of each row, `[B]`, without gradient.

    `learn` takes the gradients of the three (None: 0) to those of the parameters, in their `grad`.
    """

    log_probs: Tensor
    entropy: Tensor
    values: Tensor
    learn: Callable[[Tensor, Tensor | None, Tensor], None]


def graph(
    evaluate: Callable[[], tuple[Tensor, Tensor, Tensor]], parameters: Iterable[nn.Parameter]
) -> Scored:
    """By autograd, whatever `evaluate` does."""
    with torch.enable_grad():
        outputs = evaluate()
    log_probs, entropy, values = (out.detach() for out in outputs)
    return Scored(log_probs, entropy, values, way_back(outputs, learned(parameters)))


def choices(actor: Traced, critic: Traced, actions: Tensor) -> Scored:
    """Of choices `[B]` by logits `[B, n]`; gradients written out."""
    log_p = torch.log_softmax(actor.out, -1)
    index = actions.unsqueeze(-1)
    p = log_p.exp()
    entropy = (p * log_p).sum(-1).neg_()

    def learn(to_log_probs: Tensor, to_entropy: Tensor | None, to_values: Tensor) -> None:
        slope = to_log_probs.unsqueeze(-1)
        to_logits = (p * slope).neg_().scatter_add_(-1, index, slope)
        if to_entropy is not None:  # dH / d logit_a = -p_a (log p_a + H)
            spread = (log_p + entropy.unsqueeze(-1)).mul_(p)
            to_logits.addcmul_(spread, to_entropy.unsqueeze(-1), value=-1.0)
        actor.learn(to_logits)
        critic.learn(to_values.unsqueeze(-1))

    log_probs = log_p.gather(-1, index).squeeze(-1)
    return Scored(log_probs, entropy, critic.out.squeeze(-1), learn)


def vectors(actor: Traced, critic: Traced, log_std: Tensor, actions: Tensor) -> Scored:
    """Of vectors `[B, n]` by means `[B, n]` and the parameter `log_std` `[n]`; gradients written out."""
    per_std = (-log_std).exp()
    z = (actions - actor.out).mul_(per_std)
    squares = z.square()
    constant = (log_std + LOG_SQRT_2PI).sum()

    def learn(to_log_probs: Tensor, to_entropy: Tensor | None, to_values: Tensor) -> None:
        slope = to_log_probs.unsqueeze(-1)
        actor.learn((z * per_std).mul_(slope))
        to_log_std = (squares - 1.0).mul_(slope).sum(0)  # d log p / d log_std = z^2 - 1
        if to_entropy is not None:  # dH / d log_std = 1
            to_log_std.add_(to_entropy.sum())
        gradient_of(log_std).copy_(to_log_std)
        critic.learn(to_values.unsqueeze(-1))

    log_probs = squares.sum(-1).mul_(-0.5).sub_(constant)
    entropy = (constant + 0.5 * len(log_std)).expand(len(z))
    return Scored(log_probs, entropy, critic.out.squeeze(-1), learn)
