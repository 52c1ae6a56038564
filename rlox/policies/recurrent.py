"""Actor and critic with a memory: what they say of an observation depends on the episode so far.

A state is one row of float32 numbers for each environment, zeros where an episode begins. Whoever
steps the environments owns it: the collector while training, the caller of `predict`, the evaluator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from rlox.networks import Recurrence, mlp, orthogonal_init
from rlox.networks.recurrent import Pieces
from rlox.policies.heads import Head

__all__ = ["RecurrentActorCritic", "Replayed", "Stepper"]

# Maps observations `[N, obs_dim]` and acting states of rollout step t to actions and states after them.
Stepper = Callable[[Tensor, Tensor, int], tuple[Tensor, Tensor]]


class Replayed(NamedTuple):
    """What actor and critic say of whole sequences, in the order of their rows."""

    outputs: Tensor  # [T*N, head.size]
    values: Tensor  # [T*N]
    ends: Tensor  # [K, state_size]: the states at the end of each piece


class RecurrentActorCritic(nn.Module):
    """A recurrence, then an MLP, for the actor and for the critic.

    The critic has a recurrence of its own (`critic="own"`), reads the actor's without training it
    (`"shared"`) or has none and sees observations only (`"none"`). With `ortho_init` recurrent layers
    have gain 1, hidden ones sqrt 2, the actor's head 0.01, the critic's 1.

    Parameters
    ----------
    obs_dim : length of the observation vector
    head : the distribution of actions
    kind, hidden, layers : of the recurrences (`Recurrence`)
    critic : `own`, `shared` or `none`
    net_arch, critic_net_arch : hidden widths of the MLPs behind them
    activation : of these, `tanh`, `relu`, `elu` or `silu`
    ortho_init : orthogonal initialisation
    encoders : of the actor and of the critic, perhaps the same, from rows to `obs_dim` features
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
    ) -> None:
        super().__init__()
        self.head = head
        self.actor_encoder: nn.Module | None = encoders[0] if encoders else None
        # a shared one is there once, so that saved weights say whether it is
        apart = encoders is not None and encoders[1] is not encoders[0]
        self.critic_encoder: nn.Module | None = encoders[1] if encoders and apart else None
        self.actor_rnn = Recurrence(kind, obs_dim, hidden, layers)
        self.critic_rnn = Recurrence(kind, obs_dim, hidden, layers) if critic == "own" else None
        self._critic = critic
        self.actor = mlp((hidden, *net_arch, head.size), activation)
        widths = net_arch if critic_net_arch is None else critic_net_arch
        self.critic = mlp((obs_dim if critic == "none" else hidden, *widths, 1), activation)
        # of a row of state, the actor's part comes first: all that acting needs
        self.acting_size = self.actor_rnn.state_size
        self.state_size = self.acting_size * (2 if critic == "own" else 1)
        if ortho_init:
            orthogonal_init(self.actor, 0.01)
            orthogonal_init(self.critic, 1.0)
            for rnn in (self.actor_rnn, self.critic_rnn):
                if rnn is not None:
                    rnn.orthogonal_init()

    def act(self, obs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One step of acting: the head's outputs `[N, size]`, and the states `[N, acting_size]` after it."""
        features, after = self.actor_rnn.step(_encoded(self.actor_encoder, obs), state)
        outputs: Tensor = self.actor(features)
        return outputs, after

    def stepper(self, n_steps: int, n_envs: int, generator: torch.Generator) -> Stepper:
        """Exploration for one rollout; all its randomness comes from `generator`."""
        explore = self.head.explorer(n_steps, n_envs, generator)

        def step(obs: Tensor, state: Tensor, t: int) -> tuple[Tensor, Tensor]:
            outputs, after = self.act(obs, state)
            return explore(outputs, t), after

        return step

    def replay(self, obs: Tensor, state: Tensor, pieces: Pieces) -> Replayed:
        """Whole sequences: `obs` `[T*N, obs_dim]`, cut as `pieces`, from the states `[N, state_size]`."""
        own, rows = self.acting_size, obs
        obs = _encoded(self.actor_encoder, obs)
        features, ends = self.actor_rnn(obs, state[:, :own], pieces)
        if self.critic_encoder is not None and self._critic != "shared":
            obs = _encoded(self.critic_encoder, rows)
        seen = features.detach() if self._critic == "shared" else obs
        if self.critic_rnn is not None:
            seen, more = self.critic_rnn(obs, state[:, own:], pieces)
            ends = torch.cat([ends, more], -1)
        return Replayed(self.actor(features), self.critic(seen).squeeze(-1), ends)

    def evaluate_actions(
        self, obs: Tensor, actions: Tensor, state: Tensor, pieces: Pieces
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Log-probability of `actions`, entropy and value of each row of whole sequences."""
        said = self.replay(obs, state, pieces)
        return *self.head.score(said.outputs, actions), said.values

    def get_value(self, obs: Tensor, state: Tensor) -> Tensor:
        """V `[N]` of observations `[N, obs_dim]` that follow what led to the states `[N, state_size]`."""
        shared = self._critic == "shared" or self.critic_encoder is None
        seen = _encoded(self.actor_encoder if shared else self.critic_encoder, obs)
        if self.critic_rnn is not None:
            seen, _ = self.critic_rnn.step(seen, state[:, self.acting_size :])
        elif self._critic == "shared":
            seen, _ = self.actor_rnn.step(seen, state)
        value: Tensor = self.critic(seen)
        return value.squeeze(-1)


def _encoded(encoder: nn.Module | None, obs: Tensor) -> Tensor:
    """Features of rows; the rows themselves where nothing encodes them."""
    if encoder is None:
        return obs
    features: Tensor = encoder(obs)
    return features
