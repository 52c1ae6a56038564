"""Tests that two processes together learn the same as one process with the whole batch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.process_group import start_group, wait_all

from rlox.distributed import SINGLE_PROCESS, ProcessGroup
from rlox.errors import ConfigError

from .learners import CASES, UPDATES, main

CLOSE = 1e-6


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the weights and metrics of each process: `alone`, `first` and `second`."""
    folder = tmp_path_factory.mktemp("together")
    both = start_group([Path(__file__).with_name("learners.py"), folder], 2, folder)
    main(folder)
    for code, _, error in wait_all(both):
        assert code == 0, error
    names = {"alone": "0-1", "first": "0-2", "second": "1-2"}
    return {
        who: (
            torch.load(folder / f"weights-{of}.pt"),
            json.loads((folder / f"told-{of}.json").read_text()),
        )
        for who, of in names.items()
    }


@pytest.mark.parametrize(("size", "parts"), [(2, 1), (2, 3), (3, 2)])
def test_every_row_of_each_part_belongs_to_one_process(size: int, parts: int) -> None:
    own = [ProcessGroup(rank, size).rows(12, parts) for rank in range(size)]
    assert sorted(np.concatenate(own).tolist()) == list(range(12))
    for part in range(parts):
        steps = [set(rows.reshape(parts, -1)[part].tolist()) for rows in own]
        assert set.union(*steps) == set(range(part * 12 // parts, (part + 1) * 12 // parts))
        assert {len(rows) for rows in steps} == {12 // parts // size}


def test_a_process_group_refuses_uneven_batches_and_a_lone_process_keeps_all() -> None:
    assert SINGLE_PROCESS.rows(7, 3).tolist() == list(range(7))
    with pytest.raises(ConfigError, match="10 prompts in a batch of 3 steps for 2 processes: expected"):
        ProcessGroup(0, 2).rows(10, 3)


def test_processes_that_begin_with_different_weights_say_so(learned: dict[str, Any]) -> None:
    for who in ("first", "second"):
        assert "the trainable weights are not the same in all processes" in learned[who][1]["apart"]


@pytest.mark.parametrize("case", CASES)
def test_fifty_updates_of_two_processes_are_those_of_one(case: str, learned: dict[str, Any]) -> None:
    (alone, told), (first, told_first), (second, told_second) = learned.values()
    assert torch.equal(first[case], second[case]), "both have the same weights"
    begin = CASES[case]().policy.table.detach()
    assert (alone[case] - begin).abs().max() > 0.01
    torch.testing.assert_close(first[case], alone[case], rtol=0.0, atol=CLOSE)
    assert told_first[case] == told_second[case]
    for one, both in zip(told[case], told_first[case], strict=True):
        assert one.keys() == both.keys()
        assert both == pytest.approx(one, rel=1e-4, abs=1e-5, nan_ok=True)
    assert told_first[case][-1]["samples"] == 4 * UPDATES
