"""Tests that twenty updates of the offline algorithms equal literal transcriptions of their papers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from parity.ours_replayed import CRITICS
from parity.transcriptions.cql import CQL, CQLChoices
from parity.transcriptions.iql import IQL
from parity.transcriptions.td3_bc import TD3BC
from rlox.algorithms.cql.discrete import DiscreteCQLLearner, MinQPolicy
from rlox.algorithms.cql.learner import CQLLearner
from rlox.algorithms.iql.learner import IQLLearner
from rlox.algorithms.td3_bc.learner import TD3BCLearner
from rlox.configs import CQLConfig, IQLConfig, TD3BCConfig, make
from rlox.networks import EnsembleMLP, SquashedGaussianPolicy
from rlox.policies.deterministic import DeterministicPolicy
from rlox.policies.implicit import IQLPolicy
from rlox.policies.soft import SquashedSACPolicy
from rlox.types import Clock, Transitions

OBS, ACT, CHOICES, SAMPLES = 3, 2, 4, 3
BATCH, UPDATES, HIDDEN = 6, 20, (8, 7)
GAMMA, TAU, LR = 0.9, 0.1, 3e-3
CLOSE = 1e-8  # of the norm: torch counts Adam's steps in float32
Numbers = list[dict[str, Tensor]]


def numbers(choices: bool = False) -> Numbers:
    """Draw batches and the noise of the updates."""
    rng = np.random.default_rng(4)

    def normal(*shape: int) -> Tensor:
        return torch.from_numpy(rng.normal(size=shape))

    def batch() -> dict[str, Tensor]:
        taken = rng.integers(0, CHOICES, BATCH) if choices else rng.uniform(-1, 1, (BATCH, ACT))
        return {
            "obs": normal(BATCH, OBS),
            "next_obs": normal(BATCH, OBS),
            "actions": torch.from_numpy(taken),
            "rewards": normal(BATCH),
            "terminated": torch.from_numpy(rng.random(BATCH) < 0.3),
            "steps": torch.ones(BATCH),
            "noise_obs": normal(BATCH, ACT),
            "noise_next": normal(BATCH, ACT),
            "noise_target": 0.4 * normal(BATCH, ACT),
            "normal": normal(2, BATCH, SAMPLES, ACT),
            "uniform": torch.from_numpy(rng.uniform(-1, 1, (BATCH, SAMPLES, ACT))),
        }

    return [batch() for _ in range(UPDATES)]


def apart(values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Rename rlox's tensors as in the transcriptions: layers by number, critics one by one."""
    out: dict[str, Tensor] = {}
    for name, value in values.items():
        head, *rest = name.split(".")
        if head == "critic":
            part = {"weights": "weight", "biases": "bias"}[rest[0]]
            out |= {f"critic.{k}.{rest[1]}.{part}": value[k] for k in range(CRITICS)}
        elif rest[-1] in ("weight", "bias"):
            *path, layer, kind = rest
            out[".".join([head, *path, str(int(layer) // 2), kind])] = value
        else:
            out[name] = value
    return out


def learned_of(learner: Any, data: Numbers) -> Tensor:
    """Train on the batches and return all weights of rlox's learner."""
    for i, batch in enumerate(data):
        discounts = torch.where(batch["terminated"], 0.0, GAMMA)
        columns = [batch["obs"], batch["actions"], batch["rewards"], batch["next_obs"], discounts]
        indices = np.zeros((1, BATCH), np.uint64)
        rows = Transitions(*(column.unsqueeze(0) for column in columns), indices)
        learner.update(rows, Clock(updates=i, unit="updates", horizon=UPDATES))
    return joined(apart(learner.policy.state_dict()))


def joined(weights: Mapping[str, Tensor]) -> Tensor:
    return torch.cat([weights[name].detach().flatten() for name in sorted(weights)])


def start(policy: nn.Module) -> tuple[Any, dict[str, Tensor]]:
    torch.manual_seed(3)
    with torch.no_grad():
        for p in policy.parameters():
            p.copy_(0.4 * torch.randn_like(p))
    policy = policy.double()
    return policy, {k: v.clone() for k, v in apart(policy.state_dict()).items()}


def split(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Split the one head of a squashed actor into the two heads of the transcription."""
    out = {}
    for name, value in weights.items():
        if name.startswith("actor.net."):
            _, _, layer, kind = name.split(".")
            if int(layer) == len(HIDDEN):
                out |= {
                    f"actor.{head}.{kind}": half
                    for head, half in zip(("mean", "log_std"), value.split(ACT), strict=True)
                }
            else:
                out[f"actor.{layer}.{kind}"] = value
        else:
            out[name] = value
    return out


def together(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Join the two heads of the transcription as in rlox."""
    out = dict(weights)
    for kind in ("weight", "bias"):
        halves = [out.pop(f"actor.{head}.{kind}") for head in ("mean", "log_std")]
        out[f"actor.{len(HIDDEN)}.{kind}"] = torch.cat(halves)
    return {
        name.replace("actor.", "actor.net.") if name.startswith("actor.") else name: value
        for name, value in out.items()
        if name != "log_alpha"
    }


def given(name: str, data: Numbers, over: float = 1.0) -> Callable[..., Tensor]:
    return lambda update, shape, like: (data[update][name] / over).reshape(shape)


LIMIT = 0.4  # a limit of gradients that clips some of them
COMMON = {
    "gamma": GAMMA,
    "tau": TAU,
    "learning_rate": LR,
    "net_arch": HIDDEN,
    "max_grad_norm": LIMIT,
}
PAPER = {"gamma": GAMMA, "tau": TAU, "learning_rate": LR, "max_grad_norm": LIMIT}


def td3_bc(**changed: Any) -> tuple[Tensor, Tensor]:
    data = numbers()
    policy, weights = start(DeterministicPolicy(OBS, ACT, CRITICS, HIDDEN, HIDDEN, "relu"))
    config = make(TD3BCConfig, {**COMMON, "alpha": 1.7, **changed})
    learner = TD3BCLearner(policy, config, given("noise_target", data, config.target_noise))
    settings = {"alpha": 1.7, "policy_delay": 2, "target_noise_clip": 0.5}
    paper = TD3BC(weights, {**PAPER, **settings})
    for batch in data:
        paper.train(batch)
    return learned_of(learner, data), joined(paper.weights)


def iql(**changed: Any) -> tuple[Tensor, Tensor]:
    data = numbers()
    policy, weights = start(IQLPolicy(OBS, ACT, CRITICS, HIDDEN, HIDDEN, "relu"))
    config = make(IQLConfig, {**COMMON, "expectile": 0.8, "temperature": 2.0, **changed})
    settings = {"expectile": 0.8, "temperature": 2.0, "total": UPDATES}
    paper = IQL(weights, {**PAPER, **settings})
    for batch in data:
        paper.train(batch)
    return learned_of(IQLLearner(policy, config), data), joined(paper.weights)


CQL_SETTINGS = {"cql_alpha": 0.7, "auto_alpha": True, "cql_target_value": 0.1}


def cql(**changed: Any) -> tuple[Tensor, Tensor]:
    data = numbers()
    actor = SquashedGaussianPolicy(OBS, ACT, net_arch=HIDDEN)
    policy, weights = start(SquashedSACPolicy(actor, EnsembleMLP(CRITICS, (OBS + ACT, *HIDDEN, 1))))
    more = {"n_random_actions": SAMPLES, "actor_learning_rate": 1e-3, "ent_coef": 0.3}
    config = make(CQLConfig, {**COMMON, **CQL_SETTINGS, **more, **changed})

    def noise(update: int, shape: tuple[int, ...], like: Tensor) -> Tensor:
        return torch.stack([data[update]["noise_obs"], data[update]["noise_next"]])

    def draws(update: int, shape: tuple[int, ...], like: Tensor) -> tuple[Tensor, Tensor]:
        return data[update]["normal"], data[update]["uniform"]

    learner = CQLLearner(policy, config, -1.5, noise, draws)
    begun = {**split(weights), "log_alpha": torch.tensor([math.log(0.3)], dtype=torch.float64)}
    settings = {**PAPER, "actor_learning_rate": 1e-3}
    paper = CQL(begun, {**settings, **CQL_SETTINGS, "target_entropy": -1.5})
    for batch in data:
        paper.train(batch)
    ours = learned_of(learner, data)
    own = [learner.temperature.alpha.log(), learner.weight.alpha.log()]
    theirs = [paper.weights["log_alpha"].detach()[0], paper.weight.weights["log"].detach()]
    found = joined(together(paper.weights))
    return torch.cat([ours, torch.stack(own)]), torch.cat([found, torch.stack(theirs)])


def cql_choices(**changed: Any) -> tuple[Tensor, Tensor]:
    data = numbers(choices=True)
    policy, weights = start(MinQPolicy(OBS, CHOICES, CRITICS, HIDDEN, "relu"))
    config = make(CQLConfig, {**COMMON, **CQL_SETTINGS, "target_update_interval": 3, **changed})
    learner = DiscreteCQLLearner(policy, config)
    paper = CQLChoices(weights, {**PAPER, **CQL_SETTINGS, "target_update_interval": 3})
    for batch in data:
        paper.train(batch)
    ours, found = learned_of(learner, data), joined(paper.weights)
    log = paper.weight.weights["log"].detach()
    return torch.cat([ours, learner.weight.alpha.log()[None]]), torch.cat([found, log[None]])


def apart_by(pair: tuple[Tensor, Tensor]) -> float:
    ours, paper = pair
    return float((ours - paper).norm() / paper.norm())


@pytest.mark.parametrize("algo", [td3_bc, iql, cql, cql_choices])
def test_twenty_torch_offline_updates_equal_those_of_the_papers(algo: Any) -> None:
    assert apart_by(algo()) < CLOSE


@pytest.mark.parametrize(
    ("algo", "changed"),
    [
        (td3_bc, {"alpha": 1.6}),
        (td3_bc, {"policy_delay": 1}),
        (td3_bc, {"noise_clip": 0.4}),
        (td3_bc, {"tau": 0.2}),
        (td3_bc, {"max_grad_norm": None}),
        (iql, {"max_grad_norm": None}),
        (cql, {"max_grad_norm": None}),
        (cql_choices, {"max_grad_norm": None}),
        (cql_choices, {"target_update_interval": 1}),
        (iql, {"expectile": 0.7}),
        (iql, {"temperature": 1.9}),
        (iql, {"cosine_actor": False}),
        (iql, {"max_weight": 1.5}),
        (iql, {"tau": 0.2}),
        (cql, {"cql_alpha": 0.8}),
        (cql, {"auto_alpha": False, "cql_target_value": -1.0}),
        (cql, {"auto_entropy": False}),
        (cql, {"actor_learning_rate": 2e-3}),
        (cql, {"cql_target_value": 0.2}),
        (cql_choices, {"cql_alpha": 0.8}),
        (cql_choices, {"tau": 0.2}),
    ],
)
def test_torch_offline_updates_depend_on_every_setting(algo: Any, changed: dict[str, Any]) -> None:
    assert apart_by(algo(**changed)) > 1e-5
