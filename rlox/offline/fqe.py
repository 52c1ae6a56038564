"""Fitted Q evaluation: the value of a policy from a dataset alone (Le et al. 2019, arXiv:1903.08738)."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rlox._core import Stream
from rlox.algorithms.assembly.offline import require_valid_actions
from rlox.configs.params import is_inside
from rlox.envs.actions import ActionCodec, UnitCodec
from rlox.errors import ConfigError, NonFiniteError, ShapeError
from rlox.masked_arrays import MASKED_MESSAGE, is_masked
from rlox.networks import EnsembleMLP, init_weights
from rlox.offline.layer_norm import LayerNormEnsemble
from rlox.optim import Adam, TargetNetwork
from rlox.runs.preflight import require_memory
from rlox.sources.preparation import STD_EPSILON, complete_returns
from rlox.stopping import raise_if_expired
from rlox.training.actor import BaseActor, StatelessActor
from rlox.training.learner import require_finite

__all__ = ["FQEEstimate", "FQESettings", "fitted_q_evaluation"]

ROWS_AT_ONCE = 4096  # rows in one call of the policy
CONFIDENCE_LEVEL = 0.9  # of `FQEEstimate.ci90`
MEMORY_COPIES = 6  # copies of observations and actions that are held during preparation
MIN_EPISODES = 5  # minimum number of complete episodes

FLAGS = ("terminated", "truncated")
COLUMNS = ("obs", "next_obs", "actions", "rewards", *FLAGS)

Columns = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class FQESettings:
    """Settings of fitted Q evaluation.

    Attributes
    ----------
    gamma : discount factor
    updates : number of gradient steps
    batch_size : transitions in each gradient step
    learning_rate : learning rate of Adam
    tau : Polyak coefficient of the target network. Values propagate over about `updates` x `tau` steps; that
        must be several times 1 / (1 - gamma)
    net_arch : hidden widths of each Q network
    members : number of Q functions that are fitted to resampled sets of episodes, in addition to the one that
        is fitted to all episodes
    seed : seed of initial weights, batches and resampled episodes
    """

    gamma: float = 0.99
    updates: int = 20_000
    batch_size: int = 256
    learning_rate: float = 1e-3
    tau: float = 0.05
    net_arch: tuple[int, ...] = (64, 64)
    members: int = 20
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("updates", "batch_size", "members", "seed"):
            minimum = 0 if name == "seed" else 1
            if not _is_integer(value := getattr(self, name), minimum):
                raise ConfigError(f"{name}={value!r}: expected a whole number, at least {minimum}")
        for name, interval in (("gamma", "[0, 1]"), ("learning_rate", "(0, inf)"), ("tau", "(0, 1]")):
            value = getattr(self, name)
            is_number = isinstance(value, Real) and not isinstance(value, bool)
            if not is_number or not is_inside(float(value), interval):
                raise ConfigError(f"{name}={value!r}: expected a number in {interval}")
        widths = self.net_arch
        if not isinstance(widths, Sequence) or not all(_is_integer(width, 1) for width in widths):
            raise ConfigError(f"net_arch={widths!r}: expected widths of hidden layers, such as (64, 64)")


@dataclass(frozen=True)
class FQEEstimate:
    """The discounted value of a policy at the first states of episodes.

    Attributes
    ----------
    value : estimate from all episodes
    ci90 : the 5% and 95% quantiles of the estimates from resampled episodes
    members : the estimates from resampled episodes, one for each of `FQESettings.members`
    loss : mean squared error over the last tenth of the updates, in squared rewards
    earlier_value : the estimate after four fifths of the updates
    """

    value: float
    ci90: tuple[float, float]
    members: tuple[float, ...]
    loss: float
    earlier_value: float

    @property
    def is_converged(self) -> bool:
        """Whether the last fifth of the updates moved the value by less than a tenth of the interval."""
        low, high = self.ci90
        return abs(self.value - self.earlier_value) <= (high - low) / 10


def fitted_q_evaluation(
    actor: BaseActor[Any],
    columns: Columns,
    settings: FQESettings,
    on_progress: Callable[[int], None] = lambda updates: None,
) -> FQEEstimate:
    """Estimate the value of `actor`'s deterministic actions at the first states of the dataset's episodes.

    A Q network with layer normalisation is fitted to the target r + gamma (1 - terminated) Qbar(s', mu(s')),
    where Qbar is the target network and mu(s) the policy's action. The target is clipped to the range of
    possible values. A truncated step uses the value of its next state. The estimate is the mean of
    Q(s0, mu(s0)) over the first states of episodes. Its interval comes from further Q functions, each fitted
    to episodes drawn with replacement and averaged over the first states of these episodes. `on_progress` is
    called regularly with the number of updates.
    """
    columns = _check_columns(columns)
    data = _FQEData(actor, columns, settings)
    sizes = (data.width, *settings.net_arch, data.outputs)
    q = LayerNormEnsemble(settings.members + 1, sizes)
    init_weights(nn.ModuleDict({"q": q}), settings.seed)
    with torch.no_grad():
        q.biases[-1].fill_(data.initial_value)
    optimizer = Adam(q, settings.learning_rate, eps=1e-8)
    target = TargetNetwork(copy.deepcopy(q), optimizer.flat)
    losses = torch.zeros(settings.updates)  # one tensor: thousands of small ones would fragment the heap
    earlier_value = 0.0
    with torch.no_grad():
        for update in range(settings.updates):
            rows = torch.from_numpy(data.draw_rows(update))
            losses[update] = _step(q, optimizer, target, data, rows, settings.gamma)
            target.polyak_update(settings.tau)
            if update == settings.updates * 4 // 5:
                earlier_value = float(data.start_values(q)[0]) / data.scale
            if update % 256 == 255 or update == settings.updates - 1:
                raise_if_expired()
                on_progress(update + 1)
                require_finite(losses[None, update : update + 1], ("loss/fqe",), f"update {update}")
        values = data.start_values(q)
    full_value, *bootstrap_values = (float(value) / data.scale for value in values)
    # with "weibull" the 90% interval of, for example, 19 members is from the smallest to the largest
    low, high = np.quantile(
        bootstrap_values, [(1 - CONFIDENCE_LEVEL) / 2, (1 + CONFIDENCE_LEVEL) / 2], method="weibull"
    )
    final_loss = losses[-max(1, settings.updates // 10) :].mean()
    interval = float(low), float(high)
    return FQEEstimate(
        full_value, interval, tuple(bootstrap_values), float(final_loss) / data.scale**2, earlier_value
    )


def _step(
    q: EnsembleMLP,
    optimizer: Adam,
    target: TargetNetwork[Any],
    data: _FQEData,
    rows: Tensor,
    gamma: float,
) -> Tensor:
    """Do one gradient step of all Q functions; return their mean loss."""
    weights = data.weights(rows)
    next_values = data.select_outputs(target.module(data.next_inputs[rows]), data.next_choice, rows)
    td_target = (data.rewards[rows] + gamma * data.not_terminated[rows] * next_values).clamp_(
        *data.value_bounds
    )
    with torch.enable_grad():
        error = data.select_outputs(q(data.inputs[rows]), data.choice, rows) - td_target
        losses = (weights * error.square()).mean(-1)
        optimizer.minimize(losses.sum(), None)
    return losses.detach().mean()


class _FQEData:
    """A dataset with the policy's actions, prepared as network inputs.

    For continuous actions Q takes observation and action. For discrete actions it takes the observation and
    returns the values of all actions. `1 + members` in shapes: the Q function of all episodes comes first.
    """

    def __init__(self, actor: BaseActor[Any], columns: Columns, settings: FQESettings) -> None:
        _require_compatible(actor, columns)
        is_end = columns["terminated"] | columns["truncated"]
        starts = np.flatnonzero(np.concatenate([[True], is_end[:-1]]))
        self._n_rows, self._settings = len(is_end), settings
        row_size = columns["obs"][0].size + (1 if actor.actions.is_discrete else columns["actions"][0].size)
        require_memory(
            MEMORY_COPIES * 4 * row_size * self._n_rows,
            f"fitted Q evaluation on {self._n_rows:,} transitions",
            "the number of transitions",
        )
        obs, next_obs = (_flatten(columns[name], np.float32) for name in ("obs", "next_obs"))
        mean, std = obs.mean(0, dtype=np.float64), obs.std(0, dtype=np.float64) + STD_EPSILON
        normalized = [((rows - mean) / std).astype(np.float32) for rows in (obs, next_obs)]
        actions, next_actions = columns["actions"], _policy_actions(actor, next_obs)
        start_actions = _policy_actions(actor, obs[starts])
        self.scale = 1.0 / max(float(np.abs(columns["rewards"]).max()), 1e-8)
        self.rewards = torch.from_numpy(columns["rewards"].astype(np.float32) * np.float32(self.scale))
        self.not_terminated = torch.from_numpy((~columns["terminated"]).astype(np.float32))
        self.initial_value = _initial_value(columns, settings.gamma) * self.scale
        self.value_bounds = _value_bounds(self.rewards, settings.gamma)
        codec = actor.actions
        self.choice = self.next_choice = self._start_choice = None
        if codec.is_discrete:
            self.outputs = codec.size
            self.choice, self.next_choice, self._start_choice = (
                torch.from_numpy(_flatten(a, np.int64)[:, 0].copy())
                for a in (actions, next_actions, start_actions)
            )
            tensors = [torch.from_numpy(rows) for rows in (*normalized, normalized[0][starts])]
        else:
            self.outputs = 1
            pairs = (
                (normalized[0], actions),
                (normalized[1], next_actions),
                (normalized[0][starts], start_actions),
            )
            tensors = [torch.from_numpy(np.hstack([rows, _to_unit(codec, a)])) for rows, a in pairs]
        self.inputs, self.next_inputs, self._start_inputs = tensors
        self.width = int(self.inputs.shape[1])
        self._start_weights = _bootstrap_weights(len(starts), settings)
        self._episode_of_row = torch.from_numpy(np.cumsum(_start_marks(starts, self._n_rows)) - 1)

    def draw_rows(self, update: int) -> NDArray[np.int64]:
        """Draw the rows of a batch uniformly."""
        stream = Stream(self._settings.seed, "fqe", update)
        rows: NDArray[np.int64] = (stream.uniform(self._settings.batch_size) * self._n_rows).astype(np.int64)
        return rows

    def weights(self, rows: Tensor) -> Tensor:
        """Return how often each Q function uses the episodes of `rows`, `[1 + members, B]`."""
        return self._start_weights[:, self._episode_of_row[rows]]

    def select_outputs(self, outputs: Tensor, choice: Tensor | None, rows: Tensor | None) -> Tensor:
        """Select the actions' values `[1 + members, B]` from outputs `[1 + members, B, outputs]`."""
        if choice is None:
            return outputs.squeeze(-1)
        index = choice if rows is None else choice[rows]
        return outputs.gather(-1, index.expand(len(outputs), -1).unsqueeze(-1)).squeeze(-1)

    def start_values(self, q: EnsembleMLP) -> Tensor:
        """Return each Q function's mean value over the first states of its episodes, `[1 + members]`."""
        values = self.select_outputs(q(self._start_inputs), self._start_choice, None)
        weighted: Tensor = (self._start_weights * values).sum(-1) / self._start_weights.sum(-1)
        return weighted


