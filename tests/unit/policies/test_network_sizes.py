"""Tests that constructors of networks refuse wrong arguments by name."""

from __future__ import annotations

from typing import Any

import pytest

from rlox.errors import ConfigError
from rlox.networks import EnsembleMLP, NoisyMLP, QNetwork, SquashedGaussianPolicy, mlp
from rlox.policies import ContinuousPolicy, DiscretePolicy


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"obs_dim": "4"}, "obs_dim='4': expected a whole number of at least 1"),
        ({"obs_dim": (4,)}, r"obs_dim=\(4,\)"),
        ({"obs_dim": -1}, "obs_dim=-1"),
        ({"n_actions": 0}, "n_actions=0"),
        ({"n_actions": 2.0}, "n_actions=2.0"),
        ({"n_actions": True}, "n_actions=True"),
        ({"hidden": 0}, "hidden=0"),
        ({"net_arch": 64}, "net_arch=64: expected hidden widths, whole numbers"),
        ({"net_arch": "64"}, "net_arch='64'"),
        ({"net_arch": [64, 0]}, r"net_arch=\[64, 0\]"),
        ({"critic_net_arch": 8}, "critic_net_arch=8"),
        ({"activation": "gelu"}, "activation='gelu': expected one of tanh, relu"),
        ({"activation": ["tanh"]}, r"activation=\['tanh'\]"),
    ],
)
def test_a_policy_refuses_invalid_sizes_by_argument_name(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        DiscretePolicy(**({"obs_dim": 4, "n_actions": 2} | wrong))


@pytest.mark.parametrize("kind", [ContinuousPolicy, SquashedGaussianPolicy, QNetwork])
def test_networks_for_vector_actions_refuse_an_invalid_act_dim_by_name(kind: type) -> None:
    with pytest.raises(ConfigError, match=r"act_dim=0\.5"):
        kind(obs_dim=3, act_dim=0.5)


def test_a_policy_takes_whole_numbers_of_numpy_and_no_hidden_layer() -> None:
    import numpy as np

    policy = DiscretePolicy(np.int64(4), np.int32(2), net_arch=np.array([8]), critic_net_arch=[])
    assert [tuple(p.shape) for p in policy.critic.parameters()] == [(1, 4), (1,)]
    assert [tuple(p.shape) for p in policy.actor.parameters()] == [(8, 4), (8,), (2, 8), (2,)]


@pytest.mark.parametrize(
    "make",
    [
        lambda name: mlp((2, 2), name),
        lambda name: EnsembleMLP(2, (2, 2), name),
        lambda name: NoisyMLP((2, 2), name, 0.5),
    ],
)
def test_an_activation_that_is_none_of_rlox_is_refused(make: Any) -> None:
    with pytest.raises(ConfigError, match="activation='swish'"):
        make("swish")
