"""TD3+BC's update in torch."""

from __future__ import annotations

from typing import cast

from torch import Tensor

from rlox.algorithms.encoding import Encoding
from rlox.algorithms.torch_td3 import TD3Learner, made
from rlox.configs import RunConfig, TD3BCConfig
from rlox.envs.actions import ActionCodec
from rlox.networks import ActionValues
from rlox.policies.deterministic import DeterministicPolicy
from rlox.training.learner import Noise, UpdateNoise
from rlox.training.parts import Tools

__all__ = ["TD3BCLearner", "composed"]

LEAST = 1e-12  # of the mean size of values, which is divided by


class TD3BCLearner(TD3Learner):
    """TD3's networks, and an actor that is held to the dataset's actions."""

    def __init__(self, policy: DeterministicPolicy, config: TD3BCConfig, noise: Noise) -> None:
        super().__init__(policy, config, noise)
        self._alpha = config.alpha

    def _improve_actor(self, obs: Tensor, taken: Tensor) -> Tensor:
        """One step along that of -lambda E[Q_1(s, mu(s))] + E[(mu(s) - a)^2]; that loss, eq. 3 and 5.

        lambda = alpha / E|Q_1|, of which no gradient is taken; the error is a mean over numbers too, as
        in the authors' code.
        """
        action, learn = self.policy.act(obs)
        first = ActionValues(self.policy.critic, obs, action, members=1)
        weight = self._alpha / first.out.abs().mean().clamp(min=LEAST)
        far = action - taken
        slope = first.back((-weight / len(obs)).expand_as(first.out))
        learn(slope.add_(far, alpha=2.0 / far.numel()))
        self.actor.clip(self.config.max_grad_norm)
        self.actor.step()
        loss: Tensor = far.square().mean() - weight * first.out.mean()
        return loss


def composed(
    config: RunConfig, tools: Tools, encoding: Encoding, actions: ActionCodec
) -> tuple[DeterministicPolicy, TD3BCLearner]:
    """The policy and what it learns by."""
    algo = cast(TD3BCConfig, config.algo)
    policy = made(algo, config.seed, encoding, actions.size).to(tools.device)
    return policy, TD3BCLearner(policy, algo, UpdateNoise(tools.streams))
