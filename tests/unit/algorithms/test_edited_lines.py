"""Tests that a term added to a line of a loss in the source of an algorithm is trained and logged."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from rlox.algorithms import A2C, PPO, PQN, HybridPPO, RecurrentPPO
from rlox.algorithms.cql.discrete import MinQPolicy
from rlox.algorithms.cql.learner import PenaltyNoise
from rlox.algorithms.ppo.learner import PPOLearner
from rlox.configs import make
from rlox.configs.bc import BCConfig
from rlox.configs.cql import CQLConfig
from rlox.configs.dqn import DQNConfig
from rlox.configs.iql import IQLConfig
from rlox.configs.rainbow import RainbowConfig
from rlox.configs.sac import SACConfig
from rlox.configs.td3 import DDPGConfig, TD3Config
from rlox.configs.td3_bc import TD3BCConfig
from rlox.configs.tqc import TQCConfig
from rlox.policies.actors import GaussianActor
from rlox.policies.deterministic import DeterministicPolicy
from rlox.policies.implicit import IQLPolicy
from rlox.policies.q_policy import QPolicy
from rlox.types import Clock

from .test_sac_update import ACT, OBS, batches, squashed
from .test_tqc_update import quantile_policy

SIZES = (OBS, ACT, 2, (8,), (8,), "relu")


def no_noise(update: int, shape: tuple[int, ...], like: Tensor) -> Tensor:
    return torch.zeros(shape)


def import_edited(name: str, old: str, new: str) -> ModuleType:
    """Return the module with one line of its source changed."""
    source = inspect.getsource(import_module(name))
    assert source.count(old) == 1, f"{old!r} is {source.count(old)} times in {name}"
    module = ModuleType(name)
    original, sys.modules[name] = sys.modules[name], module  # dataclasses look their module up
    try:
        exec(compile(source.replace(old, new), name, "exec"), module.__dict__)
    finally:
        sys.modules[name] = original
    return module


class Trained(NamedTuple):
    """A learner, and the batch that it learns from."""

    learner: Any
    batch: Any


def replayed(make_learner: Callable[[Any], Any], choices: int = 0) -> Callable[[Any], Trained]:
    return lambda module: Trained(make_learner(module), batches(1, choices=choices))


def collected(facade: Any, env_id: str, **options: Any) -> Callable[[Any], Trained]:
    """Return a function that gives a run's learner the `PPOLoss` of an edited module."""

    def start(module: Any) -> Trained:
        algorithm = facade(env_id, n_envs=2, n_steps=16, batch_size=16, n_epochs=1, seed=0, **options)
        learner = algorithm.learner
        learner.loss = module.PPOLoss(ent_coef=0.0)
        acting = getattr(learner, "native", learner.policy)
        return Trained(learner, algorithm.collector.collect(acting, 16))

    return start


def collected_a2c(module: Any) -> Trained:
    algorithm = A2C("CartPole-v1", n_envs=2, n_steps=16, seed=0, backend="torch")
    learner = module.A2CLearner(algorithm.policy, algorithm.config.algo)
    return Trained(learner, algorithm.collector.collect(algorithm.policy, 16))


def collected_pqn(module: Any) -> Trained:
    algorithm = PQN("CartPole-v1", n_envs=2, n_steps=16, batch_size=32, n_epochs=1, seed=0)
    learner = module.PQNLearner(algorithm.policy, algorithm.config.algo, algorithm.learner.streams)
    return Trained(learner, algorithm.collector.collect(algorithm.policy, 16))


def make_dqn(module: Any, config: Any = DQNConfig, **settings: Any) -> Any:
    algo = make(config, settings)
    values = module._make_value_distribution(algo)
    nets = [QPolicy(OBS, 3, (8,), dueling=False, value_distribution=values) for _ in range(2)]
    return module.DQNLearner(*nets, algo)


def make_deterministic(name: str, config: Any, **settings: Any) -> Callable[[Any], Any]:
    return lambda module: getattr(module, name)(DeterministicPolicy(*SIZES), make(config, settings), no_noise)


def make_tqc(module: Any) -> Any:
    config = make(TQCConfig, {"n_quantiles": 4})
    return module.TQCLearner(quantile_policy(config.n_critics), config, -1.0, no_noise)


def make_cql(module: Any) -> Any:
    config = make(CQLConfig, {"n_random_actions": 2})
    return module.CQLLearner(squashed(), config, -1.0, no_noise, PenaltyNoise(3))


def make_discrete_cql(module: Any) -> Any:
    return module.DiscreteCQLLearner(MinQPolicy(OBS, 3, 2, (8,), "relu"), make(CQLConfig, {}))


def make_bc(module: Any) -> Any:
    return module.BCLearner(GaussianActor(OBS, ACT, (8,), "relu"), make(BCConfig, {}))


class Edit(NamedTuple):
    """A term added to the end of `line`; `metric` is the logged loss; `trains` begins the trained names."""

    module: str
    line: str
    term: str
    start: Callable[[Any], Trained]
    metric: str
    trains: str


