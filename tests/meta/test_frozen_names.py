"""Names that users type and files hold stay: `helpers/frozen_names.py` reads them from the code."""

from __future__ import annotations

import ast

import pytest
from helpers.frozen_names import current, frozen, state_keys, streams

KINDS = sorted(frozen())


@pytest.fixture(scope="module")
def names():
    return current()


@pytest.mark.parametrize("kind", KINDS)
def test_no_name_that_is_typed_or_saved_has_gone(names, kind):
    gone = sorted(set(frozen()[kind]) - set(names[kind]))
    assert gone == [], f"{kind}: keep these names, or let old runs and commands go on without them"


@pytest.mark.parametrize("kind", KINDS)
def test_each_name_that_is_typed_or_saved_is_on_the_list(names, kind):
    assert sorted(names) == KINDS
    new = sorted(set(names[kind]) - set(frozen()[kind]))
    assert new == [], f"{kind}: `python tests/helpers/frozen_names.py` adds them to the list"


def test_names_of_streams_and_keys_of_states_are_read_from_calls_and_methods():
    tree = ast.parse(
        """
class Source:
    def state(self):
        return {"lengths": self.lengths, **({"rule": 1} if self.rule else {})}

    def shown(self):
        return {"not_saved": 1}

    def draw(self, number):
        stream_seed(self.seed, f"restart-{number}", 0)
        self.streams.generator("action", number)
        self.other("no_stream")
"""
    )
    assert sorted(state_keys(tree)) == ["lengths", "rule"]
    assert sorted(streams(tree)) == ["action", "restart-"]
