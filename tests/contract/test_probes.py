"""Every algorithm learns the values and actions of environments that isolate one thing each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from helpers.probes import ACTIONS, GAMMA, VALUES, VECTORS, with_vectors

from .specs import SPECS

PROBED = [name for name, spec in SPECS.items() if spec.probe]


def trained(name: str, probe: Any) -> Any:
    spec = SPECS[name]
    facade: Any = spec.facade
    algorithm = facade(probe, seed=1, gamma=GAMMA, **spec.probe)
    algorithm.train(spec.probe_total)
    return algorithm


def test_an_algorithm_that_is_not_probed_learns_from_no_environment_of_python() -> None:
    assert {name for name in SPECS if name not in PROBED} == {
        name
        for name, spec in SPECS.items()
        if spec.native_only or {"dataset", "task"} & set(next(iter(spec.cases.values())))
    }


@pytest.mark.parametrize("probe", VALUES)
@pytest.mark.parametrize("name", PROBED)
def test_values_are_those_of_the_definition(name: str, probe: str) -> None:
    make, expected = VALUES[probe]
    algorithm = trained(name, make if SPECS[name].choices else with_vectors(make))
    states = torch.tensor(list(expected))[:, None]
    with torch.inference_mode():
        found = SPECS[name].value(algorithm.policy, states).tolist()
    tolerance = 0.1 * max(1.0, max(abs(v) for v in expected.values()))
    np.testing.assert_allclose(found, list(expected.values()), atol=tolerance)


@pytest.mark.parametrize("probe", ACTIONS)
@pytest.mark.parametrize("name", [n for n in PROBED if SPECS[n].choices])
def test_the_right_action_is_chosen_where_it_is_right(name: str, probe: str) -> None:
    make, expected = ACTIONS[probe]
    algorithm = trained(name, make)
    act = SPECS[name].action
    taken = [act(algorithm, np.array([state], np.float32)) for state in expected]
    assert taken == list(expected.values())


@pytest.mark.parametrize("name", [n for n in PROBED if SPECS[n].vectors])
def test_the_mean_of_a_vector_goes_where_it_should(name: str) -> None:
    make, expected = VECTORS["vector"]
    algorithm = trained(name, make)
    act = SPECS[name].action
    taken = [float(act(algorithm, np.array([state], np.float32))[0]) for state in expected]
    np.testing.assert_allclose(taken, list(expected.values()), atol=0.15)
