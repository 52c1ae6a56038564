"""Tests that rows of text become the same tokens as in TRL."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from parity.text_rows import GOLDEN, ROWS
from rlox.llm.codecs import Tokenizer
from rlox.llm.datasets import TextDataset
from rlox.llm.prompts import answer_context

THEIRS = json.loads((GOLDEN / "tokens.json").read_text())


@pytest.mark.parametrize("kind", ROWS)
def test_text_dataset_rows_become_the_tokens_that_trl_makes(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS[kind]))
    made = [row.prompt for row in TextDataset(path, Tokenizer(GOLDEN)).rows]
    assert len(made) == len(THEIRS[kind])
    for prompt, theirs in zip(made, THEIRS[kind], strict=True):
        ours = {
            "prompt": answer_context(prompt),
            "right": prompt.answer_ids,
            "wrong": prompt.rejected_ids,
        }
        assert {name: ids.tolist() for name, ids in ours.items() if ids is not None} == theirs
