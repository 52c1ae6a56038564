"""CrossQ: SAC with batch normalisation in the critics and without target networks (Bhatt et al. 2024).

The paper has batch renormalisation, in the actor too, and critics that are 2,048 wide
(`algo.critic_net_arch=[2048,2048]`).
"""

from itertools import pairwise

import torch
from torch import nn

from rlox.algorithms.assembly.off_policy import build_off_policy_run
from rlox.algorithms.sac.learner import HALF, SACLearner, build_actor, build_continuous
from rlox.losses import critics_loss, td_target
from rlox.networks.mlp import ACTIVATIONS
from rlox.optim import Adam
from rlox.policies.base import evaluation_mode
from rlox.policies.soft import SquashedSACPolicy
from rlox.runs.algorithm import Algorithm
from rlox.training.learner import ActorCriticLearner, cast_obs, make_temperature

BETAS = (0.5, 0.999)  # of Adam, table 4


def normed_mlp(sizes, activation, momentum):
    """Return an MLP with batch normalisation of its input and of each hidden layer."""
    layers = []
    for i, (inputs, outputs) in enumerate(pairwise(sizes)):
        layers += [ACTIVATIONS[activation]()] if i else []
        layers += [nn.BatchNorm1d(inputs, momentum=momentum), nn.Linear(inputs, outputs)]
    return nn.Sequential(*layers)


class NormedCritics(nn.Module):
    """Critics with batch normalisation."""

    def __init__(self, members, sizes, activation, momentum):
        super().__init__()
        self.members = nn.ModuleList(normed_mlp(sizes, activation, momentum) for _ in range(members))

    def with_actions(self, obs, actions, members=None):
        """Map `[B, features]` and `[B, act_dim]` to `[members, B, 1]`."""
        rows = torch.cat([obs, actions], -1)
        return torch.stack([critic(rows) for critic in self.members[:members]])


class CrossQLearner(SACLearner):
    """SAC without targets, whose critics see stored and new actions in one batch."""

    metric_names = (
        "loss/critic",
        "loss/actor",
        "value/q_mean",
        "policy/entropy",
        "policy/temperature",
        "train/grad_norm",
    )

    def __init__(self, policy, config, target_entropy, noise):
        self.config, self.noise = config, noise
        lr = config.initial("learning_rate")
        self.actor_optimizer = Adam(policy.actor, lr, betas=BETAS, eps=1e-8)
        self.critic_optimizer = Adam(policy.critic, lr, betas=BETAS, eps=1e-8)
        self.temperature = make_temperature(
            config.temperature, target_entropy, lr, self.critic_optimizer.vector
        )
        parts = {
            "actor": self.actor_optimizer,
            "critic": self.critic_optimizer,
            "temperature": self.temperature,
        }
        # not SACLearner's constructor, which makes a target network
        ActorCriticLearner.__init__(self, policy, parts, targets=[])

    def _step(self, batch, i, update):
        """Update the critics and, every `policy_delay` updates, actor and temperature."""
        policy, config, alpha = self.policy, self.config, self.temperature.alpha
        obs = cast_obs(batch.obs[i], self.critic_optimizer.vector)
        noise, critic_noise = self._noise(update, len(obs), self.critic_optimizer.vector)
        critic_loss, q, error, grad_norm = self._improve_critics(batch, i, obs, alpha, critic_noise)

        actions, log_prob = policy.draw(obs, noise)
        with evaluation_mode(policy.critic):  # the actor's loss uses the running mean and variance
            actor_loss = self._actor_loss(obs, actions, log_prob, alpha)
        if (update + 1) % config.policy_delay == 0:
            self.actor_optimizer.minimize(actor_loss, config.max_grad_norm)
            self.temperature.learn(log_prob, self.actor_optimizer.lr)
        metrics = [critic_loss, actor_loss, q.mean(), -log_prob.mean(), alpha, grad_norm]
        return torch.stack(metrics), error

    def _improve_critics(self, batch, i, obs, alpha, noise):
        """Step the critics; return loss, values `[members, B]`, absolute error `[B]` and gradient norm."""
        policy, like = self.policy, self.critic_optimizer.vector
        next_obs = cast_obs(batch.next_obs[i], like)
        with torch.no_grad():
            next_actions, next_log_prob = policy.draw(next_obs, noise)
        # one batch of both, so that normalisation sees stored and new actions together (section 3)
        pairs = torch.cat([obs, next_obs]), torch.cat([batch.actions[i].to(like), next_actions])
        q, next_q = policy.action_values(policy.critic, *pairs).chunk(2, -1)
        next_value = next_q.detach().amin(0) - alpha * next_log_prob
        target = td_target(batch.rewards[i].to(like), batch.discounts[i].to(like), next_value)
        weights = None if batch.weights is None else batch.weights[i].to(like)
        loss = HALF * critics_loss(q, target, weights)
        grad_norm = self.critic_optimizer.minimize(loss, self.config.max_grad_norm)
        return loss, q, (q - target).abs().mean(0), grad_norm


def build_policy(algo, encoder_spec, act_dim):
    """Build the actor of SAC, and critics with batch normalisation; they take features."""
    sizes = (encoder_spec.features + act_dim, *algo.hidden_widths[1], 1)
    critics = NormedCritics(algo.n_critics, sizes, algo.activation, algo.bn_momentum)
    return SquashedSACPolicy(build_actor(algo, encoder_spec.actor_features, act_dim), critics)


def make(config, context):
    """Make the components of a run."""

    def build_learner(env, encoder_spec, selector):
        actions = env.actions.unit_codec(config.env.id, config.algo.name)
        return build_continuous(config, context, env, encoder_spec, actions, build_policy, CrossQLearner)

    return build_off_policy_run(config, context, build_learner)


class CrossQ(Algorithm):
    """`CrossQ("Pendulum-v1", net_arch=[64, 64]).train(10_000)`."""

    name = "crossq"
    make = staticmethod(make)
