"""PPO with a bonus for new observations: random network distillation (Burda et al. 2018)."""

from dataclasses import replace

import torch

from rlox.algorithms.assembly.on_policy import build_on_policy_run
from rlox.algorithms.ppo.learner import PPOLearner
from rlox.networks import init_weights, mlp
from rlox.optim import Adam
from rlox.runs.algorithm import Algorithm
from rlox.sources.rollout_collector import gae

FEATURES = 32


class PPORNDLearner(PPOLearner):
    """PPO on rewards with a bonus: the error of a network that predicts another, random network."""

    def __init__(self, policy, config, streams, obs_dim):
        super().__init__(policy, config, streams)
        self.random, self.predictor = (
            init_weights(mlp((obs_dim, 64, FEATURES)), streams.seed + i) for i in (1, 2)
        )
        self.predictor_optimizer = Adam(self.predictor, config.bonus_learning_rate)
        self.mean_square = torch.ones(1)  # of the bonus, over the rollouts so far

    def update(self, batch, clock):
        """Add the bonus to the rewards, estimate advantages again, and learn."""
        next_obs = batch.next_obs()
        with torch.no_grad():
            target = self.random(next_obs)
            error = (self.predictor(next_obs) - target).square().mean(-1)
            self.mean_square.lerp_(error.square().mean(), 0.1)
            bonus = error / self.mean_square.sqrt()
        batch.rewards.add_(self.config.bonus_coef * bonus)
        gae(batch, self.config.gamma, self.config.gae_lambda)
        for _ in range(self.config.n_epochs):
            loss = (self.predictor(next_obs) - target).square().mean()
            self.predictor_optimizer.minimize(loss, None)
        update = super().update(batch, clock)
        return replace(update, metrics={**update.metrics, "loss/rnd": float(loss.detach())})

    def state(self):
        """Return what a checkpoint saves; the random network follows from the seed."""
        state = super().state()
        rnd = {
            "predictor": {name: value.clone() for name, value in self.predictor.state_dict().items()},
            "adam": self.predictor_optimizer.state(),
            "mean_square": self.mean_square.clone(),
        }
        return {**state, "optimizer": {**state["optimizer"], "rnd": rnd}}

    def restore(self, state):
        """Continue from `state()`."""
        optimizer = dict(state["optimizer"])
        rnd = optimizer.pop("rnd")
        self.predictor.load_state_dict({n: torch.as_tensor(v) for n, v in rnd["predictor"].items()})
        self.predictor_optimizer.restore(rnd["adam"])
        self.mean_square.copy_(torch.as_tensor(rnd["mean_square"]))
        super().restore({**state, "optimizer": optimizer})


def make(config, context):
    """Make the components of a run."""

    def build_learner(policy, env, encoder_spec):
        return PPORNDLearner(policy, config.algo, context.streams, env.observations.dim)

    return build_on_policy_run(config, context, build_learner, minibatch_size=config.algo.batch_size)


class PPORND(Algorithm):
    """`PPORND("MountainCar-v0", bonus_coef=1.0).train(50_000)`."""

    name = "ppo_rnd"
    make = staticmethod(make)
