"""Actor and critic with one shared encoder of observations; the losses of both train it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rlox.policies.base import ActorCritic, Sampler

__all__ = ["SharedEncoderPolicy"]


class SharedEncoderPolicy(ActorCritic):
    """An encoder, and a policy of its features; the encoder runs once for actor and critic together.

    Parameters
    ----------
    encoder : maps rows `[B, dim]` to features
    policy : takes the features, followed by the action mask if rows have one
    mask_dim : number of mask columns at the end of a row
    """

    def __init__(self, encoder: nn.Module, policy: ActorCritic, mask_dim: int = 0) -> None:
        super().__init__()
        self.encoder, self.policy = encoder, policy
        self._mask_dim = mask_dim
        self._seen: Tensor | None = None  # [T, N, features] of the current rollout

    def features(self, obs: Tensor) -> Tensor:
        """Return the input of `policy` for rows `[B, dim]`."""
        if not self._mask_dim:
            encoded: Tensor = self.encoder(obs)
            return encoded
        encoded, masks = self.encoder(obs[..., : -self._mask_dim]), obs[..., -self._mask_dim :]
        return torch.cat([encoded, masks.to(encoded.dtype)], -1)

    def sampler(self, n_steps: int, n_envs: int, generator: torch.Generator) -> Sampler:
        """Return the sampler of `policy`; it stores the features of the rollout."""
        sample = self.policy.sampler(n_steps, n_envs, generator)

        def explore(obs: Tensor, t: int) -> Tensor:
            features = self.features(obs)
            if self._seen is None or t == 0:
                self._seen = features.new_empty(n_steps, *features.shape)
            self._seen[t] = features
            return sample(features, t)

        return explore

    def scoring_inputs(self, obs: Tensor) -> tuple[Tensor, ActorCritic]:
        """Return the features of the last rollout and `policy`, or else `obs` and `self`.

        `obs` and `self` are the inputs in a subclass, and if the features of no rollout are kept.
        """
        features, self._seen = self._seen, None
        if features is None or type(self) is not SharedEncoderPolicy:
            return obs, self
        return features.flatten(0, 1), self.policy

    def evaluate_actions(self, obs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return log-probability, entropy and value, each `[B]`."""
        return self.policy.evaluate_actions(self.features(obs), actions)

    def get_value(self, obs: Tensor) -> Tensor:
        """Return V(obs), `[B]`."""
        return self.policy.get_value(self.features(obs))

    def mode(self, obs: Tensor) -> Tensor:
        """Return the best action."""
        return self.policy.mode(self.features(obs))

    def get_action_and_logprob(
        self, obs: Tensor, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Sample an action; return it and its log-probability `[B]`."""
        return self.policy.get_action_and_logprob(self.features(obs), generator)
