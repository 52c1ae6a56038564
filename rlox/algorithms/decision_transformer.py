"""Decision Transformer (Chen et al. 2021, arXiv:2106.01345): actions by the return that is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional

from rlox.algorithms.encoding import Encoding
from rlox.algorithms.offline import (
    NO_ENV,
    Composed,
    DatasetGiven,
    Ways,
    from_dataset,
    offline_parts,
)
from rlox.callbacks import Callback, LoggerCallback
from rlox.configs import DecisionTransformerConfig, RunConfig
from rlox.envs.actions import ActionCodec
from rlox.envs.make import EnvSource
from rlox.optim import AdamW
from rlox.policies.conditioned import Conditioned
from rlox.rng import Streams
from rlox.runs.algorithm import Algorithm
from rlox.sources.stretches import Stretches, StretchSource
from rlox.training.backend import Choice
from rlox.training.conditioned import ConditionedActor, Wish, wished
from rlox.training.finite import require_finite, require_finite_parameters
from rlox.training.learner import PolicyLearner
from rlox.training.parts import Parts, Tools
from rlox.types import Clock, Update

__all__ = ["DecisionTransformer", "DecisionTransformerLearner"]


class DecisionTransformerLearner(PolicyLearner[Conditioned]):
    """A transformer, and one step for each batch towards the actions of the dataset."""

    def __init__(
        self,
        policy: Conditioned,
        config: DecisionTransformerConfig,
        streams: Streams,
        wish: Wish | None = None,
    ) -> None:
        rate, decay = config.initial("learning_rate"), config.weight_decay
        super().__init__(policy, AdamW(policy, rate, weight_decay=decay, eps=1e-8))
        self.config, self._streams, self._wish = config, streams, wish
        fit = "policy/accuracy" if policy.choices else "policy/error"
        self.names = ("loss/policy", fit, "train/grad_norm")

    def update(self, batch: Stretches, clock: Clock) -> Update:
        """One step for each batch."""
        count = int(batch.mask.sum())
        batch = batch.to(self.optimizer.vector.device)
        rows = [self._step(batch, i, clock.updates + i, clock) for i in range(len(batch))]
        table, where = torch.stack(rows), f"update {clock.updates}"
        require_finite(table, self.names, where)
        require_finite_parameters(self.policy, self.optimizer.vector, where)
        metrics = dict(zip(self.names, table.mean(0).tolist(), strict=True))
        metrics["train/learning_rate"] = self.optimizer.lr
        if self._wish is not None:
            metrics["policy/target_return"] = self._wish.asked
        return Update(metrics, len(batch), count)

    def _step(self, batch: Stretches, i: int, number: int, clock: Clock) -> Tensor:
        """One gradient step; its row of metrics. What is left out is drawn by the update's number."""
        config = self.config
        warm = min(1.0, (number + 1) / config.warmup_updates) if config.warmup_updates else 1.0
        self.optimizer.lr = warm * config.at("learning_rate", clock.remaining)
        mask, taken = batch.mask[i], batch.actions[i]
        given = (batch.returns[i] * config.return_scale, batch.obs[i], taken, batch.timesteps[i])
        self.policy.train()
        with self._streams.default("dropout", number, self.optimizer.vector.device):
            said = self.policy(*given)
        loss, fit = _loss(said, taken, mask, self.policy.choices)
        norm = self.optimizer.backward(loss, config.max_grad_norm)
        self.optimizer.step()
        return torch.stack([loss.detach(), fit, norm])


def _loss(said: Tensor, taken: Tensor, mask: Tensor, choices: bool) -> tuple[Tensor, Tensor]:
    """Cross-entropy of choices and the part that is right, or squared and absolute error of vectors.

    Means over the steps that are none of padding, by weights: to pick them the host would wait for a GPU.
    """
    weight = mask / mask.sum()
    if choices:
        right = (said.detach().argmax(-1) == taken).to(said.dtype)
        each = functional.cross_entropy(said.flatten(0, 1), taken.flatten(), reduction="none")
        return (each * weight.flatten()).sum(), (right * weight).sum()
    apart = said - taken
    return (apart.square().mean(-1) * weight).sum(), (apart.detach().abs().mean(-1) * weight).sum()


