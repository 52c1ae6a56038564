"""SAC with a penalty on large actions: one more term in the actor's loss."""

from rlox.algorithms.assembly.off_policy import build_off_policy_run
from rlox.algorithms.sac.learner import SACLearner, build_continuous
from rlox.runs.algorithm import Algorithm


class SmallActionsLearner(SACLearner):
    """SAC's learner with a mean squared action in the actor's loss."""

    def _actor_loss(self, obs, actions, log_prob, alpha):
        loss = super()._actor_loss(obs, actions, log_prob, alpha)
        return loss + self.config.action_cost * actions.square().mean()


def make(config, context):
    """Make the components of a run."""

    def build_learner(env, encoder_spec, selector):
        actions = env.actions.unit_codec(config.env.id, config.algo.name)
        return build_continuous(config, context, env, encoder_spec, actions, learner=SmallActionsLearner)

    return build_off_policy_run(config, context, build_learner)


class SACSmallActions(Algorithm):
    """`SACSmallActions("Pendulum-v1", action_cost=1.0).train(10_000)`."""

    name = "sac_small_actions"
    make = staticmethod(make)
