"""Tests that every algorithm learns the values and actions of environments that each test one property."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from helpers.probes import ACTIONS, GAMMA, LATER, VALUES, VECTORS, with_vectors
from helpers.seeds import check_learned

from .specs import SPECS

PROBED = [name for name, spec in SPECS.items() if spec.probe]
WITH_MEMORY = ("recurrent_ppo",)
# Algorithms with a native engine, by the kind of their actions.
NATIVE = {"choices": ("a2c", "dqn", "ppo"), "vectors": ("a2c", "ddpg", "ppo", "sac", "td3")}


def engines(actions: str, names: list[str]) -> list[Any]:
    """Return algorithms with backends; torch runs only nightly where a native engine exists."""
    return [
        pytest.param(name, backend, marks=[pytest.mark.slow] * (len(found) > 1 and not at))
        for name in names
        for found in [("torch", "native") if name in NATIVE[actions] else ("torch",)]
        for at, backend in enumerate(found)
    ]


OF_CHOICES = engines("choices", [name for name in PROBED if SPECS[name].choices])
OF_VECTORS = engines("vectors", [name for name in PROBED if SPECS[name].vectors])
OF_VECTORS_ALONE = engines("vectors", [name for name in PROBED if not SPECS[name].choices])


def trained(name: str, backend: str, probe: Any, seed: int) -> Any:
    spec = SPECS[name]
    facade: Any = spec.facade
    algorithm = facade(probe, seed=seed, gamma=GAMMA, backend=backend, **spec.probe)
    algorithm.train(spec.probe_total)
    return algorithm


def test_only_algorithms_without_python_environments_have_no_probe() -> None:
    assert {name for name in SPECS if name not in PROBED} == {
        name
        for name, spec in SPECS.items()
        if spec.native_only or {"dataset", "task"} & set(next(iter(spec.cases.values())))
    }


@pytest.mark.parametrize("probe", VALUES)
@pytest.mark.parametrize(("name", "backend"), OF_CHOICES + OF_VECTORS_ALONE)
def test_an_algorithm_learns_the_values_of_the_definition(name: str, backend: str, probe: str) -> None:
    make, expected, tolerance = VALUES[probe]
    left_out = LATER.get(probe, ()) if name in WITH_MEMORY else ()
    asked = {state: worth for state, worth in expected.items() if state not in left_out}
    states, values = torch.tensor(list(asked))[:, None], np.array(list(asked.values()))

    def closeness(seed: int) -> float:
        shown = make if SPECS[name].choices else with_vectors(make)
        algorithm = trained(name, backend, shown, seed)
        with torch.inference_mode():
            found = SPECS[name].value(algorithm.policy, states).numpy()
        return -float(np.abs(found - values).max())

    assert check_learned(closeness, at_least=-tolerance)


@pytest.mark.parametrize("probe", ACTIONS)
@pytest.mark.parametrize(("name", "backend"), OF_CHOICES)
def test_an_algorithm_chooses_the_right_action_in_each_state(name: str, backend: str, probe: str) -> None:
    make, expected = ACTIONS[probe]

    def right(seed: int) -> float:
        algorithm = trained(name, backend, make, seed)
        act = SPECS[name].action
        taken = [act(algorithm, np.array([state], np.float32)) for state in expected]
        return float(np.mean(np.equal(taken, list(expected.values()))))

    assert check_learned(right, at_least=1.0)


@pytest.mark.parametrize(("name", "backend"), OF_VECTORS)
def test_the_mean_of_a_vector_goes_to_the_best_action(name: str, backend: str) -> None:
    make, expected = VECTORS["vector"]

    def closeness(seed: int) -> float:
        algorithm = trained(name, backend, make, seed)
        act = SPECS[name].action
        taken = [float(act(algorithm, np.array([state], np.float32))[0]) for state in expected]
        return -float(np.abs(np.subtract(taken, list(expected.values()))).max())

    # A constant action of 0 is 0.5 off; the worst of 20 seeds of the native algorithms was 0.12.
    assert check_learned(closeness, at_least=-0.3)
