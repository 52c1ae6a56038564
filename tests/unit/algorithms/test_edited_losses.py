"""Tests that what is edited is what trains: a term added to a loss changes weights and the logged loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from rlox.algorithms.cql.learner import CQLLearner
from rlox.algorithms.dqn.learner import DQNLearner
from rlox.algorithms.iql.learner import IQLLearner
from rlox.algorithms.sac.learner import SACLearner
from rlox.algorithms.td3.learner import TD3Learner
from rlox.configs import DQNConfig, IQLConfig, SACConfig, TD3Config, make
from rlox.policies.deterministic import DeterministicPolicy
from rlox.policies.implicit import IQLPolicy
from rlox.policies.q_policy import QPolicy
from rlox.policies.soft import CategoricalSACPolicy
from rlox.types import Clock

from .test_offline_limits import conservative
from .test_sac_update import ACT, OBS, batches, squashed

SIZES = (OBS, ACT, 2, (8,), (8,), "relu")


def no_noise(update: int, shape: tuple[int, ...], like: Tensor) -> Tensor:
    return torch.zeros(shape)


def make_sac() -> SACLearner:
    return SACLearner(squashed(), make(SACConfig, {}), -1.0, no_noise)


def make_discrete_sac() -> SACLearner:
    policy = CategoricalSACPolicy(OBS, 3, 2, (8,), (8,), "relu")
    return SACLearner(policy, make(SACConfig, {}), 0.5, no_noise)


def make_td3() -> TD3Learner:
    return TD3Learner(DeterministicPolicy(*SIZES), make(TD3Config, {"policy_delay": 1}), no_noise)


def make_iql() -> IQLLearner:
    return IQLLearner(IQLPolicy(*SIZES), make(IQLConfig, {}))


def make_cql() -> CQLLearner:
    return conservative(2, ACT)


def make_dqn(**settings: Any) -> DQNLearner:
    config = make(DQNConfig, settings)
    nets = [QPolicy(OBS, 3, (8,), value_distribution=_values(config)) for _ in range(2)]
    return DQNLearner(*nets, config)


def _values(config: DQNConfig) -> Any:
    from rlox.algorithms.dqn.learner import _make_value_distribution

    return _make_value_distribution(config)


def first_argument(values: Tensor, *_: Any) -> Tensor:
    return values.square().mean()


@dataclass(frozen=True)
class Edit:
    """A term for a loss function that a module uses; `metric` is the loss that the learner logs.

    `trains` begins the names of the numbers that the loss trains.
    """

    make_learner: Callable[[], Any]
    function: str
    metric: str
    trains: str
    term: Callable[..., Tensor] = first_argument
    discrete: bool = False


RETURNS = "rlox.policies.value_distribution."
SAC, IQL = "rlox.algorithms.sac.learner.", "rlox.algorithms.iql.learner."
EDITS = {
    "SAC actor": Edit(make_sac, SAC + "soft_policy_loss", "loss/actor", "actor."),
    "SAC critics": Edit(make_sac, SAC + "critics_loss", "loss/critic", "critic."),
    "SAC temperature": Edit(  # the term turns the direction of Adam's first step
        make_sac, "rlox.training.learner.temperature_loss", "loss/temperature", "alpha", lambda log, *_: -log
    ),
    "discrete SAC actor": Edit(
        make_discrete_sac, SAC + "soft_policy_loss", "loss/actor", "actor.", first_argument, True
    ),
    "TD3 critics": Edit(make_td3, "rlox.algorithms.td3.learner.critics_loss", "loss/critic", "critic."),
    "IQL value": Edit(make_iql, IQL + "expectile_loss", "loss/value", "value."),
    "IQL critics": Edit(make_iql, IQL + "critics_loss", "loss/critic", "critic."),
    "CQL critics": Edit(make_cql, "rlox.algorithms.cql.learner.critics_loss", "loss/critic", "critic."),
    "CQL actor": Edit(make_cql, SAC + "soft_policy_loss", "loss/actor", "actor."),
    "DQN": Edit(make_dqn, RETURNS + "td_loss", "loss/q", "q.", first_argument, True),
    "C51": Edit(
        lambda: make_dqn(distribution="categorical", v_min=-5.0, v_max=5.0),
        RETURNS + "categorical_kl", "loss/q", "q.", lambda logits, *_: logits.square().mean(-1), True,
    ),
    "QR-DQN": Edit(
        lambda: make_dqn(distribution="quantile"),
        RETURNS + "quantile_huber", "loss/q", "q.", lambda outputs, *_: outputs.square().mean(-1), True,
    ),
}  # fmt: skip


def train(edit: Edit) -> tuple[dict[str, Tensor], float]:
    """Train for one batch; return the trained numbers and the logged loss."""
    torch.manual_seed(0)
    learner = edit.make_learner()
    update = learner.update(batches(1, choices=3 if edit.discrete else 0), Clock(horizon=100))
    numbers = {name: value.clone() for name, value in learner.policy.state_dict().items()}
    if isinstance(learner, SACLearner):
        numbers["alpha"] = learner.temperature.alpha
    return numbers, update.metrics[edit.metric]


@pytest.mark.parametrize("name", EDITS)
def test_a_term_added_to_a_loss_changes_what_is_learned_and_what_is_logged(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit = EDITS[name]
    plain, plain_loss = train(edit)
    module, _, function = edit.function.rpartition(".")
    original = getattr(__import__(module, fromlist=[function]), function)
    monkeypatch.setattr(edit.function, lambda *args: original(*args) + 10.0 * edit.term(*args))
    edited, edited_loss = train(edit)
    assert any(not torch.equal(plain[n], edited[n]) for n in plain if n.startswith(edit.trains))
    if name != "SAC temperature":  # log alpha is 0 at the start, and so is its term
        assert edited_loss != pytest.approx(plain_loss, rel=1e-3)


class QuieterTD3(TD3Learner):
    """A user's subclass: TD3 with a penalty on large actions."""

    def _actor_loss(self, obs: Tensor, dataset_actions: Tensor) -> Tensor:
        return super()._actor_loss(obs, dataset_actions) + 10.0 * self.policy.act(obs).square().mean()


def test_a_term_of_a_subclass_trains_and_is_logged() -> None:
    results = []
    for cls in (TD3Learner, QuieterTD3):
        torch.manual_seed(0)
        learner = cls(DeterministicPolicy(*SIZES), make(TD3Config, {"policy_delay": 1}), no_noise)
        update = learner.update(batches(1), Clock(horizon=100))
        results.append((learner.policy.actor[0].weight.detach().clone(), update.metrics["loss/actor"]))
    assert not torch.equal(results[0][0], results[1][0])
    assert results[1][1] > results[0][1] + 1e-3
