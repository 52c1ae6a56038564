"""A categorical policy for `Discrete` actions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from rlox.networks import inference_function, resolve_widths
from rlox.policies.base import Sampler, find_most_derived
from rlox.policies.heads import choice_noise, gumbel, score_choices
from rlox.policies.mlp import MLPActorCritic

__all__ = ["DiscretePolicy"]


class DiscretePolicy(MLPActorCritic):
    """Separate actor and critic MLPs; the actor computes logits of `n_actions` actions.

    Parameters
    ----------
    obs_dim : length of the observation vector
    n_actions : number of discrete actions
    hidden : width of two hidden layers, unless `net_arch` gives all widths
    net_arch : hidden widths of each network
    activation : `tanh`, `relu`, `elu` or `silu`
    ortho_init : orthogonal initialisation; gain of the last layer: actor 0.01, critic 1
    critic_net_arch : hidden widths of the critic; default: those of the actor
    """

    def __init__(
        self,
        obs_dim: int,
        n_actions: int,
        hidden: int = 64,
        net_arch: Sequence[int] | None = None,
        activation: str = "tanh",
        ortho_init: bool = True,
        critic_net_arch: Sequence[int] | None = None,
    ) -> None:
        widths = resolve_widths(hidden, net_arch, obs_dim=obs_dim, n_actions=n_actions)
        super().__init__(obs_dim, n_actions, widths, critic_net_arch, activation, ortho_init)
        self.n_actions = n_actions

    def logits(self, obs: Tensor) -> Tensor:
        """Return the logit of each action, `[B, n_actions]`."""
        logits: Tensor = self.actor(obs)
        return logits

    def inference_logits(self) -> Callable[[Tensor], Tensor]:
        """Return a function like `logits` for many small calls without gradients; it returns new tensors."""
        return inference_function(self.actor)

    def _choose_logits_function(self) -> Callable[[Tensor], Tensor]:
        """Return the function of `inference_logits`, or `logits` if a user's class overrides `logits`."""
        if find_most_derived(self, "inference_logits", "logits") == "inference_logits":
            return self.inference_logits()
        return lambda obs: self.logits(obs).clone()

    def sampler(self, n_steps: int, n_envs: int, generator: torch.Generator) -> Sampler:
        """Return a sampler by Gumbel-max: argmax(logits - log(-log u)) is a draw from softmax(logits)."""
        noise = choice_noise(n_steps, n_envs, self.n_actions, generator)
        logits = self._choose_logits_function()
        return lambda obs, t: logits(obs).add_(noise[t]).argmax(-1)

    def evaluate_actions(self, obs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return log-probability, entropy and value, each `[B]`."""
        return *score_choices(self.logits(obs), actions), self.get_value(obs)

    def mode(self, obs: Tensor) -> Tensor:
        """Return the most likely action `[B]`."""
        return self._choose_logits_function()(obs).argmax(-1)

    def get_action_and_logprob(
        self, obs: Tensor, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Sample an action `[B]`; return it and its log-probability `[B]`."""
        log_p = torch.log_softmax(self.logits(obs), -1)
        noise = gumbel(tuple(log_p.shape), generator, log_p.device)
        action = (log_p.detach() + noise).argmax(-1)
        return action, log_p.gather(-1, action.unsqueeze(-1)).squeeze(-1)
