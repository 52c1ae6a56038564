"""The base class of built-in policies: an actor MLP and a critic MLP without shared parameters."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from rlox.networks import Traced, is_hooked, mlp, orthogonal_init, trace
from rlox.networks.mlp import parse_widths
from rlox.policies.base import ACTING_METHODS, ActorCritic

__all__ = ["MLPActorCritic"]


SCORING_METHODS = ("evaluate_actions", "get_logprob_and_entropy", "get_value", "logits", "outputs")
# Methods that rollouts and updates call, and that an engine in Rust replaces.
GUARDED_METHODS = (*SCORING_METHODS, *ACTING_METHODS, "scored")


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

    def traced(self, obs: Tensor, policy_class: type) -> tuple[Traced, Traced] | None:
        """Return traces of actor and critic; None if `evaluate_actions` must be called instead.

        Another class than `policy_class`, or an object with replaced methods, may compute something else. So
        the result is None for these. It is also None if the policy has hooks, or if actor and critic share
        parameters, whose gradient is the sum of both networks' gradients.
        """
        is_replaced = any(name in self.__dict__ for name in SCORING_METHODS)
        if type(self) is not policy_class or is_replaced or is_hooked(self):
            return None
        actor, critic = trace(self.actor, obs), trace(self.critic, obs)
        is_disjoint = {id(p) for p in actor.parameters}.isdisjoint(map(id, critic.parameters))
        return (actor, critic) if is_disjoint else None

    def get_value(self, obs: Tensor) -> Tensor:
        """Return V(obs), `[B]`."""
        value: Tensor = self.critic(obs)
        return value.squeeze(-1)
