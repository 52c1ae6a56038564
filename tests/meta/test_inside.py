"""Tests that signals arrive during calls, even if the first call is very short."""

from __future__ import annotations

from collections.abc import Callable

from helpers.mid_call import call_interrupted

from rlox import stopping


def test_a_call_that_ends_before_its_signal_repeats_at_double_size() -> None:
    sizes: list[int] = []
    rung: list[int] = []

    def make(size: int) -> Callable[[], int]:
        def call() -> int:
            sizes.append(size)
            rung.clear()
            stopping.raise_if_expired()  # sends the signal
            while size > 1 and not rung:
                stopping.raise_if_expired()
            if size > 1:
                stopping.raise_if_expired()
            return size

        return call

    assert call_interrupted(make, 1, lambda: rung.append(1)) == 2
    assert sizes == [1, 2]
