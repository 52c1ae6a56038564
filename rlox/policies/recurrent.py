"""Recurrent actor and critic: their outputs depend on the episode so far.

A state is one row of float32 numbers for each environment, zeros at the start of an episode. The caller
that steps the environments stores it: the collector in training, the caller of `predict`, the evaluator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from rlox.networks import RecurrentLayers, mlp, orthogonal_init
from rlox.networks.recurrent import SubSequences
from rlox.policies.heads import Head

__all__ = ["RecurrentActorCritic", "SequenceOutputs", "Stepper"]

# Maps observations `[N, obs_dim]` and acting states of rollout step t to actions and next states.
Stepper = Callable[[Tensor, Tensor, int], tuple[Tensor, Tensor]]


class SequenceOutputs(NamedTuple):
    """Outputs of actor and critic for each row of whole sequences."""

    outputs: Tensor  # [T*N, head.size]
    values: Tensor  # [T*N]
    end_states: Tensor  # [K, state_size]: the state at the end of each sub-sequence


class RecurrentActorCritic(nn.Module):
    """Recurrent layers followed by an MLP, for the actor and for the critic.

    The critic has its own recurrent layers (`critic="own"`), takes the output of the actor's recurrent layers
    without training them (`"shared"`), or has none and sees only the present observation (`"none"`).
    `ortho_init` initialises weights orthogonally: with gain 1 in recurrent layers, sqrt 2 in hidden layers,
    0.01 in the actor's last layer, and 1 in the critic's.

    Parameters
    ----------
    obs_dim : length of the observation vector
    head : the distribution of actions
    kind, hidden, layers : arguments of `RecurrentLayers`
    critic : `own`, `shared` or `none`
    net_arch, critic_net_arch : hidden widths of the MLPs after the recurrent layers
    activation : activation of the MLPs, `tanh`, `relu`, `elu` or `silu`
    ortho_init : orthogonal initialisation
    encoders : the encoders of actor and critic, perhaps one object; they map rows to features
    actor_obs_dim : number of the features of the actor, if they are not `obs_dim` as the critic's
    """

    def __init__(
        self,
        obs_dim: int,
        head: Head,
        kind: str = "lstm",
        hidden: int = 256,
        layers: int = 1,
        critic: str = "own",
        net_arch: Sequence[int] = (64, 64),
        critic_net_arch: Sequence[int] | None = None,
        activation: str = "tanh",
        ortho_init: bool = True,
        encoders: tuple[nn.Module, nn.Module] | None = None,
        actor_obs_dim: int | None = None,
    ) -> None:
        super().__init__()
        actor_inputs = obs_dim if actor_obs_dim is None else actor_obs_dim
        self.head = head
        self.actor_encoder: nn.Module | None = encoders[0] if encoders else None
        # a shared encoder is registered once, so saved weights show whether it is shared
        is_separate = encoders is not None and encoders[1] is not encoders[0]
        self.critic_encoder: nn.Module | None = encoders[1] if encoders and is_separate else None
        self.actor_rnn = RecurrentLayers(kind, actor_inputs, hidden, layers)
        self.critic_rnn = RecurrentLayers(kind, obs_dim, hidden, layers) if critic == "own" else None
        self._critic_kind = critic
        self.actor = mlp((hidden, *net_arch, head.size), activation)
        widths = net_arch if critic_net_arch is None else critic_net_arch
        self.critic = mlp((obs_dim if critic == "none" else hidden, *widths, 1), activation)
        # a state row begins with the actor's part, which is all that acting needs
        self.actor_state_size = self.actor_rnn.state_size
        self.state_size = self.actor_state_size * (2 if critic == "own" else 1)
        if ortho_init:
            orthogonal_init(self.actor, 0.01)
            orthogonal_init(self.critic, 1.0)
            for rnn in (self.actor_rnn, self.critic_rnn):
                if rnn is not None:
                    rnn.orthogonal_init()

    def act(self, obs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Act for one step: return head outputs `[N, size]` and next states `[N, actor_state_size]`."""
        features, next_state = self.actor_rnn.step(_encode(self.actor_encoder, obs), state)
        outputs: Tensor = self.actor(features)
        return outputs, next_state

    def stepper(self, n_steps: int, n_envs: int, generator: torch.Generator) -> Stepper:
        """Return the function that acts in one rollout; all randomness comes from `generator`."""
        sample = self.head.sampler(n_steps, n_envs, generator)

        def step(obs: Tensor, state: Tensor, t: int) -> tuple[Tensor, Tensor]:
            outputs, next_state = self.act(obs, state)
            return sample(outputs, t), next_state

        return step

    def forward_sequences(self, obs: Tensor, state: Tensor, subsequences: SubSequences) -> SequenceOutputs:
        """Process `obs` `[T*N, obs_dim]`, cut as `subsequences`, from the states `[N, state_size]` on."""
        actor_size, raw_obs = self.actor_state_size, obs
        obs = _encode(self.actor_encoder, obs)
        features, end_states = self.actor_rnn(obs, state[:, :actor_size], subsequences)
        if self.critic_encoder is not None and self._critic_kind != "shared":
            obs = _encode(self.critic_encoder, raw_obs)
        critic_input = features.detach() if self._critic_kind == "shared" else obs
        if self.critic_rnn is not None:
            critic_input, critic_ends = self.critic_rnn(obs, state[:, actor_size:], subsequences)
            end_states = torch.cat([end_states, critic_ends], -1)
        return SequenceOutputs(self.actor(features), self.critic(critic_input).squeeze(-1), end_states)

    def evaluate_actions(
        self, obs: Tensor, actions: Tensor, state: Tensor, subsequences: SubSequences
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return log-probability of `actions`, entropy and value of each row of whole sequences."""
        outputs = self.forward_sequences(obs, state, subsequences)
        return *self.head.score(outputs.outputs, actions), outputs.values

    def get_value(self, obs: Tensor, state: Tensor) -> Tensor:
        """Return V `[N]` of observations `[N, obs_dim]`, given the states `[N, state_size]` before them."""
        uses_actor_encoder = self._critic_kind == "shared" or self.critic_encoder is None
        critic_input = _encode(self.actor_encoder if uses_actor_encoder else self.critic_encoder, obs)
        if self.critic_rnn is not None:
            critic_input, _ = self.critic_rnn.step(critic_input, state[:, self.actor_state_size :])
        elif self._critic_kind == "shared":
            critic_input, _ = self.actor_rnn.step(critic_input, state)
        value: Tensor = self.critic(critic_input)
        return value.squeeze(-1)


def _encode(encoder: nn.Module | None, obs: Tensor) -> Tensor:
    """Return the encoder's features of rows, or the rows themselves if there is no encoder."""
    if encoder is None:
        return obs
    features: Tensor = encoder(obs)
    return features
