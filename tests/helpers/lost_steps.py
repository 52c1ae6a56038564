"""Makes environments lose steps at chosen times, without another process."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from rlox.envs.gym_vec import SyncGymVecEnv

__all__ = ["lose_steps"]


@contextmanager
def lose_steps(steps: Collection[int]) -> Iterator[None]:
    """In the block every copy loses the steps with these numbers; its first step has number 1.

    This also happens after an evaluation in the same environments if these cannot save their state
    (`eval.reuse_env`).
    """
    n_steps, step_into = 0, SyncGymVecEnv.step_into

    def step(self: Any, *args: Any) -> Any:
        nonlocal n_steps
        n_steps += 1
        self._must_restart = n_steps in steps
        return step_into(self, *args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SyncGymVecEnv, "step_into", step)
        yield
