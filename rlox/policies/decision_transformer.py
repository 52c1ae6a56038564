"""The policy of the Decision Transformer (Chen et al. 2021, arXiv:2106.01345)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from rlox.networks.transformer import CausalTransformer
from rlox.policies.heads import sample_choices

__all__ = ["DecisionTransformerPolicy"]


class DecisionTransformerPolicy(nn.Module):
    """Predicts the action of each step of a sub-trajectory from the target return and the past steps.

    A step has three tokens: return to go, observation and action. Each is added to an embedding of the
    step's number. The output at the observation token predicts the action; it depends on no later token.

    Parameters
    ----------
    obs_dim : length of the observation vector
    n_outputs : length of the action vector, or number of discrete actions
    is_discrete : whether actions are discrete
    width, n_layers, n_heads, dropout : arguments of `CausalTransformer`
    max_timesteps : number of timestep embeddings; later steps use the last one
    """

    def __init__(
        self,
        obs_dim: int,
        n_outputs: int,
        is_discrete: bool,
        width: int,
        n_layers: int,
        n_heads: int,
        dropout: float,
        max_timesteps: int,
    ) -> None:
        super().__init__()
        self.n_outputs, self.is_discrete, self.dropout = n_outputs, is_discrete, dropout
        self.of_timestep = nn.Embedding(max_timesteps, width)
        self.of_return = nn.Linear(1, width)
        self.of_obs = nn.Linear(obs_dim, width)
        self.of_action: nn.Module = (
            nn.Embedding(n_outputs, width) if is_discrete else nn.Linear(n_outputs, width)
        )
        self.norm = nn.LayerNorm(width)
        self.transformer = CausalTransformer(width, n_layers, n_heads, dropout)
        self.head = nn.Linear(width, n_outputs)

    def forward(self, returns: Tensor, obs: Tensor, actions: Tensor, timesteps: Tensor) -> Tensor:
        """Return logits, or actions in [-1, 1], `[B, L, n_outputs]`.

        `returns` `[B, L]` are scaled returns to go, `obs` is `[B, L, obs_dim]`, `actions` `[B, L]` if
        discrete, else `[B, L, act_dim]`, and `timesteps` int64 `[B, L]`.
        """
        timestep_embedding = self.of_timestep(timesteps.clamp(max=self.of_timestep.num_embeddings - 1))
        embeddings = (
            self.of_return(returns.unsqueeze(-1)),
            self.of_obs(obs),
            self.of_action(actions),
        )
        tokens = torch.stack([embedding + timestep_embedding for embedding in embeddings], 2).flatten(1, 2)
        tokens = functional.dropout(self.norm(tokens), self.dropout, self.training)
        outputs: Tensor = self.head(self.transformer(tokens)[:, 1::3])
        return outputs if self.is_discrete else outputs.tanh()

    def select_actions(self, outputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Return the actions for `outputs` `[B, n_outputs]`; discrete actions are `[B]`.

        Discrete actions are sampled if a generator is given, else the most likely ones are returned.
        """
        if not self.is_discrete:
            return outputs
        return outputs.argmax(-1) if generator is None else sample_choices(outputs, generator)
