"""Policies: map observations to actions, log-probabilities and values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlox.lazy_imports import lazy_getattr

if TYPE_CHECKING:
    from rlox.policies.base import ActorCritic
    from rlox.policies.continuous import ContinuousPolicy, SDEPolicy
    from rlox.policies.discrete import DiscretePolicy
    from rlox.policies.factored import FactoredPolicy, MaskedFactoredPolicy
    from rlox.policies.masking import MaskedDiscretePolicy
    from rlox.policies.user_policy import UserPolicy, as_actor_critic, require_policy_fits

__all__ = [
    "ActorCritic",
    "ContinuousPolicy",
    "DiscretePolicy",
    "FactoredPolicy",
    "MaskedDiscretePolicy",
    "MaskedFactoredPolicy",
    "SDEPolicy",
    "UserPolicy",
    "as_actor_critic",
    "require_policy_fits",
]

__getattr__ = lazy_getattr(
    __name__,
    {
        "base": ("ActorCritic",),
        "continuous": ("ContinuousPolicy", "SDEPolicy"),
        "discrete": ("DiscretePolicy",),
        "factored": ("FactoredPolicy", "MaskedFactoredPolicy"),
        "masking": ("MaskedDiscretePolicy",),
        "user_policy": ("UserPolicy", "as_actor_critic", "require_policy_fits"),
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
