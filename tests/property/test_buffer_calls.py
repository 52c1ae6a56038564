"""Tests random programs of calls on every buffer and kind of observation. Half of the calls are valid and
equal a NumPy model. The other half have a spoilt argument: they raise a typed error, or are still valid and
equal the model. After each call, also a refused one, the buffer has the contents of the model.
"""

from __future__ import annotations

import contextlib
import random
import tempfile
import zlib
from collections import Counter
from pathlib import Path

import pytest
from helpers.callables.buffers import Program
from helpers.callables.calls import Quick
from helpers.callables.comparing import assert_equal, assert_same
from helpers.callables.engine import Invalid, Stale
from helpers.callables.programs import PROGRAMS
from helpers.callables.schemas import SCHEMAS
from helpers.memory_disk import memory_disk
from helpers.selection import FULL, examples
from hypothesis import HealthCheck, given, note, seed, settings
from hypothesis import strategies as st

from rlox.errors import InternalError, RloxError, StaleIndexError

EXAMPLES = examples(ci=72, nightly=400, full=20_000)
LONG = 50  # calls of a program
# calls that need no stored row
FREE = {
    "push", "push_batch", "save", "load", "facts", "restore", "prune", "clear", "flush", "construct",
    "from_spaces", "hindsight",
}  # fmt: skip


def run(program: Program, step: str, spoil: bool) -> str:
    """Make one call and compare it with the model or expect an error; return which."""
    if step not in FREE and not program.model.held_indices():
        run(program, "push", False)
    given = getattr(program, f"draw_{step}")()
    if spoil:
        given = program.spoil(step, given)
    call = program.caller(step)
    try:
        expected = getattr(program, f"model_{step}")(**given)
    except (Invalid, TypeError) as error:
        stale = isinstance(error, Stale)
        with pytest.raises(StaleIndexError if stale else (RloxError, TypeError)) as refused:
            call(**given)
        assert not isinstance(refused.value, InternalError), refused.value
        assert spoil, refused.value
        return "stale" if stale else "refused"
    assert_equal(call(**given), expected, 1e-10)
    return "made"


def calls(kind: type[Program]) -> st.SearchStrategy[list[tuple[str, bool, int]]]:
    """Draw steps, whether each is spoilt, and the seed of its arguments; most programs are long."""

    def call(number: int) -> tuple[str, bool, int]:
        rest, step = divmod(number, len(kind.steps))
        return kind.steps[step], bool(rest % 2), rest // 2

    # one draw for each call takes a third of the time of three
    one = st.integers(0, 2**32 - 1).map(call)
    length = st.sampled_from([1, LONG, LONG, LONG])
    return length.flatmap(lambda least: st.lists(one, min_size=least, max_size=LONG + 10))


@pytest.mark.parametrize("kind", PROGRAMS, ids=lambda kind: kind.kind.__name__)
def test_random_programs_of_calls_equal_the_model(kind):
    made: Counter[tuple[str, bool]] = Counter()
    ends: Counter[str] = Counter()

    @settings(max_examples=EXAMPLES // len(kind.schemas), suppress_health_check=list(HealthCheck))
    @given(st.integers(0, 2**32 - 1), calls(kind))
    def programs(schema: str, first: int, steps: list[tuple[str, bool, int]]) -> None:
        note(f"observations: {schema}")
        # a spoilt path is relative
        with tempfile.TemporaryDirectory(dir=memory_disk()) as folder, contextlib.chdir(folder):
            program = kind(Quick(first), Path(folder), SCHEMAS[schema])
            try:
                for step, spoil, drawn in steps:
                    program.draw = Quick(drawn)
                    note(f"{step}, {'spoilt' if spoil else 'valid'}, seed {drawn}")
                    ends[run(program, step, spoil)] += 1
                    made[step, spoil] += 1
                    assert_same(*program.contents())
            finally:
                program.close()

    for schema in kind.schemas:
        # each schema has its own run, always the same one; the full size draws others each time
        number = random.getrandbits(64) if FULL else zlib.crc32(f"{kind.__name__} {schema}".encode())
        seed(number)(programs)(schema)
    assert len(made) == 2 * len(kind.steps) and min(made.values()) >= EXAMPLES / 2
    assert min(ends[end] for end in kind.ends) >= EXAMPLES / 5