def _is_integer(value: Any, minimum: int) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= minimum


def _check_columns(columns: Columns) -> Columns:
    """Return the required columns as arrays; raise an error unless row counts agree and flags are bool."""
    if missing_names := [name for name in COLUMNS if name not in columns]:
        raise ConfigError(
            f"the dataset has no column {missing_names[0]}, expected {', '.join(COLUMNS)}; its columns are "
            f"{', '.join(map(str, columns)) or 'none'}"
        )
    if masked_names := [name for name in COLUMNS if is_masked(columns[name])]:
        raise ConfigError(f"{masked_names[0]} of the dataset: {MASKED_MESSAGE}")
    arrays = {name: np.asarray(columns[name]) for name in COLUMNS}
    lengths = {name: len(column) if column.ndim else 0 for name, column in arrays.items()}
    if len(set(lengths.values())) > 1 or not lengths["obs"]:
        lengths_text = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise ShapeError(f"rows of the dataset: {lengths_text}; expected equal numbers, at least 1")
    for name in FLAGS:
        if arrays[name].dtype != np.bool_:
            raise ConfigError(f"{name} of the dataset is {arrays[name].dtype}, expected bool")
    return arrays


def _flatten(column: NDArray[Any], dtype: Any) -> NDArray[Any]:
    return column.reshape(len(column), -1).astype(dtype)


