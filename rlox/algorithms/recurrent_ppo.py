"""Recurrent PPO: PPO (Schulman et al. 2017) with recurrent layers in actor and critic."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple, cast

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rlox.algorithms.assembly.encoding import NO_COST, EncoderSpec
from rlox.algorithms.assembly.on_policy import (
    PolicyFactory,
    build_on_policy_run,
    get_collector,
    rollout_bytes,
)
from rlox.algorithms.ppo.learner import ClippedLearner
from rlox.configs import RecurrentPPOConfig, RunConfig
from rlox.devices import require_float32, to_device
from rlox.envs.actions import ActionCodec
from rlox.envs.base import VectorEnv
from rlox.errors import ConfigError
from rlox.networks import SelectColumns
from rlox.networks.recurrent import SubSequences, split_sequences
from rlox.parameters.encoder_cost import EncoderCost
from rlox.policies.factored import FactoredHead
from rlox.policies.heads import CategoricalHead, GaussianHead, Head
from rlox.policies.recurrent import RecurrentActorCritic
from rlox.runs.algorithm import Algorithm
from rlox.sources.recurrent import SCORE_ROWS, RecurrentCollector
from rlox.training.components import BuildContext, RunComponents
from rlox.training.recurrent import RecurrentActor
from rlox.training.setup import torch_threads
from rlox.types import Clock, Rollout, Update

__all__ = ["RecurrentPPO", "RecurrentPPOLearner", "SequenceMinibatch", "sequence_minibatches"]


class SequenceMinibatch(NamedTuple):
    """All `T` rows of `b` environments of a rollout, flat in time-major order.

    The policy's inputs have every row; the loss's inputs have only the `V` valid rows.
    """

    obs: Tensor  # [T*b, obs_dim]
    actions: Tensor  # [T*b], or [T*b, act_dim]
    state: Tensor  # [b, state_size], before the first row
    subsequences: SubSequences  # where episodes begin
    valid: Tensor | None  # [V] int64, indices of the valid rows; None: all T*b
    log_probs: Tensor  # [V]
    values: Tensor  # [V]
    advantages: Tensor  # [V]
    returns: Tensor  # [V]


def sequence_minibatches(rollout: Rollout, batch_size: int, order: Tensor) -> Iterator[SequenceMinibatch]:
    """Yield disjoint minibatches that cover every environment once, each from its stored first state.

    A minibatch has as many environments as there are whole sequences in `batch_size` transitions, at least
    one. The last minibatch may have fewer. A minibatch without a valid row is skipped. `order` holds the
    indices of the environments, int64 `[n_envs]`.
    """
    for envs in torch.split(order, max(1, batch_size // rollout.n_steps)):
        minibatch = _sequences(rollout, envs)
        if minibatch.valid is None or len(minibatch.valid):
            yield minibatch


def _sequences(rollout: Rollout, envs: Tensor) -> SequenceMinibatch:
    """Return the sequences of the environments `envs` `[b]`."""
    assert rollout.first_state is not None
    device = rollout.obs.device
    index = to_device(envs, device)

    def select_envs(column: Tensor) -> Tensor:
        grid = column.view(rollout.n_steps, rollout.n_envs, *column.shape[1:])
        return grid.index_select(1, index).flatten(0, 1)

    is_first = rollout.extras["is_first"].cpu().view(rollout.n_steps, rollout.n_envs)
    valid = None
    if rollout.valid is not None:
        valid = select_envs(rollout.valid).nonzero().squeeze(-1)

    def valid_rows(column: Tensor) -> Tensor:
        rows = select_envs(column)
        return rows if valid is None else rows.index_select(0, valid)

    return SequenceMinibatch(
        select_envs(rollout.obs),
        select_envs(rollout.actions),
        rollout.first_state.index_select(0, index),
        split_sequences(is_first.index_select(1, envs).numpy(), device),
        valid,
        valid_rows(rollout.log_probs),
        valid_rows(rollout.values),
        valid_rows(rollout.advantages),
        valid_rows(rollout.returns),
    )


# Numbers per row and unit of a recurrent layer: saved for the gradient, and held while scoring.
SAVED_NUMBERS, SCORE_NUMBERS = 14, 8


class RecurrentPPOLearner(ClippedLearner[RecurrentActorCritic, SequenceMinibatch]):
    """PPO's update on minibatches of whole sequences, replayed from their initial states."""

    def update(self, batch: Rollout, clock: Clock) -> Update:
        """Learn from one rollout; episode starts move to the CPU once, for all minibatches."""
        is_first = batch.extras["is_first"].cpu()
        return super().update(replace(batch, extras={**batch.extras, "is_first": is_first}), clock)

    def _minibatches(self, batch: Rollout, order: Callable[[int], Tensor]) -> Iterator[SequenceMinibatch]:
        return sequence_minibatches(batch, self.config.batch_size, order(batch.n_envs))

    def _evaluate(self, minibatch: SequenceMinibatch) -> tuple[Tensor, Tensor, Tensor]:
        """Evaluate every row, since later rows depend on earlier states; return results of valid rows."""
        log_probs, entropy, values = self.policy.evaluate_actions(
            minibatch.obs, minibatch.actions, minibatch.state, minibatch.subsequences
        )
        if (rows := minibatch.valid) is not None:
            return log_probs[rows], entropy[rows], values[rows]
        return log_probs, entropy, values


