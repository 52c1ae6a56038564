"""The base class of built-in policies: an actor MLP and a critic MLP without shared parameters."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from rlox.networks import mlp, orthogonal_init
from rlox.networks.mlp import parse_widths
from rlox.policies.base import ACTING_METHODS, ActorCritic

__all__ = ["MLPActorCritic"]


SCORING_METHODS = ("evaluate_actions", "get_logprob_and_entropy", "get_value", "logits", "outputs")
# Methods that rollouts and updates call, and that an engine in Rust replaces.
GUARDED_METHODS = (*SCORING_METHODS, *ACTING_METHODS)


class MLPActorCritic(ActorCritic):
    """`actor` maps observations to `n_outputs` numbers, `critic` to one.

    With `ortho_init` the weights are initialised orthogonally: with gain sqrt 2 in hidden layers, 0.01 in the
    actor's last layer, and 1 in the critic's.
    """

    def __init__(
        self,
        obs_dim: int,
        n_outputs: int,
        widths: Sequence[int],
        critic_widths: Sequence[int] | None,
        activation: str,
        ortho_init: bool,
    ) -> None:
        super().__init__()
        self.actor = mlp((obs_dim, *widths, n_outputs), activation)
        if critic_widths is not None:
            widths = parse_widths("critic_net_arch", critic_widths)
        self.critic = mlp((obs_dim, *widths, 1), activation)
        if ortho_init:
            orthogonal_init(self.actor, 0.01)
            orthogonal_init(self.critic, 1.0)

    def get_value(self, obs: Tensor) -> Tensor:
        """Return V(obs), `[B]`."""
        value: Tensor = self.critic(obs)
        return value.squeeze(-1)
