"""TD3+BC's update in torch."""

from __future__ import annotations

from typing import cast

from torch import Tensor

from rlox.algorithms.assembly.encoding import EncoderSpec
from rlox.algorithms.td3.learner import TD3Learner, build_encoded_policy
from rlox.configs import RunConfig, TD3BCConfig
from rlox.envs.actions import ActionCodec
from rlox.networks import ActionValues
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

    def _improve_actor(self, obs: Tensor, dataset_actions: Tensor) -> Tensor:
        """Take one step on -lambda E[Q_1(s, mu(s))] + E[(mu(s) - a)^2], eq. 3 and 5; return that loss.

        lambda = alpha / E|Q_1| is treated as a constant. The squared error is a mean over the numbers of an
        action too, as in the authors' code.
        """
        action, learn = self.policy.act(obs)
        first_q = ActionValues(self.policy.critic, obs, action, members=1)
        weight = self._alpha / first_q.out.abs().mean().clamp(min=MIN_SCALE)
        errors = action - dataset_actions
        slope = first_q.back((-weight / len(obs)).expand_as(first_q.out))
        learn(slope.add_(errors, alpha=2.0 / errors.numel()))
        self.actor_optimizer.clip(self.config.max_grad_norm)
        self.actor_optimizer.step()
        loss: Tensor = errors.square().mean() - weight * first_q.out.mean()
        return loss


def build_torch(
    config: RunConfig, context: BuildContext, encoder_spec: EncoderSpec, actions: ActionCodec
) -> tuple[DeterministicPolicy, TD3BCLearner]:
    """Build the policy and its learner."""
    algo = cast(TD3BCConfig, config.algo)
    policy = build_encoded_policy(algo, config.seed, encoder_spec, actions.size).to(context.device)
    return policy, TD3BCLearner(policy, algo, UpdateNoise(context.streams))
