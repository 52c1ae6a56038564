"""Tests a sweep whose runner is killed repeatedly: no job is repeated, lost or unreported."""

from __future__ import annotations

from pathlib import Path

import pytest
from faults.report import record
from faults.sweeps import NUMBERS, WORKERS, Campaign, counts
from helpers.selection import FULL

SEEDS, KILLS, MORE = (20, 20, 5) if FULL else (1, 3, 1)


@pytest.mark.slow
@pytest.mark.timeout(7200 if FULL else 900)
def test_a_sweep_that_is_killed_ends_as_one_that_was_not_and_repeats_nothing(
    tmp_path: Path,
) -> None:
    found = counts(Campaign(tmp_path, NUMBERS, SEEDS, KILLS), MORE)
    record("sweep, runner killed", found)
    crashing = SEEDS
    jobs = NUMBERS * SEEDS
    assert found["summary_equal"]
    assert (found["done"], found["failures_listed"]) == (jobs - crashing, crashing)
    assert found["finished_jobs_repeated"] == 0
    assert found["jobs_done_then"] == (NUMBERS - 1) * MORE
    # Each kill interrupts the jobs of both workers; each sweep repeats crashing jobs; no other job starts.
    assert jobs <= found["training_starts"] <= jobs + KILLS * (WORKERS + crashing)
    # every folder looks like one of a version without that key
    assert found["configs_without_a_key_of_today"] >= jobs
    done, again = (NUMBERS - 1) * (SEEDS + MORE), (NUMBERS - 1) * SEEDS
    assert found["said"] == f"{done} of {jobs + NUMBERS * MORE} jobs done, {again} of them before"