def make_policy(
    config: RecurrentPPOConfig, encoder_spec: EncoderSpec, actions: ActionCodec
) -> RecurrentActorCritic:
    """Make the policy that `config` describes for these observations and this action space."""
    return RecurrentActorCritic(
        encoder_spec.features,
        _make_head(actions, config.log_std_init),
        config.rnn,
        config.lstm_hidden_size,
        config.n_lstm_layers,
        config.critic,
        config.net_arch,
        config.critic_net_arch,
        config.activation,
        config.ortho_init,
        _make_encoders(config, encoder_spec),
        encoder_spec.actor_features,
    )


def _make_encoders(
    config: RecurrentPPOConfig, encoder_spec: EncoderSpec
) -> tuple[nn.Module, nn.Module] | None:
    """Make what precedes the layers of actor and critic: encoders of images, and the choice of columns."""
    has_images, columns = encoder_spec.make_encoder is not None, encoder_spec.actor_columns
    if has_images and config.share_encoder and columns is not None:
        raise ConfigError(
            "env.critic_obs and algo.share_encoder: recurrent_ppo cannot share the encoder of images if the "
            "critic sees more than the actor; set algo.share_encoder=false"
        )
    encoders = encoder_spec.make_pair(config.share_encoder, config.ortho_init) if has_images else None
    if columns is None:
        return encoders
    actor, critic = encoders or (nn.Identity(), nn.Identity())
    return nn.Sequential(actor, SelectColumns(columns)), critic


def _make_head(actions: ActionCodec, log_std_init: float) -> Head:
    """Make the action distribution for this space."""
    if actions.is_discrete:
        return CategoricalHead(actions.size)
    if actions.choices:
        return FactoredHead(actions.choices, actions.box_dim, log_std_init)
    return GaussianHead(actions.size, log_std_init)


def make(config: RunConfig, context: BuildContext) -> RunComponents:
    """Build the components of a recurrent PPO run, whose collector keeps the recurrent states."""
    algo = cast(RecurrentPPOConfig, config.algo)
    if context.policy is not None:
        raise ConfigError(
            "recurrent_ppo takes no policy of your own, because its methods have no argument for the "
            "recurrent state; use PPO"
        )
    return build_on_policy_run(
        config,
        context,
        lambda policy, env, encoder_spec: RecurrentPPOLearner(policy, algo, context.streams),
        collector=RecurrentCollector,
        actor=RecurrentActor,
        policy_factory=PolicyFactory(
            build_policy,
            lambda features, n_outputs: _layer_sizes(algo, features, n_outputs),
            lambda env, encoder_cost: recurrent_bytes(algo, env, context.device, encoder_cost),
            "algo.n_steps, env.n_envs or algo.lstm_hidden_size",
        ),
    )


