"""Tests every public callable of the extension. Valid calls equal a NumPy model; as many calls with a spoilt
argument raise a typed error or, if they are still valid, equal the model too.
"""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from helpers.callables import CASES, Case, programs
from helpers.callables.comparing import assert_equal
from helpers.callables.engine import Draw, Invalid, spoil_one
from helpers.selection import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlox import _core
from rlox.errors import InternalError, RloxError

EXAMPLES = examples(ci=40, nightly=100, full=1_000)
many = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def public_callables() -> set[str]:
    """Return functions, and the methods and properties of classes, as `name` or `Class.name`."""
    names = set()
    for name in _core.__all__:
        member = getattr(_core, name)
        names.add(name)
        if inspect.isclass(member):
            names |= {f"{name}.{method}" for method in vars(member) if not method.startswith("_")}
    return names


def check(case: Case, arguments: dict[str, Any]) -> None:
    try:
        expected = case.model(**arguments)
    except Invalid:
        with pytest.raises((RloxError, TypeError)) as refused:
            case.call(**arguments)
        assert not isinstance(refused.value, InternalError)
        assert str(refused.value)
        return
    assert_equal(case.call(**arguments), expected, case.tolerance)


# The model of these callables is torch (tests/parity/test_native_engine.py, test_native_dqn.py,
# test_native_critics.py and test_native_offline.py, tests/unit/sources/test_native_collector.py). The tests
# of exploring and iterations compare with these callables (tests/unit/algorithms/test_iterations.py and
# test_replayed_iterations.py).
BY_TORCH = {
    "OffPolicyEngine", "OffPolicyEngine.learn", "OffPolicyEngine.vector_lengths",
    "Explorer", "Explorer.act", "Explorer.collect",
    "ReplayIteration", "ReplayIteration.learn", "ReplayIteration.stored", "ReplayIteration.learned",
    "ReplayIteration.trainings", "ReplayIteration.error", "ReplayIteration.seconds",
    "ReplayIteration.episodes",
    "OnPolicyEngine", "OnPolicyEngine.ppo", "OnPolicyEngine.a2c", "OnPolicyEngine.gradient",
    "RolloutPolicy", "RolloutPolicy.act", "RolloutPolicy.values", "RolloutPolicy.outputs",
    "RolloutPolicy.collect",
    "Iteration", "Iteration.ppo", "Iteration.a2c", "Iteration.collected", "Iteration.episodes",
}  # fmt: skip


def test_every_public_callable_has_a_model():
    covered = BY_TORCH | set(CASES).union(*(case.covers for case in CASES.values()))
    assert public_callables() - covered - programs.COVERED == set()


@pytest.mark.parametrize("name", sorted(CASES))
@many
@given(data=st.data())
def test_a_valid_call_equals_its_numpy_model(name: str, data: st.DataObject):
    case = CASES[name]
    arguments = case.draw(Draw(data))
    expected = case.model(**arguments)
    assert_equal(case.call(**arguments), expected, case.tolerance)


@pytest.mark.parametrize("name", sorted(CASES))
@many
@given(data=st.data())
def test_a_spoilt_call_is_refused_or_equals_the_model(name: str, data: st.DataObject):
    case, draw = CASES[name], Draw(data)
    arguments = spoil_one(draw, case.draw(draw), case.fixed)
    check(case, arguments)
