"""Fitted Q evaluation: what a policy is worth, from a dataset alone (Le et al. 2019, arXiv:1903.08738)."""

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
from rlox.algorithms.offline import require_taken
from rlox.configs.params import inside
from rlox.envs.actions import ActionCodec, UnitCodec
from rlox.errors import ConfigError, NonFiniteError, ShapeError
from rlox.masked import MASKED, is_masked
from rlox.networks import EnsembleMLP, begun
from rlox.offline.normed import NormedEnsemble
from rlox.optim import Adam, TargetNetwork
from rlox.runs.preflight import require_memory
from rlox.sources.prepared import EPS, complete_returns
from rlox.stopping import check
from rlox.training.actor import ActorOf, Forgetful
from rlox.training.finite import require_finite

__all__ = ["Estimate", "Fitting", "fitted_q"]

AT_ONCE = 4096  # rows that the policy is asked for in one call
LEVEL = 0.9  # of the interval
COPIES = 6  # of observations and actions, as they are kept and made ready
LEAST = 5  # episodes that anything is said of

FLAGS = ("terminated", "truncated")
COLUMNS = ("obs", "next_obs", "actions", "rewards", *FLAGS)

Columns = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Fitting:
    """How Q is fitted.

    Attributes
    ----------
    gamma : discount factor
    updates, batch_size : gradient steps, and transitions in each
    learning_rate : Adam's
    tau : how far the target network follows at a time; `updates` x `tau` is about how many steps ahead the
        values have been carried, which has to be several times 1 / (1 - gamma)
    net_arch : hidden widths of each Q
    members : Q functions of bootstraps of the episodes, beside the one of all
    seed : of initial weights, batches and bootstraps
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
            least = 0 if name == "seed" else 1
            if not _is_whole(value := getattr(self, name), least):
                raise ConfigError(f"{name}={value!r}: expected a whole number, at least {least}")
        for name, within in (("gamma", "[0, 1]"), ("learning_rate", "(0, inf)"), ("tau", "(0, 1]")):
            value = getattr(self, name)
            number = isinstance(value, Real) and not isinstance(value, bool)
            if not number or not inside(float(value), within):
                raise ConfigError(f"{name}={value!r}: expected a number in {within}")
        widths = self.net_arch
        if not isinstance(widths, Sequence) or not all(_is_whole(width, 1) for width in widths):
            raise ConfigError(
                f"net_arch={widths!r}: expected widths of hidden layers, such as (64, 64)"
            )


@dataclass(frozen=True)
class Estimate:
    """The discounted value of a policy at the first states of episodes.

    Attributes
    ----------
    value : by all episodes
    ci90 : the 5% and 95% quantiles of the bootstraps
    members : what each of these says `[members]`
    loss : mean squared error of the last tenth of the updates, in squared rewards
    earlier : the value when a fifth of the updates was left
    """

    value: float
    ci90: tuple[float, float]
    members: tuple[float, ...]
    loss: float
    earlier: float

    @property
    def settled(self) -> bool:
        """Whether the last fifth of the updates moved the value by less than a tenth of the interval."""
        low, high = self.ci90
        return abs(self.value - self.earlier) <= (high - low) / 10


def fitted_q(
    actor: ActorOf[Any],
    columns: Columns,
    how: Fitting,
    told: Callable[[int], None] = lambda updates: None,
) -> Estimate:
    """What the best actions of `actor` are worth in the states in which the dataset's episodes begin.

    Q, with normalised layers, regresses r + gamma (1 - terminated) Qbar(s', mu(s')), kept within what any
    policy can be worth; time limits are no ends. The estimate is the
    mean of Q(s0, mu(s0)) over the episodes' first states, its interval that of others on episodes that were
    drawn with replacement, each averaged over the first states of its own. `told` hears from time to time how
    many updates are done.
    """
    columns = _checked(columns)
    data = _Data(actor, columns, how)
    sizes = (data.width, *how.net_arch, data.outputs)
    q = NormedEnsemble(how.members + 1, sizes)
    begun(nn.ModuleDict({"q": q}), how.seed)
    with torch.no_grad():
        q.biases[-1].fill_(data.level)
    optimizer = Adam(q, how.learning_rate, eps=1e-8)
    target = TargetNetwork(copy.deepcopy(q), optimizer.flat)
    losses = torch.zeros(
        how.updates
    )  # small tensors that stay would break up what large ones leave
    earlier = 0.0
    with torch.no_grad():
        for update in range(how.updates):
            rows = torch.from_numpy(data.drawn(update))
            losses[update] = _step(q, optimizer, target, data, rows, how.gamma)
            target.follow(how.tau)
            if update == how.updates * 4 // 5:
                earlier = float(data.starts_value(q)[0]) / data.scale
            if update % 256 == 255 or update == how.updates - 1:
                check()
                told(update + 1)
                require_finite(losses[None, update : update + 1], ("loss/fqe",), f"update {update}")
        values = data.starts_value(q)
    whole, *others = (float(value) / data.scale for value in values)
    # so that of 19 members the least and the greatest have nine in ten others between them
    low, high = np.quantile(others, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], method="weibull")
    last = losses[-max(1, how.updates // 10) :].mean()
    interval = float(low), float(high)
    return Estimate(whole, interval, tuple(others), float(last) / data.scale**2, earlier)


def _step(
    q: EnsembleMLP,
    optimizer: Adam,
    target: TargetNetwork[Any],
    data: _Data,
    rows: Tensor,
    gamma: float,
) -> Tensor:
    """One step of all members; their mean loss."""
    weights = data.weights(rows)
    after = data.picked(target.module(data.after[rows]), data.after_choice, rows)
    goal = (data.rewards[rows] + gamma * data.alive[rows] * after).clamp_(*data.bounds)
    traced = q.trace(data.before[rows])
    error = data.picked(traced.out, data.choice, rows) - goal
    traced.learn(data.spread(2.0 * weights * error / len(rows), traced.out, data.choice, rows))
    optimizer.clip(None)
    optimizer.step()
    loss: Tensor = (weights * error.square()).mean()
    return loss


class _Data:
    """A dataset with the policy's actions beside it, as the networks see it.

    Of vectors Q takes observation and action, of choices it takes the observation and says all values.
    """

    def __init__(self, actor: ActorOf[Any], columns: Columns, how: Fitting) -> None:
        _require_fit(actor, columns)
        ends = columns["terminated"] | columns["truncated"]
        starts = np.flatnonzero(np.concatenate([[True], ends[:-1]]))
        self._n, self._how = len(ends), how
        wide = columns["obs"][0].size + (
            1 if actor.actions.discrete else columns["actions"][0].size
        )
        require_memory(
            COPIES * 4 * wide * self._n,
            f"valuing a policy by {self._n:,} transitions",
            "their number",
        )
        obs, after = (_flat(columns[name], np.float32) for name in ("obs", "next_obs"))
        mean, std = obs.mean(0, dtype=np.float64), obs.std(0, dtype=np.float64) + EPS
        seen = [((rows - mean) / std).astype(np.float32) for rows in (obs, after)]
        taken, theirs = columns["actions"], _asked(actor, after)
        first = _asked(actor, obs[starts])
        self.scale = 1.0 / max(float(np.abs(columns["rewards"]).max()), 1e-8)
        self.rewards = torch.from_numpy(
            columns["rewards"].astype(np.float32) * np.float32(self.scale)
        )
        self.alive = torch.from_numpy((~columns["terminated"]).astype(np.float32))
        self.level = _level(columns, how.gamma) * self.scale
        self.bounds = _bounds(self.rewards, how.gamma)
        codec = actor.actions
        self.choice = self.after_choice = self._start_choice = None
        if codec.discrete:
            self.outputs = codec.size
            self.choice, self.after_choice, self._start_choice = (
                torch.from_numpy(_flat(a, np.int64)[:, 0].copy()) for a in (taken, theirs, first)
            )
            parts = [torch.from_numpy(rows) for rows in (*seen, seen[0][starts])]
        else:
            self.outputs = 1
            pairs = ((seen[0], taken), (seen[1], theirs), (seen[0][starts], first))
            parts = [torch.from_numpy(np.hstack([rows, _unit(codec, a)])) for rows, a in pairs]
        self.before, self.after, self._starts = parts
        self.width = int(self.before.shape[1])
        self._start_weights = _bootstraps(len(starts), how)
        self._episode = torch.from_numpy(np.cumsum(_marks(starts, self._n)) - 1)

    def drawn(self, update: int) -> NDArray[np.int64]:
        """The rows of a batch, uniformly."""
        stream = Stream(self._how.seed, "fqe", update)
        drawn: NDArray[np.int64] = (stream.uniform(self._how.batch_size) * self._n).astype(np.int64)
        return drawn

    def weights(self, rows: Tensor) -> Tensor:
        """How often each member has the episodes of these rows, `[1 + members, B]`."""
        return self._start_weights[:, self._episode[rows]]

    def picked(self, out: Tensor, choice: Tensor | None, rows: Tensor | None) -> Tensor:
        """`[members, B]` of what networks say `[members, B, outputs]`."""
        if choice is None:
            return out.squeeze(-1)
        at = choice if rows is None else choice[rows]
        return out.gather(-1, at.expand(len(out), -1).unsqueeze(-1)).squeeze(-1)

    def spread(self, slope: Tensor, like: Tensor, choice: Tensor | None, rows: Tensor) -> Tensor:
        """The way back of `picked`."""
        if choice is None:
            return slope.unsqueeze(-1)
        at = choice[rows].expand(len(like), -1).unsqueeze(-1)
        return torch.zeros_like(like).scatter_(-1, at, slope.unsqueeze(-1))

    def starts_value(self, q: EnsembleMLP) -> Tensor:
        """What each member says of the policy where its episodes begin, `[members]`."""
        values = self.picked(q(self._starts), self._start_choice, None)
        weighted: Tensor = (self._start_weights * values).sum(-1) / self._start_weights.sum(-1)
        return weighted


def _is_whole(value: Any, least: int) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least


def _checked(columns: Columns) -> Columns:
    """The columns that are learned from, as arrays of as many rows, flags as bools."""
    if missing := [name for name in COLUMNS if name not in columns]:
        raise ConfigError(
            f"the dataset has no column {missing[0]}, expected {', '.join(COLUMNS)}; its columns are "
            f"{', '.join(map(str, columns)) or 'none'}"
        )
    if masked := [name for name in COLUMNS if is_masked(columns[name])]:
        raise ConfigError(f"{masked[0]} of the dataset: {MASKED}")
    found = {name: np.asarray(columns[name]) for name in COLUMNS}
    lengths = {name: len(column) if column.ndim else 0 for name, column in found.items()}
    if len(set(lengths.values())) > 1 or not lengths["obs"]:
        told = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise ShapeError(f"rows of the dataset: {told}; expected as many of each, one at least")
    for name in FLAGS:
        if found[name].dtype != np.bool_:
            raise ConfigError(f"{name} of the dataset is {found[name].dtype}, expected bool")
    return found


def _flat(column: NDArray[Any], dtype: Any) -> NDArray[Any]:
    return column.reshape(len(column), -1).astype(dtype)


def _marks(starts: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    marks = np.zeros(n, np.int64)
    marks[starts] = 1
    return marks


def _bootstraps(episodes: int, how: Fitting) -> Tensor:
    """How often each Q has each episode, `[1 + members, episodes]`: once, then draws with replacement."""
    rows = [np.ones(episodes, np.int64)]
    for member in range(how.members):
        drawn = Stream(how.seed, "fqe-episodes", member).uniform(episodes) * episodes
        rows.append(np.bincount(drawn.astype(np.int64), minlength=episodes))
    return torch.from_numpy(np.stack(rows).astype(np.float32))


def _level(columns: Columns, gamma: float) -> float:
    """About what rows are worth, to begin with: the mean reward for ever, or for as long as episodes last."""
    returns = complete_returns(columns)
    mean = float(columns["rewards"].mean())
    if columns["terminated"].any():
        length = len(columns["rewards"]) / max(len(returns), 1)
        return mean * min(length / 2, 1.0 / max(1.0 - gamma, 1e-8))
    return mean / max(1.0 - gamma, 1.0 / len(columns["rewards"]))


def _bounds(rewards: Tensor, gamma: float) -> tuple[float, float]:
    """No policy is worth less than the least reward once or for ever, nor more than the greatest."""
    ends = [float(end) for end in rewards.aminmax()]
    each = [
        *ends,
        *(end / (1.0 - gamma) if gamma < 1.0 else math.copysign(math.inf, end) for end in ends),
    ]
    return min(each), max(each)


def _require_fit(actor: ActorOf[Any], columns: Columns) -> None:
    if not isinstance(actor, Forgetful):
        raise ConfigError(
            "the policy acts by what came before, expected one that acts by what it sees: what it would do "
            "in a row of a dataset is not known"
        )
    obs, expected = _flat(columns["obs"], np.float32), actor.observations.seen
    if actor.observations.images:
        raise ConfigError("the policy sees images, expected one of vectors")
    if actor.actions.kind == "factored":
        raise ConfigError(
            "the policy has actions of several parts, expected one choice or one vector"
        )
    if actor.observations.masked:
        raise ConfigError("the policy keeps to masks of actions, which no dataset has")
    if obs.shape[1] != expected:
        raise ShapeError(
            f"the dataset has observations of {obs.shape[1]} numbers, the policy {expected}"
        )
    require_taken(columns["actions"], actor.actions, "the dataset", "the policy's environment")
    for name in ("obs", "next_obs", "actions", "rewards"):
        if not np.isfinite(columns[name]).all():
            raise NonFiniteError(
                f"{name} of the dataset is not finite; rlox dataset check says where"
            )
    episodes = int((columns["terminated"] | columns["truncated"]).sum())
    if episodes < LEAST:
        raise ConfigError(
            f"the dataset has {episodes} complete episodes, expected at least {LEAST}: the interval is of "
            "bootstraps of them"
        )


def _asked(actor: ActorOf[Any], obs: NDArray[np.float32]) -> NDArray[Any]:
    """The policy's best actions as rows of a dataset."""
    found = []
    with actor.ready():
        for first in range(0, len(obs), AT_ONCE):
            rows = obs[first : first + AT_ONCE]
            player = actor.player(len(rows))
            found.append(actor.actions.of_env(player.act(rows), len(rows)))
    return np.concatenate(found)


def _unit(codec: ActionCodec, actions: NDArray[Any]) -> NDArray[np.float32]:
    """Vectors in [-1, 1] where they have bounds, else as they are."""
    rows = _flat(actions, np.float32)
    return codec.shrunk(rows) if isinstance(codec, UnitCodec) else rows