PPO_TOTAL = (
    "rlox.losses.ppo",
    "total = policy + self.vf_coef * value - self.ent_coef * mean_entropy",
    " + 10.0 * log_probs.square().mean()",
)
TD3_ACTOR = ("rlox.algorithms.td3.learner", "members=1).mean()", " + self.policy.act(obs).square().mean()")
DQN_LOSS = (
    "rlox.algorithms.dqn.learner",
    "loss, errors = value_distribution.loss(chosen_outputs, td_target, weights)",
    "; loss = loss + 10.0 * chosen_outputs.square().mean()",
)
EDITS = {
    "PPO": Edit(*PPO_TOTAL, collected(PPO, "CartPole-v1", backend="torch"), "loss/total", "actor"),
    "PPO, vectors": Edit(*PPO_TOTAL, collected(PPO, "Pendulum-v1", backend="torch"), "loss/total", "actor"),
    "hybrid PPO": Edit(*PPO_TOTAL, collected(HybridPPO, "CartPole-v1"), "loss/total", "actor"),
    "recurrent PPO": Edit(*PPO_TOTAL, collected(RecurrentPPO, "CartPole-v1"), "loss/total", "actor"),
    "A2C": Edit(
        "rlox.algorithms.a2c.learner", "+ config.vf_coef * value_term - ent_coef * entropy",
        " + 10.0 * log_probs.square().mean()", collected_a2c, "loss/total", "actor",
    ),
    "PQN": Edit(
        "rlox.algorithms.pqn.learner", 'loss = td_loss(q, rows.returns, "mse")',
        " + 10.0 * q.square().mean()", collected_pqn, "loss/q", "q.",
    ),
    "DQN": Edit(*DQN_LOSS, replayed(make_dqn, 3), "loss/q", "q."),
    "Rainbow": Edit(
        *DQN_LOSS, replayed(lambda module: make_dqn(module, RainbowConfig, v_min=-5.0, v_max=5.0), 3),
        "loss/q", "q.",
    ),
    "SAC": Edit(
        "rlox.algorithms.sac.learner", "return soft_policy_loss(log_prob, value, alpha)",
        " + 10.0 * actions.square().mean()",
        replayed(lambda module: module.SACLearner(squashed(), make(SACConfig, {}), -1.0, no_noise)),
        "loss/actor", "actor.",
    ),
    "TQC": Edit(
        "rlox.algorithms.tqc", "loss = quantile_critics_loss(quantiles, atoms, weights)",
        " + 10.0 * quantiles.square().mean()", replayed(make_tqc), "loss/critic", "critic.",
    ),
    "TD3": Edit(
        *TD3_ACTOR, replayed(make_deterministic("TD3Learner", TD3Config, policy_delay=1)), "loss/actor",
        "actor.",
    ),
    "DDPG": Edit(*TD3_ACTOR, replayed(make_deterministic("TD3Learner", DDPGConfig)), "loss/actor", "actor."),
    "TD3+BC": Edit(
        "rlox.algorithms.td3_bc.learner", "- weight * q.mean()", " + 10.0 * action.square().mean()",
        replayed(make_deterministic("TD3BCLearner", TD3BCConfig, policy_delay=1)), "loss/actor", "actor.",
    ),
    "IQL": Edit(
        "rlox.algorithms.iql.learner",
        "actor_loss = -(weight * self.policy.actor.log_prob(obs, actions)).mean()",
        " + sum(p.square().sum() for p in self.policy.actor.parameters())",
        replayed(lambda module: module.IQLLearner(IQLPolicy(*SIZES), make(IQLConfig, {}))),
        "loss/actor", "actor.",
    ),
    "CQL": Edit(
        "rlox.algorithms.cql.learner", "penalty = share * (log_mean - q_data).mean(-1).sum()",
        " + 10.0 * q_data.square().mean()", replayed(make_cql), "loss/conservative", "critic.",
    ),
    "discrete CQL": Edit(
        "rlox.algorithms.cql.discrete", "penalty = values.logsumexp(-1) - q", " + 10.0 * q.square()",
        replayed(make_discrete_cql, 3), "loss/conservative", "critic.",
    ),
    "BC": Edit(
        "rlox.algorithms.bc.learner", "if is_mse else -log_prob.mean()", " + 10.0 * log_prob.square().mean()",
        replayed(make_bc), "loss/policy", "",
    ),
}  # fmt: skip


def train(edit: Edit, term: str) -> tuple[dict[str, Tensor], float]:
    """Train for one batch with the term; return the weights and the logged loss."""
    module = import_edited(edit.module, edit.line, edit.line + term)
    torch.manual_seed(0)
    learner, batch = edit.start(module)
    update = learner.update(batch, Clock(horizon=100))
    weights = {name: value.clone() for name, value in learner.policy.state_dict().items()}
    return weights, update.metrics[edit.metric]


@pytest.mark.parametrize("name", EDITS)
def test_a_term_added_to_a_line_of_a_loss_changes_what_is_learned_and_what_is_logged(name: str) -> None:
    edit = EDITS[name]
    (plain, plain_loss), (edited, edited_loss) = train(edit, ""), train(edit, edit.term)
    assert any(not torch.equal(plain[n], edited[n]) for n in plain if n.startswith(edit.trains))
    assert edited_loss != pytest.approx(plain_loss, rel=1e-3)


class CuriousPPO(PPOLearner):
    """A plugin's subclass: PPO with a bonus for small log-probabilities."""

    def _terms(self, minibatch: Any) -> Any:
        terms = super()._terms(minibatch)
        log_probs, _, _ = self._evaluate(minibatch)
        return terms._replace(total=terms.total + 10.0 * log_probs.square().mean())


def test_a_term_of_a_subclass_of_ppos_learner_is_trained_and_logged() -> None:
    results = []
    for cls in (PPOLearner, CuriousPPO):
        algorithm = PPO(
            "CartPole-v1", n_envs=2, n_steps=16, batch_size=16, n_epochs=1, seed=0, backend="torch"
        )
        learner = cls(algorithm.policy, algorithm.config.algo, algorithm.learner.streams)
        update = learner.update(algorithm.collector.collect(algorithm.policy, 16), Clock(horizon=100))
        results.append((learner.policy.actor[0].weight.detach().clone(), update.metrics["loss/total"]))
    assert not torch.equal(results[0][0], results[1][0])
    assert results[1][1] > results[0][1] + 1e-3
