"""PPO with a bonus for new observations: random network distillation (Burda et al. 2018)."""

from dataclasses import replace

import torch

from rlox.algorithms.assembly.on_policy import build_on_policy_run
from rlox.algorithms.ppo.learner import PPOLearner
from rlox.errors import ConfigError
from rlox.networks import mlp
from rlox.optim import Adam
from rlox.runs.algorithm import Algorithm
from rlox.sources.rollout_collector import gae

FEATURES = 32


class PPORNDLearner(PPOLearner):
    """PPO on rewards with a bonus: the error of a network that predicts another, random network.

    The bonus is divided by its standard deviation in the rollout. The paper divides by that of the bonus's
    returns over the run, has a value function for the bonus alone, which does not end with episodes, and
    standardises and clips observations. Here `env.normalize_obs=true` does the last of these.
    """

    def __init__(self, policy, config, streams, networks):
        super().__init__(policy, config, streams)
        self.random, self.predictor = networks
        self.predictor_optimizer = Adam(self.predictor, config.bonus_learning_rate)

    @torch.enable_grad()
    def update(self, batch, clock):
        """Add the bonus to the rewards, estimate advantages again, and learn."""
        next_obs = batch.next_obs()
        with torch.no_grad():
            target = self.random(next_obs)
            error = (self.predictor(next_obs) - target).square().mean(-1)
            bonus = error / (error.std() + 1e-8)
        batch.rewards.add_(self.config.bonus_coef * bonus)
        gae(batch, self.config.gamma, self.config.gae_lambda)
        for _ in range(self.config.n_epochs):
            loss = (self.predictor(next_obs) - target).square().mean()
            self.predictor_optimizer.minimize(loss, None)
        update = super().update(batch, clock)
        metrics = {**update.metrics, "loss/rnd": float(loss.detach()), "rnd/bonus": float(bonus.mean())}
        return replace(update, metrics=metrics)

    def state(self):
        """Return what a checkpoint saves; the random network follows from the run's seed."""
        state = super().state()
        rnd = {
            "predictor": {name: value.clone() for name, value in self.predictor.state_dict().items()},
            "adam": self.predictor_optimizer.state(),
        }
        return {**state, "optimizer": {**state["optimizer"], "rnd": rnd}}

    def restore(self, state):
        """Continue from `state()`."""
        optimizer = dict(state["optimizer"])
        rnd = optimizer.pop("rnd")
        self.predictor.load_state_dict({n: torch.as_tensor(v) for n, v in rnd["predictor"].items()})
        self.predictor_optimizer.restore(rnd["adam"])
        super().restore({**state, "optimizer": optimizer})


def make(config, context):
    """Make the components of a run."""
    if context.device_name != "cpu":
        raise ConfigError(f"ppo_rnd learns on the CPU, got device={context.device_name}; set device=cpu")

    def build_learner(policy, env, encoder_spec):
        if env.observations.images:
            raise ConfigError(f"ppo_rnd takes vectors, but {config.env.id} has images; use algo=ppo")
        with context.streams.seeded_generators("rnd"):
            networks = [mlp((env.observations.dim, 64, FEATURES)) for _ in ("random", "predictor")]
        return PPORNDLearner(policy, config.algo, context.streams, networks)

    return build_on_policy_run(config, context, build_learner, minibatch_size=config.algo.batch_size)


class PPORND(Algorithm):
    """`PPORND("MountainCar-v0", bonus_coef=1.0).train(50_000)`."""

    name = "ppo_rnd"
    make = staticmethod(make)
