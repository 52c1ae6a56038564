"""A policy with attention over the items of a Dict observation (Vaswani et al. 2017)."""

import torch
from torch import nn

from rlox.envs.parts_codec import codec_of
from rlox.policies import ActorCritic
from rlox.policies.heads import CategoricalHead

WIDTH = 32


class Attention(ActorCritic):
    """Scores each item after it has seen the others; `algo.policy=rlox_extending.attention:Attention`.

    Rows `[B, obs_dim]` hold the parts of an observation one after the other; `split` names them again.
    """

    def __init__(self, observation_space, action_space):
        super().__init__()
        self.codec = codec_of(observation_space)
        self.embed = nn.Linear(2, WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.score = nn.Linear(WIDTH, 1)
        self.value = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 1))
        self.head = CategoricalHead(int(action_space.n))

    def items(self, obs):
        """Return the features of each item, `[B, items, WIDTH]`."""
        parts = self.codec.split(obs)
        x = torch.tanh(self.embed(torch.stack([parts["numbers"], parts["flags"]], -1)))
        return x + self.attention(x, x, x, need_weights=False)[0]

    def logits(self, obs):
        """Return a logit for each item, `[B, items]`."""
        return self.score(self.items(obs)).squeeze(-1)

    def sampler(self, n_steps, n_envs, generator):
        """Return the function that samples the actions of a rollout."""
        sample = self.head.sampler(n_steps, n_envs, generator)
        return lambda obs, t: sample(self.logits(obs), t)

    def evaluate_actions(self, obs, actions):
        """Return log-probability, entropy and value; the items are computed once."""
        items = self.items(obs)
        log_prob, entropy = self.head.score(self.score(items).squeeze(-1), actions)
        return log_prob, entropy, self.value(items.mean(1)).squeeze(-1)

    def get_value(self, obs):
        """Return V(s), `[B]`."""
        return self.value(self.items(obs).mean(1)).squeeze(-1)

    def mode(self, obs):
        """Return the most likely action."""
        return self.head.mode(self.logits(obs))

    def get_action_and_logprob(self, obs, generator=None):
        """Sample an action; return it and its log-probability."""
        logits = self.logits(obs)
        action = self.head.sample(logits.detach(), generator)
        return action, self.head.score(logits, action)[0]
