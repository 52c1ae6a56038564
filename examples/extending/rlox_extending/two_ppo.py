"""Two agents, each with a policy and a PPO loss of its own, and one critic for their common reward."""

from dataclasses import replace

import torch
from torch import nn

from rlox.algorithms.assembly.on_policy import build_on_policy_run
from rlox.algorithms.ppo.learner import PPOLearner
from rlox.envs.parts_codec import codec_of
from rlox.errors import ConfigError
from rlox.losses import PPOTerms
from rlox.networks import mlp
from rlox.policies import ActorCritic
from rlox.policies.heads import CategoricalHead
from rlox.runs.algorithm import Algorithm


class Team(ActorCritic):
    """An actor for each part of the Dict observation; action k is that of the k-th part."""

    def __init__(self, observation_space, action_space):
        super().__init__()
        self.codec = codec_of(observation_space)
        sizes = {name: codec.dim for name, codec in self.codec.codecs.items()}
        self.heads = [CategoricalHead(int(n)) for n in action_space.nvec]
        self.actors = nn.ModuleList(
            mlp((size, 64, 64, head.size)) for size, head in zip(sizes.values(), self.heads, strict=True)
        )
        self.critic = mlp((sum(sizes.values()), 64, 64, 1))

    def logits(self, obs):
        """Return the logits of each agent."""
        parts = self.codec.split(obs).values()
        return [actor(part) for actor, part in zip(self.actors, parts, strict=True)]

    def agent_scores(self, obs, actions):
        """Return log-probability and entropy of each agent, `[B, agents]` each."""
        scores = [
            head.score(logits, actions[:, k].long())
            for k, (head, logits) in enumerate(zip(self.heads, self.logits(obs), strict=True))
        ]
        return tuple(torch.stack(columns, -1) for columns in zip(*scores, strict=True))

    def sampler(self, n_steps, n_envs, generator):
        """Return the function that samples the actions of a rollout."""
        samples = [head.sampler(n_steps, n_envs, generator) for head in self.heads]
        return lambda obs, t: torch.stack(
            [sample(logits, t) for sample, logits in zip(samples, self.logits(obs), strict=True)], -1
        )

    def evaluate_actions(self, obs, actions):
        """Return the team's log-probability, its entropy and the value."""
        log_probs, entropies = self.agent_scores(obs, actions)
        return log_probs.sum(-1), entropies.sum(-1), self.get_value(obs)

    def get_value(self, obs):
        """Return V(s), `[B]`."""
        return self.critic(obs).squeeze(-1)

    def mode(self, obs):
        """Return each agent's most likely action."""
        return torch.stack([logits.argmax(-1) for logits in self.logits(obs)], -1)

    def get_action_and_logprob(self, obs, generator=None):
        """Sample an action of each agent; return them and the team's log-probability."""
        pairs = zip(self.heads, self.logits(obs), strict=True)
        actions = torch.stack([head.sample(logits.detach(), generator) for head, logits in pairs], -1)
        return actions, self.agent_scores(obs, actions)[0].sum(-1)


class TwoPPOLearner(PPOLearner):
    """PPO's epochs of minibatches; each agent's probability ratio is clipped on its own."""

    def update(self, batch, clock):
        """Learn from one rollout, with the log-probability of each agent as one more column."""
        with torch.no_grad():
            log_probs, _ = self.policy.agent_scores(batch.obs, batch.actions)
        return super().update(replace(batch, extras={**batch.extras, "agent_log_probs": log_probs}), clock)

    def _terms(self, minibatch):
        """Compute the mean of the agents' losses."""
        log_probs, entropies = self.policy.agent_scores(minibatch.obs, minibatch.actions)
        values, advantages = self.policy.get_value(minibatch.obs), self._advantages(minibatch)
        others = advantages, minibatch.returns, minibatch.values
        old_log_probs = minibatch.extras["agent_log_probs"]
        agent_terms = [
            self.loss.terms(log_probs[:, k], entropies[:, k], values, old_log_probs[:, k], *others)
            for k in range(log_probs.shape[1])
        ]
        return PPOTerms(*(torch.stack(parts).mean() for parts in zip(*agent_terms, strict=True)))


def make(config, context):
    """Make the components of a run."""

    def build_learner(policy, env, encoder_spec):
        if not isinstance(policy, Team):
            raise ConfigError("two_ppo needs algo.policy=rlox_extending.two_ppo:Team")
        return TwoPPOLearner(policy, config.algo, context.streams)

    return build_on_policy_run(config, context, build_learner, minibatch_size=config.algo.batch_size)


class TwoPPO(Algorithm):
    """`TwoPPO("Meeting-v0", policy="rlox_extending.two_ppo:Team").train(50_000)`."""

    name = "two_ppo"
    make = staticmethod(make)
