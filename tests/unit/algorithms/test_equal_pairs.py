"""Tests pairs with equal chosen and rejected completions, from which nothing can be learned."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from helpers.tiny_lm import ANSWERS, PROMPTS, REJECTED, TinyLM

from rlox.algorithms import DPO, SFT
from rlox.errors import ConfigError


def test_a_pair_of_equal_completions_has_no_gradient() -> None:
    for loss_type in ("sigmoid", "ipo", "hinge", "robust"):
        dpo = DPO(TinyLM(), loss_type=loss_type)
        loss, metrics = dpo.compute_loss(PROMPTS, ANSWERS, ANSWERS)
        loss.backward()  # type: ignore[no-untyped-call]
        assert float(dpo.policy.table.grad.abs().max()) <= 1e-6  # not 0 because of rounding
        assert metrics["margin"] == 0.0


def test_train_step_warns_once_of_equal_pairs_with_the_first_row() -> None:
    dpo = DPO(TinyLM())
    told = "are the same in 2 of 4 rows (the first is row 1): nothing is learned from these"
    rejected = [REJECTED[0], ANSWERS[1], REJECTED[2], ANSWERS[3]]
    with pytest.warns(UserWarning, match=re.escape(told)):
        dpo.train_step(PROMPTS, ANSWERS, rejected)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dpo.train_step(PROMPTS, ANSWERS, rejected)
        DPO(TinyLM()).train_step(PROMPTS, ANSWERS, REJECTED)
        # padding is no token, so the shorter completion is a different one
        DPO(TinyLM()).train_step(PROMPTS[:1], torch.tensor([[4]]), torch.tensor([[4, 0]]))


def test_a_batch_of_equal_pairs_alone_is_refused_and_nothing_is_learned() -> None:
    dpo = DPO(TinyLM())
    with pytest.raises(ConfigError, match="chosen and rejected are the same in all 4 rows"):
        dpo.train_step(PROMPTS, ANSWERS, ANSWERS)
    assert (dpo.clock.updates, torch.equal(dpo.policy.table, TinyLM().table)) == (0, True)


def write_pairs(folder: Path, equal_rows: Sequence[int], n_rows: int = 20) -> Path:
    """Write a file of pairs; the completions of the given rows are equal."""
    lines = [
        {"prompt": f"{i}+1=", "chosen": f"{i + 1}", "rejected": f"{i + (i in equal_rows)}"}
        for i in range(n_rows)
    ]
    (folder / "pairs.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return folder / "pairs.jsonl"


def test_dpo_warns_of_equal_pairs_in_a_file_with_count_and_line(
    tmp_path: Path,
) -> None:
    path = write_pairs(tmp_path, equal_rows=[4, 7, 11])
    told = f"dataset={path}: chosen and rejected are the same tokens in 3 of 20 rows (the first is line 5)"
    with pytest.warns(UserWarning, match=re.escape(told)):
        DPO("tiny", dataset=path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SFT("tiny", dataset=path)  # SFT learns the chosen completions


def test_a_file_of_equal_pairs_alone_is_refused(tmp_path: Path) -> None:
    path = write_pairs(tmp_path, equal_rows=range(20))
    told = f"dataset={path}: chosen and rejected are the same tokens in 20 of 20 rows, so there is"
    with pytest.raises(ConfigError, match=re.escape(told)):
        DPO("tiny", dataset=path)
