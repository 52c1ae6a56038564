"""TD3+BC's update in torch."""

from __future__ import annotations

from typing import cast

from torch import Tensor

from rlox.algorithms.assembly.encoding import EncoderSpec
from rlox.algorithms.td3.learner import TD3Learner, build_encoded_policy
from rlox.configs import RunConfig, TD3BCConfig
from rlox.envs.actions import ActionCodec
from rlox.networks.critics import q_values
from rlox.networks.gradients import require_path
from rlox.policies.deterministic import DeterministicPolicy
from rlox.training.components import BuildContext
from rlox.training.learner import NoiseFunction, UpdateNoise

__all__ = ["TD3BCLearner", "build_torch"]

MIN_SCALE = 1e-12  # lower limit of the divisor E|Q|


class TD3BCLearner(TD3Learner):
    """TD3 with a behavioural cloning term in the actor's loss."""

    def __init__(self, policy: DeterministicPolicy, config: TD3BCConfig, noise: NoiseFunction) -> None:
        super().__init__(policy, config, noise)
        self._alpha = config.alpha
        self._is_checked = False  # whether gradients were seen to lead from the critics to the actor

    def _actor_loss(self, obs: Tensor, dataset_actions: Tensor) -> Tensor:
        """Return -lambda E[Q_1(s, mu(s))] + E[(mu(s) - a)^2], eq. 3 and 5.

        lambda = alpha / E|Q_1| is treated as a constant. The squared error is a mean over the numbers of an
        action too, as in the authors' code.
        """
        action = self.policy.act(obs)
        q = q_values(self.policy.critic, obs, action, members=1)
        if not self._is_checked:  # once: else the actor would silently learn to imitate alone
            require_path(q, action, "the actor's actions")
            self._is_checked = True
        weight = self._alpha / q.detach().abs().mean().clamp(min=MIN_SCALE)
        return (action - dataset_actions).square().mean() - weight * q.mean()


def build_torch(
    config: RunConfig, context: BuildContext, encoder_spec: EncoderSpec, actions: ActionCodec
) -> tuple[DeterministicPolicy, TD3BCLearner]:
    """Build the policy and its learner."""
    algo = cast(TD3BCConfig, config.algo)
    policy = build_encoded_policy(algo, config.seed, encoder_spec, actions.size).to(context.device)
    return policy, TD3BCLearner(policy, algo, UpdateNoise(context.streams))