def build_policy(
    config: RunConfig, context: BuildContext, env: VectorEnv, encoder_spec: EncoderSpec
) -> RecurrentActorCritic:
    """Build the configured policy with the initial weights of a run."""
    require_float32()
    with (
        context.streams.seeded_generators("init", device=context.device),
        torch_threads(config.torch_threads),
    ):
        policy = make_policy(cast(RecurrentPPOConfig, config.algo), encoder_spec, env.actions)
    return policy.to(context.device)


def recurrent_bytes(
    config: RecurrentPPOConfig, env: VectorEnv, device: torch.device, encoder_cost: EncoderCost = NO_COST
) -> int:
    """Return `rollout_bytes` plus the memory that recurrent layers need while learning or scoring."""
    minibatch_size = max(config.batch_size, config.n_steps)
    base_bytes = rollout_bytes(
        config, env, device.type == "cpu", minibatch_size, config.hidden_widths, encoder_cost
    )
    if device.type != "cpu":
        return base_bytes
    rows = config.n_steps * env.n_envs
    n_recurrent_layers = 2 if config.critic == "own" else 1
    learn_numbers = min(minibatch_size, rows) * SAVED_NUMBERS * config.n_lstm_layers * n_recurrent_layers
    score_numbers = min(max(SCORE_ROWS, config.n_steps), rows) * SCORE_NUMBERS
    return base_bytes + 4 * config.lstm_hidden_size * max(learn_numbers, score_numbers)  # one after the other


def _layer_sizes(config: RecurrentPPOConfig, obs_dim: int, action_size: int) -> Iterator[tuple[int, ...]]:
    """Yield the layer sizes of actor and critic; recurrent layers count as dense ones of their size."""
    hidden, n_gates = config.lstm_hidden_size, 4 if config.rnn == "lstm" else 3
    for name, widths, n_outputs in zip(
        ("actor", "critic"), config.hidden_widths, (action_size, 1), strict=True
    ):
        is_recurrent = name == "actor" or config.critic == "own"
        for layer in range(config.n_lstm_layers if is_recurrent else 0):
            n_inputs = hidden if layer else obs_dim
            yield n_inputs + hidden + 1, n_gates * hidden
        yield (hidden if is_recurrent or config.critic == "shared" else obs_dim, *widths, n_outputs)


class RecurrentPPO(Algorithm):
    """Recurrent proximal policy optimisation: an LSTM or GRU precedes the MLPs of actor and critic.

    Observation and action spaces come from the environment. The policy is categorical for Discrete actions,
    Gaussian for Box, and a product of independent factors for spaces of several parts (docs/actions.md).
    """

    name = "recurrent_ppo"
    make = staticmethod(make)
    collector = property(get_collector)

    def predict(  # type: ignore[override]  # takes and returns the recurrent state
        self,
        obs: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
    ) -> tuple[Any, NDArray[Any]]:
        """Return the action for one raw observation or a batch, and the state for the next call.

        `state` is the state that the last call returned, `None` at the start of episodes. `episode_start` (a
        bool, or one per observation) marks observations that begin an episode, for which the state is reset.
        Observations are normalised as in training, with frozen statistics. Box actions are clipped to the
        bounds. `deterministic=False` samples.
        """
        self._n_sampled_predictions += not deterministic
        generator = self._sampling_generator(deterministic, "predict", self._n_sampled_predictions)
        actor = cast(RecurrentActor, self.components.actor)
        return actor.predict(obs, generator, state, episode_start)