def make(config: RunConfig, tools: Tools) -> Parts:
    """A transformer's learner on stretches of a dataset."""
    algo = cast(DecisionTransformerConfig, config.algo)
    wish = Wish(algo.target_return)

    def compose(encoding: Encoding, actions: ActionCodec, _: Choice) -> Composed:
        sizes = (encoding.features, actions.size, actions.discrete, algo.hidden, algo.n_layers)
        policy = Conditioned(*sizes, algo.n_heads, algo.dropout, algo.max_timesteps)
        policy = policy.to(tools.device)
        return policy, DecisionTransformerLearner(policy, algo, tools.streams, wish)

    def source(*given: Any) -> StretchSource:
        return StretchSource(
            *given, length=algo.context_length, longest=algo.max_timesteps, wish=wish
        )

    def actor(policy: Conditioned, *given: Any) -> ConditionedActor:
        observations, codec, normalizer, device = given
        parts = policy, observations, codec, normalizer, device
        return ConditionedActor(*parts, wish, algo.context_length, algo.return_scale)

    return offline_parts(config, tools, compose, Ways(source, actor))


class DecisionTransformer(Algorithm):
    """Decision Transformer, for Box actions with finite bounds and Discrete ones.

    Parameters
    ----------
    dataset : an `OfflineDatasetBuffer`, or the folder of a dataset; actions are floating-point vectors, or
        choices from 0
    obs_dim, act_dim : numbers in an observation, and in an action or choices; those of the
        environment if there is one
    context_length : steps that an action is chosen by
    hidden, n_layers, n_heads : width, blocks and heads of the transformer
    learning_rate, batch_size : of each update; a batch has so many stretches of `context_length` steps
    target_return : what is asked for when it plays; None: the highest return of the dataset
    callbacks : called during training; one that returns False from `on_step` stops it
    logger : receives metrics rows
    env_id : where to evaluate: a Gymnasium id, a `gymnasium.Env`, or a callable that makes one
    seed : keys every random stream of the run
    **config_kwargs : any field of `DecisionTransformerConfig` or `EnvConfig`, or `device`; unknown names are
        errors
    """

    name = "decision_transformer"
    make = staticmethod(make)

    def __init__(
        self,
        dataset: DatasetGiven = None,
        obs_dim: int | None = None,
        act_dim: int | None = None,
        context_length: int = 20,
        hidden: int = 128,
        n_layers: int = 3,
        n_heads: int = 1,
        learning_rate: float = 1e-4,
        batch_size: int = 64,
        target_return: float | None = None,
        callbacks: Callback | Sequence[Callback] | None = None,
        logger: LoggerCallback | None = None,
        *,
        env_id: EnvSource = NO_ENV,
        n_envs: int = 1,
        seed: int = 42,
        **config_kwargs: Any,
    ) -> None:
        options = {
            "obs_dim": obs_dim,
            "act_dim": act_dim,
            "context_length": context_length,
            "hidden": hidden,
            "n_layers": n_layers,
            "n_heads": n_heads,
            "learning_rate": learning_rate,
            "batch_size": batch_size,
            "target_return": target_return,
            **config_kwargs,
        }
        given = (dataset, env_id, n_envs, seed, options)
        config, env, held = from_dataset("decision_transformer", *given)
        super().__init__(config, env, None, logger, callbacks, dataset=held)

    def predict(
        self,
        obs: Any,
        deterministic: bool = True,
        action_masks: Any = None,
        target_return: float | None = None,
    ) -> Any:
        """The action for one raw observation or for a batch, each the first one of an episode.

        `target_return` is what is asked for, in place of the run's. Of an episode that goes on
        `parts.actor.player(places)` keeps what came before: `act(rows)`, `paid(rewards)`, `begin(place)`.
        """
        self._predictions += not deterministic
        generator = self._sampling(deterministic, "predict", self._predictions)
        actor = cast(ConditionedActor, self.parts.actor)
        return actor.predict(obs, generator, wished(target_return), action_masks)

    def ask(self, target_return: float | None) -> None:
        """Ask for this return when it is evaluated; None: for the highest of the dataset.

        Of this object alone: no checkpoint has it, and one that is loaded asks for its `target_return` again.
        """
        cast(ConditionedActor, self.parts.actor).wish.given = wished(target_return)