def _start_marks(starts: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    marks = np.zeros(n, np.int64)
    marks[starts] = 1
    return marks


def _bootstrap_weights(episodes: int, settings: FQESettings) -> Tensor:
    """Return how often each Q function uses each episode, `[1 + members, episodes]`.

    The first row is all ones; the others count draws with replacement.
    """
    rows = [np.ones(episodes, np.int64)]
    for member in range(settings.members):
        episodes_drawn = Stream(settings.seed, "fqe-episodes", member).uniform(episodes) * episodes
        rows.append(np.bincount(episodes_drawn.astype(np.int64), minlength=episodes))
    return torch.from_numpy(np.stack(rows).astype(np.float32))


def _initial_value(columns: Columns, gamma: float) -> float:
    """Return a rough value of a state: the mean reward times the expected number of remaining steps.

    If episodes terminate, that number is half of an episode's length (a state is on average in the middle),
    but at most 1 / (1 - gamma), the discounted number of endless steps. Without terminations it is
    1 / (1 - gamma), but at most the dataset's number of rows.
    """
    returns = complete_returns(columns)
    mean = float(columns["rewards"].mean())
    if columns["terminated"].any():
        length = len(columns["rewards"]) / max(len(returns), 1)
        return mean * min(length / 2, 1.0 / max(1.0 - gamma, 1e-8))
    return mean / max(1.0 - gamma, 1.0 / len(columns["rewards"]))


def _value_bounds(rewards: Tensor, gamma: float) -> tuple[float, float]:
    """Return the bounds of any policy's value: lowest and highest reward, received once or forever."""
    limits = [float(limit) for limit in rewards.aminmax()]
    candidates = [
        *limits,
        *(limit / (1.0 - gamma) if gamma < 1.0 else math.copysign(math.inf, limit) for limit in limits),
    ]
    return min(candidates), max(candidates)


def _require_compatible(actor: BaseActor[Any], columns: Columns) -> None:
    if not isinstance(actor, StatelessActor):
        raise ConfigError(
            "the policy has a memory, so its action in a single row of a dataset is unknown; expected a "
            "policy that acts by the observation alone"
        )
    obs, expected = _flatten(columns["obs"], np.float32), actor.observations.input_dim
    if actor.observations.images:
        raise ConfigError("the policy takes images, expected a policy that takes vectors")
    if actor.actions.kind == "factored":
        raise ConfigError("the policy has actions of several parts, expected a single action or vector")
    if actor.observations.mask_dim:
        raise ConfigError("the policy needs action masks, which no dataset has")
    if obs.shape[1] != expected:
        raise ShapeError(f"the dataset has observations of {obs.shape[1]} numbers, the policy {expected}")
    require_valid_actions(columns["actions"], actor.actions, "the dataset", "the policy's environment")
    for name in ("obs", "next_obs", "actions", "rewards"):
        if not np.isfinite(columns[name]).all():
            raise NonFiniteError(f"{name} of the dataset is not finite; rlox dataset check says where")
    episodes = int((columns["terminated"] | columns["truncated"]).sum())
    if episodes < MIN_EPISODES:
        raise ConfigError(
            f"the dataset has {episodes} complete episodes, expected at least {MIN_EPISODES}, which "
            "are resampled for the interval"
        )


def _policy_actions(actor: BaseActor[Any], obs: NDArray[np.float32]) -> NDArray[Any]:
    """Return the policy's deterministic actions as rows of a dataset."""
    actions = []
    with actor.inference_mode():
        for start in range(0, len(obs), ROWS_AT_ONCE):
            rows = obs[start : start + ROWS_AT_ONCE]
            player = actor.make_player(len(rows))  # one slot per row; each acts once
            actions.append(actor.actions.from_env(player.act(rows), len(rows)))
    return np.concatenate(actions)


def _to_unit(codec: ActionCodec, actions: NDArray[Any]) -> NDArray[np.float32]:
    """Scale continuous actions with bounds to [-1, 1]; leave others unchanged."""
    rows = _flatten(actions, np.float32)
    return codec.to_unit(rows) if isinstance(codec, UnitCodec) else rows
