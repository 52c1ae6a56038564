"""Policies for actions of several parts: discrete choices and a vector, as independent factors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from rlox.errors import ConfigError
from rlox.networks import inference_function
from rlox.policies.base import NoiseBlocks, Sampler, find_most_derived
from rlox.policies.heads import MASKED_LOGIT, Head, HeadSampler, gumbel, score_vectors
from rlox.policies.mlp import MLPActorCritic

__all__ = ["FactoredHead", "FactoredPolicy", "MaskedFactoredPolicy"]

NetFunction = Callable[[Tensor], Tensor]


class FactoredHead(Head):
    """A distribution over K choices, choice k among `choices[k]` options, and `vector_size` numbers.

    Outputs are the logits of each choice in turn, then the means. An action is a row
    `[len(choices) + vector_size]`: the choices, counted from 0, then the numbers. The row is int64 if there
    are no numbers.
    log p(a) = sum_k log softmax(logits_k)[a_k] + sum_j log N(a_j; mean_j, std_j), and the entropy is the sum
    of the factors' entropies. `log_std` `[vector_size]` is learned.

    Logits are padded to `[B, K, M]`, where M is the largest number of options among the K choices, so that
    no loop over choices is needed. Padding has probability 0 and no gradient.
    """

    places: Tensor  # [sum(choices)], position of each logit in `[K * M]`
    counts: Tensor  # [K], a copy of choices; saved, as weights for other choices may have the same shapes

    def __init__(self, choices: Sequence[int], vector_size: int = 0, log_std_init: float = 0.0) -> None:
        super().__init__(sum(choices) + vector_size)
        self.choices, self.vector_size = tuple(choices), vector_size
        self.n_logits = sum(choices)
        self.max_options = max(choices)
        logit_positions = [k * self.max_options + i for k, n in enumerate(choices) for i in range(n)]
        self.register_buffer("places", torch.tensor(logit_positions), persistent=False)
        self.register_buffer("counts", torch.tensor(self.choices))
        init = torch.full((vector_size,), float(log_std_init))
        self.log_std = nn.Parameter(init) if vector_size else None

    def pad_logits(self, outputs: Tensor, fill: float) -> Tensor:
        """Return the logits in outputs `[..., size]` as `[..., K, M]`, padded with `fill`."""
        logits, shape = outputs[..., : self.n_logits], (len(self.choices), self.max_options)
        if len(self.places) < shape[0] * shape[1]:
            padded_logits = logits.new_full((*logits.shape[:-1], shape[0] * shape[1]), fill)
            logits = padded_logits.index_copy(-1, self.places, logits)
        return logits.reshape(*logits.shape[:-1], *shape)

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *rest: Any) -> None:
        """Load weights of a head with the same choices; raise `ConfigError` for other choices."""
        saved_counts = state_dict.get(f"{prefix}counts")
        if saved_counts is not None and saved_counts.tolist() != list(self.choices):
            raise ConfigError(
                f"its actions are choices among {saved_counts.tolist()}, those of this policy are among "
                f"{list(self.choices)}; choose an environment with the same spaces"
            )
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def sampler(self, n_steps: int, n_envs: int, generator: torch.Generator) -> HeadSampler:
        """Return a sampler: it adds normal noise to means and Gumbel noise to logits, and takes the mode."""
        noise = NoiseBlocks(
            lambda shape: self._noise(shape, generator, generator.device),
            n_steps,
            (n_envs, self.size),
        )
        return lambda outputs, t: self.mode(outputs + noise[t])

    def sample(self, outputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Sample an action for each row."""
        return self.mode(outputs + self._noise(tuple(outputs.shape), generator, outputs.device))

    def mode(self, outputs: Tensor) -> Tensor:
        """Return the most likely choices, and the means."""
        # argmax takes the first of equal values, so it never takes padding
        choices = self.pad_logits(outputs, -torch.inf).argmax(-1)
        if not self.vector_size:
            return choices
        return torch.cat([choices.to(outputs.dtype), outputs[..., self.n_logits :]], -1)

    def score(self, outputs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Return the log-probability of `actions` and the entropy, summed over all factors."""
        log_p = torch.log_softmax(self.pad_logits(outputs, MASKED_LOGIT), -1)
        log_prob = log_p.gather(-1, self.choice_index(actions)).sum((-2, -1))
        entropy = -(log_p.exp() * log_p).sum((-2, -1))
        if self.log_std is None:
            return log_prob, entropy
        vector_scores = score_vectors(outputs[..., self.n_logits :], self.log_std, self.vector_part(actions))
        return log_prob + vector_scores[0], entropy + vector_scores[1]

    def choice_index(self, actions: Tensor) -> Tensor:
        """Return the choices of actions as an index `[B, K, 1]`."""
        return actions[..., : len(self.choices)].long().unsqueeze(-1)

    def vector_part(self, actions: Tensor) -> Tensor:
        """Return the numbers of actions, `[B, vector_size]`."""
        return actions[..., len(self.choices) :]

    def _noise(
        self, shape: tuple[int, ...], generator: torch.Generator | None, device: torch.device
    ) -> Tensor:
        gumbel_noise = gumbel((*shape[:-1], self.n_logits), generator, device)
        if self.log_std is None:
            return gumbel_noise
        normal_noise = torch.randn((*shape[:-1], self.vector_size), generator=generator, device=device)
        return torch.cat([gumbel_noise, normal_noise.mul_(self.log_std.detach().exp())], -1)


class FactoredPolicy(MLPActorCritic):
    """Separate actor and critic MLPs; the actor computes the outputs of a `FactoredHead`.

    Parameters are those of `DiscretePolicy`, with `choices` and `vector` for the parts of an action and
    `log_std_init` for the initial log standard deviation of its numbers.
    """

    def __init__(
        self,
        obs_dim: int,
        choices: Sequence[int],
        vector: int = 0,
        net_arch: Sequence[int] = (64, 64),
        activation: str = "tanh",
        ortho_init: bool = True,
        log_std_init: float = 0.0,
        critic_net_arch: Sequence[int] | None = None,
    ) -> None:
        head = FactoredHead(choices, vector, log_std_init)
        super().__init__(obs_dim, head.size, net_arch, critic_net_arch, activation, ortho_init)
        self.head = head

    def outputs(self, obs: Tensor) -> Tensor:
        """Return the actor's outputs `[B, head.size]`."""
        outputs: Tensor = self.actor(obs)
        return outputs

    def inference_outputs(self) -> NetFunction:
        """Return `outputs` as a function for many small calls without gradients."""
        return inference_function(self.actor)

    def _choose_outputs_function(self) -> NetFunction:
        """Return the function of `inference_outputs`, or `outputs` if a user's class overrides `outputs`."""
        is_overridden = find_most_derived(self, "inference_outputs", "outputs") == "outputs"
        return self.outputs if is_overridden else self.inference_outputs()

    def sampler(self, n_steps: int, n_envs: int, generator: torch.Generator) -> Sampler:
        """Return a sampler that adds noise to the outputs and takes the head's mode."""
        sample = self.head.sampler(n_steps, n_envs, generator)
        outputs = self._choose_outputs_function()
        return lambda obs, t: sample(outputs(obs), t)

    def evaluate_actions(self, obs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return log-probability, entropy and value, each `[B]`."""
        return *self.head.score(self.outputs(obs), actions), self.get_value(obs)

    def mode(self, obs: Tensor) -> Tensor:
        """Return the most likely choices and the means, `[B, len(choices) + vector]`."""
        return self.head.mode(self._choose_outputs_function()(obs))

    def get_action_and_logprob(
        self, obs: Tensor, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Sample an action `[B, len(choices) + vector]`; return it and its log-probability `[B]`."""
        outputs = self.outputs(obs)
        action = self.head.sample(outputs.detach(), generator)
        return action, self.head.score(outputs, action)[0]


class MaskedFactoredPolicy(FactoredPolicy):
    """A `FactoredPolicy` for rows `[B, obs_dim + sum(choices)]`: the masks follow the observation."""

    def outputs(self, obs: Tensor) -> Tensor:
        """Return the actor's outputs, with `MASKED_LOGIT` for choices that are not allowed."""
        return self._with_mask_rows(self.actor)(obs)

    def inference_outputs(self) -> NetFunction:
        """Return `outputs` as a function for many small calls without gradients."""
        return self._with_mask_rows(super().inference_outputs())

    def get_value(self, obs: Tensor) -> Tensor:
        """Return V of the observations without masks, `[B]`."""
        return super().get_value(obs[..., : -self.head.n_logits])

    def _with_mask_rows(self, net: NetFunction) -> NetFunction:
        def mask_outputs(rows: Tensor) -> Tensor:
            outputs = net(rows[..., : -self.head.n_logits])
            is_forbidden = functional.pad(rows[..., -self.head.n_logits :] == 0, (0, self.head.vector_size))
            return outputs.masked_fill(is_forbidden, MASKED_LOGIT)

        return mask_outputs
