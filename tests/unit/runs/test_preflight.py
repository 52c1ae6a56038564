"""Tests that a run that does not fit into memory is refused before its first step.

The error tells how much it needs, how much there is, and which setting to lower.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rlox.algorithms import PPO
from rlox.errors import ConfigError, StorageError
from rlox.runs import preflight
from rlox.runs.preflight import available_memory, require_disk, require_memory
from rlox.runs.session import Session
from rlox.sources.arena import Arena

GIB = 1 << 30


def machine(root: Path, available: int, limit: str | None = None, usage: int = 0) -> Path:
    (root / "proc").mkdir()
    (root / "proc" / "meminfo").write_text(f"MemTotal: 1 kB\nMemAvailable: {available // 1024} kB\n")
    if limit is not None:
        (root / "sys" / "fs" / "cgroup").mkdir(parents=True)
        (root / "sys" / "fs" / "cgroup" / "memory.max").write_text(limit)
        (root / "sys" / "fs" / "cgroup" / "memory.current").write_text(str(usage))
    return root


@pytest.mark.parametrize(
    ("limit", "usage", "expected"),
    [
        (None, 0, 8 * GIB),
        ("max\n", GIB, 8 * GIB),
        (str(3 * GIB), GIB, 2 * GIB),
        (str(GIB), 2 * GIB, 0),
    ],
)
def test_a_control_groups_limit_bounds_the_available_memory(
    tmp_path: Path, limit: str | None, usage: int, expected: int
) -> None:
    assert available_memory(machine(tmp_path, 8 * GIB, limit, usage)) == expected


def test_too_little_memory_says_need_have_and_what_to_lower(tmp_path: Path) -> None:
    root = machine(tmp_path, 2 * GIB)
    require_memory(2 * GIB, "a rollout", "algo.n_steps", root)
    with pytest.raises(ConfigError, match=r"needs 3\.0 GiB .* 2\.0 GiB are available; lower algo\.n_st"):
        require_memory(3 * GIB, "a rollout", "algo.n_steps", root)


def test_a_rollout_that_cannot_fit_is_refused_when_the_algorithm_is_built() -> None:
    with pytest.raises(ConfigError, match=r"lower algo\.n_steps or env\.n_envs"):
        PPO("CartPole-v1", n_envs=1 << 16, n_steps=1 << 24)


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1"])
def test_the_size_of_an_arena_is_what_its_arrays_take(env_id: str) -> None:
    env = PPO(env_id, n_envs=3).collector.env
    arena = Arena(7, 3, env.observations.dim, env.actions)
    columns: list[Any] = [v for v in vars(arena).values() if hasattr(v, "nbytes")]
    assert len(columns) == 10
    taken = sum(c.nbytes for c in columns)
    assert Arena.byte_size(7, 3, env.observations.dim, env.actions) == taken


def test_a_disk_without_room_for_two_checkpoints_stops_the_session_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight.shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    with pytest.raises(StorageError, match=r"1000 B left, but the run needs .* for its checkpoints"):
        Session(PPO("CartPole-v1", n_envs=1), tmp_path).run()
    with pytest.raises(StorageError, match="run_root"):
        require_disk(tmp_path, 1001)
    require_disk(tmp_path, 1000)
