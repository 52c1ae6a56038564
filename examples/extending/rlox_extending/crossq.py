"""CrossQ: SAC with batch normalisation in the critics and without target networks (Bhatt et al. 2024).

The paper has batch renormalisation, in the actor too, and critics that are 2,048 wide
(`algo.critic_net_arch=[2048,2048]`).
"""

from itertools import pairwise

import torch
from torch import nn

from rlox.algorithms.assembly.off_policy import OffPolicyComponents, build_off_policy_run
from rlox.errors import ConfigError
from rlox.losses import critics_loss, soft_policy_loss, td_target
from rlox.networks import SquashedGaussianPolicy
from rlox.networks.mlp import ACTIVATIONS
from rlox.optim import Adam
from rlox.policies.base import Policy
from rlox.policies.exploration import NoisyExploration
from rlox.runs.algorithm import Algorithm
from rlox.training.learner import (
    ActorCriticLearner,
    LearnedTemperature,
    Temperature,
    UpdateNoise,
    learn_each,
    require_finite_parameters,
)
from rlox.types import update_label

METRIC_NAMES = ("loss/critic", "loss/actor", "value/q_mean", "policy/alpha", "train/grad_norm")
BETAS = (0.5, 0.999)  # of Adam, table 4


class Critic(nn.Module):
    """Q(s, a): an MLP with batch normalisation of its input and of each hidden layer."""

    def __init__(self, n_inputs, widths, activation, momentum):
        super().__init__()
        layers = [nn.BatchNorm1d(n_inputs, momentum=momentum)]
        for inputs, outputs in pairwise((n_inputs, *widths)):
            layers += [nn.Linear(inputs, outputs), ACTIVATIONS[activation]()]
            layers.append(nn.BatchNorm1d(outputs, momentum=momentum))
        self.net = nn.Sequential(*layers, nn.Linear(widths[-1], 1))

    def forward(self, obs, actions):
        """Map `[B, obs_dim]` and `[B, act_dim]` to `[B]`."""
        return self.net(torch.cat([obs, actions], -1)).squeeze(-1)


class CrossQPolicy(Policy):
    """A squashed Gaussian actor, and critics."""

    def __init__(self, actor, critics):
        super().__init__()
        self.actor, self.critics = actor, nn.ModuleList(critics)

    def mode(self, obs):
        """Return the action of the mean."""
        return self.actor.mode(obs)

    def sample(self, obs, generator=None):
        """Sample an action."""
        return self.actor.sample(obs, generator)[0]

    def q_values(self, obs, actions):
        """Return Q_i(s, a), `[critics, B]`."""
        return torch.stack([critic(obs, actions) for critic in self.critics])


class CrossQLearner(ActorCriticLearner):
    """Updates critics, temperature and actor from batches of transitions."""

    def __init__(self, policy, config, target_entropy, noise):
        self.config, self.noise = config, noise
        lr = config.initial("learning_rate")
        self.actor_optimizer = Adam(policy.actor, lr, betas=BETAS)
        self.critic_optimizer = Adam(policy.critics, lr, betas=BETAS)
        learned, alpha = config.temperature
        like = self.critic_optimizer.vector
        self.temperature = (
            LearnedTemperature(alpha, target_entropy, lr, like) if learned else Temperature(alpha, like)
        )
        parts = {
            "actor": self.actor_optimizer,
            "critic": self.critic_optimizer,
            "temperature": self.temperature,
        }
        super().__init__(policy, parts, targets=[])

    @torch.enable_grad()
    def update(self, batch, clock):
        """Learn from each batch."""
        label, batch = update_label(batch, clock), batch.to(self.critic_optimizer.vector.device)
        self.actor_optimizer.lr = self.critic_optimizer.lr = self.config.at("learning_rate", clock.remaining)
        self.policy.train()
        update = learn_each(batch, lambda i: self._step(batch, i, clock.updates + i), METRIC_NAMES, label)
        for optimizer in (self.actor_optimizer, self.critic_optimizer):
            require_finite_parameters(self.policy, optimizer.vector, label)
        return update

    def _step(self, batch, i, number):
        """Learn from batch i, in update `number` of the run; return metrics and absolute errors `[B]`."""
        policy, config, alpha = self.policy, self.config, self.temperature.alpha
        obs, next_obs = batch.obs[i], batch.next_obs[i]
        noise = self.noise(number, (2, len(obs), policy.actor.act_dim), obs)

        # one batch of both, so that normalisation sees stored and new actions together (section 3)
        with torch.no_grad():
            next_actions, next_log_prob = policy.actor.draw(next_obs, noise[0])
        q, next_q = policy.q_values(
            torch.cat([obs, next_obs]), torch.cat([batch.actions[i], next_actions])
        ).chunk(2, -1)
        next_value = next_q.detach().amin(0) - alpha * next_log_prob
        target = td_target(batch.rewards[i], batch.discounts[i], next_value)
        loss = critics_loss(q, target, None if batch.weights is None else batch.weights[i])
        grad_norm = self.critic_optimizer.minimize(loss, config.max_grad_norm)

        actions, log_prob = policy.actor.draw(obs, noise[1])
        policy.critics.eval()  # the actor's loss uses the running mean and variance
        actor_loss = soft_policy_loss(log_prob, policy.q_values(obs, actions).amin(0), alpha)
        policy.critics.train()
        if (number + 1) % config.policy_delay == 0:
            self.actor_optimizer.minimize(actor_loss, config.max_grad_norm)
            self.temperature.learn(log_prob, self.actor_optimizer.lr)
        metrics = torch.stack([loss, actor_loss, q.mean(), alpha, grad_norm])
        return metrics, (q - target).abs().mean(0)


def make(config, context):
    """Make the components of a run."""
    algo = config.algo

    def build_learner(env, encoder_spec, selector):
        if env.observations.images:
            raise ConfigError(f"crossq takes vectors, but {config.env.id} has images; use algo=sac")
        actions = env.actions.unit_codec(config.env.id, algo.name)
        size, (actor_widths, critic_widths) = actions.size, algo.hidden_widths
        with context.network_init(config):
            actor = SquashedGaussianPolicy(
                encoder_spec.features, size, net_arch=actor_widths, activation=algo.activation
            )
            inputs = encoder_spec.features + size
            critics = [
                Critic(inputs, critic_widths, algo.activation, algo.bn_momentum)
                for _ in range(algo.n_critics)
            ]
            policy = CrossQPolicy(actor, critics)
        policy = policy.to(context.device)
        exploration = NoisyExploration(actor.explore, (size,), size, env.n_envs, config.seed, context.device)
        target_entropy = -float(size) if algo.target_entropy is None else algo.target_entropy
        learner = CrossQLearner(policy, algo, target_entropy, UpdateNoise(context.streams))
        return OffPolicyComponents(policy, exploration, learner, actions)

    return build_off_policy_run(config, context, build_learner)


class CrossQ(Algorithm):
    """`CrossQ("Pendulum-v1", net_arch=[64, 64]).train(10_000)`."""

    name = "crossq"
    make = staticmethod(make)
