"""Random programs of calls on every buffer: half of the calls are valid and equal to a NumPy model, half
are spoilt and refused with a typed error, or valid all the same and equal to the model too. After each
call, refused ones too, the buffer holds what the model holds.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from helpers.callables.buffers import Program
from helpers.callables.calls import Quick
from helpers.callables.comparing import assert_equal, assert_same
from helpers.callables.engine import Invalid, Stale
from helpers.callables.programs import PROGRAMS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlox.errors import InternalError, RloxError, StaleIndexError

EXAMPLES = 500
EACH = 2  # calls of each method in a program, valid and spoilt
# what needs no row to be held
FREE = {
    "push", "push_batch", "save", "load", "facts", "restore", "prune", "clear", "flush", "construct",
    "from_spaces", "hindsight",
}  # fmt: skip
# memory that pretends to be a disk: these programs are not about the device
SHM = Path("/dev/shm")


def run(program: Program, step: str, spoil: bool) -> str:
    """One call, compared with the model or refused; returns which."""
    if step not in FREE and not program.model.held():
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


@pytest.mark.parametrize("kind", PROGRAMS, ids=lambda kind: kind.kind.__name__)
def test_random_programs_of_calls_equal_the_model(kind):
    made: Counter[tuple[str, bool]] = Counter()
    ends: Counter[str] = Counter()

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(seed=st.integers(0, 2**64 - 1))
    def examples(seed: int) -> None:
        draw = Quick(seed)
        home = SHM if SHM.exists() else None
        # a spoilt path is relative
        with tempfile.TemporaryDirectory(dir=home) as folder, contextlib.chdir(folder):
            program = kind(draw, Path(folder))
            steps = [(s, spoil) for s in program.steps for spoil in (False, True)] * EACH
            for at in draw.rng.permutation(len(steps)):
                step, spoil = steps[at]
                ends[run(program, step, spoil)] += 1
                made[step, spoil] += 1
                assert_same(*program.contents())
            program.close()

    examples()
    assert min(made.values()) >= 1_000 and len(made) == 2 * len(kind.steps)
    assert min(ends[end] for end in kind.ends) >= 100
