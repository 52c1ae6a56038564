"""Tests that layers are refused if they are unfrozen, added, replaced or removed after the learner exists."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers.policies import UserMlp
from torch import nn

from rlox.algorithms import A2C, DQN, GRPO, PPO
from rlox.callbacks import Callback
from rlox.errors import ConfigError
from rlox.policies import DiscretePolicy

SMALL: dict[str, Any] = {"n_envs": 2, "n_steps": 8}
NOT_TRAINED_ERROR = "unfrozen, added, replaced or removed since the optimizer was made"


def unfreeze_layer(policy: Any) -> str:
    policy.actor[0].requires_grad_(True)
    return r"actor\.0\.weight, (module\.)?actor\.0\.bias"


def replace_layer(policy: Any) -> str:
    layer = policy.actor[-1]
    policy.actor[-1] = nn.Linear(layer.in_features, layer.out_features)
    return r"actor\.\d\.weight, (module\.)?actor\.\d\.bias"


def add_parameter(policy: Any) -> str:
    policy.scale = nn.Parameter(torch.ones(()))
    return "scale"


def remove_parameter(policy: Any) -> str:
    policy.critic[-1].bias = None
    return r"critic\.\d\.bias"


@pytest.mark.parametrize("facade", [PPO, A2C])
@pytest.mark.parametrize("change", [unfreeze_layer, replace_layer, add_parameter, remove_parameter])
@pytest.mark.parametrize("kind", [UserMlp, DiscretePolicy])
def test_an_update_refuses_layers_that_it_would_not_learn(kind: Any, change: Any, facade: Any) -> None:
    policy = kind(4, 2)
    policy.actor[0].requires_grad_(False)  # selects the torch backend
    algorithm = facade("CartPole-v1", policy=policy, **SMALL)
    algorithm.train(16)
    name = change(policy)
    before = [p.clone() for p in policy.parameters()]
    with pytest.raises(ConfigError, match=f"{name}: {NOT_TRAINED_ERROR}"):
        algorithm.train(32)
    assert all(map(torch.equal, before, policy.parameters()))


def test_a_saved_run_with_a_replaced_layer_trains_after_loading(
    tmp_path: Any,
) -> None:
    policy = UserMlp(4, 2)
    first = PPO("CartPole-v1", policy=policy, **SMALL)
    first.train(16)
    replace_layer(policy)
    first.save(tmp_path / "saved")
    again = UserMlp(4, 2)
    PPO.from_checkpoint(tmp_path / "saved", policy=again).train(32)
    assert not torch.equal(again.actor[-1].weight, policy.actor[-1].weight)


def test_a_layer_that_a_callback_unfreezes_is_refused() -> None:
    policy = UserMlp(4, 2)
    policy.actor[0].requires_grad_(False)

    class Stage(Callback):
        def on_step(self, **told: Any) -> None:
            if told["step"] >= 32:
                unfreeze_layer(policy)

    with pytest.raises(ConfigError, match=NOT_TRAINED_ERROR):
        A2C("CartPole-v1", policy=policy, callbacks=[Stage()], **SMALL).train(64)


def test_a_layer_without_parameters_may_be_replaced() -> None:
    policy = UserMlp(4, 2)
    algorithm = A2C("CartPole-v1", policy=policy, **SMALL)
    algorithm.train(16)
    policy.actor[1] = nn.ReLU()
    before = policy.actor[0].weight.clone()
    algorithm.train(32)
    assert not torch.equal(before, policy.actor[0].weight)


def test_a_replaced_layer_of_an_off_policy_network_is_refused() -> None:
    algorithm = DQN("CartPole-v1", learning_starts=8, buffer_size=100, backend="torch")
    algorithm.train(16)
    name, last = [(n, m) for n, m in algorithm.policy.named_modules() if type(m) is nn.Linear][-1]
    algorithm.policy.set_submodule(name, nn.Linear(last.in_features, last.out_features))
    with pytest.raises(ConfigError, match=NOT_TRAINED_ERROR):
        algorithm.train(32)


@pytest.mark.parametrize("change", ["unfreeze", "replace"])
def test_a_model_of_text_refuses_layers_that_it_would_not_learn(change: str) -> None:
    net = nn.Sequential(nn.Embedding(20, 8), nn.Linear(8, 20))
    net[1].requires_grad_(change == "replace")
    prompts = torch.randint(0, 20, (4, 3), generator=torch.Generator().manual_seed(0))
    grpo = GRPO(
        net,
        reward_fn=lambda completions, prompts: [float((c < 10).float().mean()) for c in completions],
        max_new_tokens=3,
    )
    grpo.train(prompts, n_epochs=1)
    if change == "replace":
        net[1] = nn.Linear(8, 20)
    net[1].requires_grad_(True)
    with pytest.raises(ConfigError, match=rf"1\.weight, 1\.bias: {NOT_TRAINED_ERROR}"):
        grpo.train(prompts, n_epochs=2)
