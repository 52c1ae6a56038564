"""Tests that typed and saved names stay: `helpers/frozen_names.py` reads them from the code."""

from __future__ import annotations

import ast

import pytest
from helpers.frozen_names import current, frozen, state_keys, streams

KINDS = sorted(frozen())


@pytest.fixture(scope="module")
def names():
    return current()


@pytest.mark.parametrize("kind", KINDS)
def test_the_code_keeps_every_frozen_name(names, kind):
    gone = sorted(set(frozen()[kind]) - set(names[kind]))
    assert gone == [], f"{kind}: keep these names, or let old runs and commands go on without them"


@pytest.mark.parametrize("kind", KINDS)
def test_the_frozen_list_has_every_typed_or_saved_name(names, kind):
    assert sorted(names) == KINDS
    new = sorted(set(names[kind]) - set(frozen()[kind]))
    assert new == [], f"{kind}: `python tests/helpers/frozen_names.py` adds them to the list"


def test_stream_names_come_from_calls_and_state_keys_from_methods():
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
