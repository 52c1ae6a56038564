"""What the built-in policies share: an actor MLP and a critic MLP with no parameters in common."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from rlox.networks import mlp, orthogonal_init
from rlox.policies.base import ActorCritic

__all__ = ["MLPActorCritic"]


class MLPActorCritic(ActorCritic):
    """`actor` maps observations to `outputs` numbers, `critic` to one.

    With `ortho_init` the hidden layers have gain sqrt 2, the actor's head 0.01, the critic's 1.
    """

    def __init__(
        self,
        obs_dim: int,
        outputs: int,
        widths: Sequence[int],
        critic_widths: Sequence[int] | None,
        activation: str,
        ortho_init: bool,
    ) -> None:
        super().__init__()
        self.actor = mlp((obs_dim, *widths, outputs), activation)
        critic = widths if critic_widths is None else critic_widths
        self.critic = mlp((obs_dim, *critic, 1), activation)
        if ortho_init:
            orthogonal_init(self.actor, 0.01)
            orthogonal_init(self.critic, 1.0)

    def get_value(self, obs: Tensor) -> Tensor:
        """V(obs), `[B]`."""
        value: Tensor = self.critic(obs)
        return value.squeeze(-1)
