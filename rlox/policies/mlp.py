"""What the built-in policies share: an actor MLP and a critic MLP with no parameters in common."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from rlox.networks import Traced, hooked, mlp, orthogonal_init, trace
from rlox.networks.mlp import given_widths
from rlox.policies.base import ACTING, ActorCritic

__all__ = ["MLPActorCritic"]


EVALUATING = ("evaluate_actions", "get_logprob_and_entropy", "get_value", "logits", "outputs")
# What rollouts and updates ask, which an engine in Rust takes the place of.
ASKED = (*EVALUATING, *ACTING, "scored")


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
        if critic_widths is not None:
            widths = given_widths("critic_net_arch", critic_widths)
        self.critic = mlp((obs_dim, *widths, 1), activation)
        if ortho_init:
            orthogonal_init(self.actor, 0.01)
            orthogonal_init(self.critic, 1.0)

    def traced(self, obs: Tensor, own: type) -> tuple[Traced, Traced] | None:
        """What actor and critic say and their ways back; None where `evaluate_actions` has to be asked.

        That is of another class than `own`, whose methods may be others, as may be those that somebody gave
        this object; with hooks; and where the networks share parameters, which learn from both.
        """
        replaced = any(name in self.__dict__ for name in EVALUATING)
        if type(self) is not own or replaced or hooked(self):
            return None
        actor, critic = trace(self.actor, obs), trace(self.critic, obs)
        apart = {id(p) for p in actor.parameters}.isdisjoint(map(id, critic.parameters))
        return (actor, critic) if apart else None

    def get_value(self, obs: Tensor) -> Tensor:
        """V(obs), `[B]`."""
        value: Tensor = self.critic(obs)
        return value.squeeze(-1)
