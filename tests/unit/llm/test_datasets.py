"""Tests files of prompts, answers and pairs: TRL's columns, tokens, order, and errors for wrong lines."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.pretrained import folder, with_begin

from rlox.errors import ConfigError
from rlox.llm.codecs import ByteCodec, Tokenizer
from rlox.llm.datasets import DatasetPrompts, TextDataset
from rlox.llm.prompts import Prompt, TaskPrompts, answer_context
from rlox.llm.tasks import task_of

SKY = [{"role": "user", "content": "what colour is the sky?"}]
BLUE, GREEN = ([{"role": "assistant", "content": f"it is {of}"}] for of in ("blue", "green"))


def written(path: Path, *rows: Any) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def names(prompts: list[Prompt]) -> list[str]:
    return [prompt.columns["prompt"] for prompt in prompts if prompt.columns is not None]


@pytest.fixture(scope="module")
def codec(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return Tokenizer(folder(tmp_path_factory.mktemp("model")))


ROWS: dict[str, tuple[dict[str, Any], str, str | None, str | None]] = {
    "text": ({"text": "ab"}, "a", "b", None),
    "completion": ({"prompt": "2+2=", "completion": "4"}, "2+2=", "4", None),
    "pair": ({"prompt": "2+2=", "chosen": "4", "rejected": "5"}, "2+2=", "4", "5"),
    "implicit": ({"chosen": "it is blue", "rejected": "it is green"}, "it is", " blue", " green"),
    "prompt": ({"prompt": "2+2="}, "2+2=", None, None),
}


@pytest.mark.parametrize("kind", ROWS)
def test_a_text_is_cut_where_its_columns_say(kind: str, tmp_path: Path) -> None:
    row, prompt, right, wrong = ROWS[kind]
    bytes_ = ByteCodec()
    (found,) = TextDataset(written(tmp_path / "d.jsonl", row), bytes_).rows
    assert bytes_.decode(found.prompt.ids.numpy()) == prompt
    for there, expected in ((found.prompt.answer_ids, right), (found.prompt.rejected_ids, wrong)):
        if expected is None:
            assert there is None
        else:
            assert there is not None
            assert there.tolist() == bytes_.encode(expected, with_eos=True).tolist()


def test_a_conversation_is_cut_where_its_template_begins_the_answer(tmp_path: Path, codec: Tokenizer) -> None:
    start, end = "<|im_start|>", "<|im_end|>"
    asked = f"{start}user\nwhat colour is the sky?{end}\n{start}assistant\n"
    rows = {
        "c": {"prompt": SKY, "completion": BLUE},
        "p": {"prompt": SKY, "chosen": BLUE, "rejected": GREEN},
        "i": {"chosen": SKY + BLUE, "rejected": SKY + GREEN},
        "m": {"messages": SKY + BLUE},
    }
    for name, row in rows.items():
        ((_, prompt),) = TextDataset(written(tmp_path / f"{name}.jsonl", row), codec).rows
        assert prompt.answer_ids is not None
        text = [codec._tokenizer.decode(ids) for ids in (prompt.ids, prompt.answer_ids)]
        expected = [asked, f"it is blue{end}\n"]
        if name == "m":
            expected = [start, asked.removeprefix(start) + expected[1]]
        assert text == expected, name
        if name in "pi":
            assert codec._tokenizer.decode(prompt.rejected_ids) == f"it is green{end}\n"
    open_ended = {"prompt": [*SKY, {"role": "assistant", "content": "it is"}]}
    ((_, prompt),) = TextDataset(written(tmp_path / "o.jsonl", open_ended), codec).rows
    assert codec._tokenizer.decode(prompt.ids) == f"{asked}it is"


WRONG = {
    "{": "line 2 is no JSON",
    "[1]": "line 2 is no object, expected an object with the columns of one of: messages; text; prompt,",
    '{"completion": "a"}': "line 2 has columns completion, expected an object with the columns of one of",
    '{"prompt": "a", "completion": "b"}': "line 2 has columns prompt, completion, and lines before it",
    '{"prompt": ""}': "line 2: prompt is empty, expected a text",
    '{"prompt": "a", "answer": "b", "prompt": "c"}': "line 2 has the key 'prompt' twice, expected once",
    '{"prompt": "a", "more": {"b": 1, "b": 1}}': "line 2 has the key 'b' twice, expected once",
    '{"prompt": 3}': "line 2: prompt is 3, expected a text, or messages",
    '{"prompt": [{"role": "me", "content": "a"}]}': "line 2: prompt is [{'role': 'me'",
    '{"prompt": [{"role": "user", "content": "a"}]}': "line 2: a conversation needs a tokenizer with",
}


@pytest.mark.parametrize("line", WRONG)
def test_a_text_dataset_names_the_number_of_a_malformed_line(line: str, tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text(f'{{"prompt": "a"}}\n{line}\n')
    with pytest.raises(ConfigError) as told:
        TextDataset(path, ByteCodec())
    assert f"dataset={path}, {WRONG[line]}" in str(told.value)


@pytest.mark.parametrize("depth", [101, 150, 900, 5_000, 200_000])
def test_a_line_with_lists_deep_in_each_other_is_refused_by_its_number(depth: int, tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text(f'{{"prompt": "a"}}\n{{"prompt": "b", "more": {depth * "[" + depth * "]"}}}\n')
    with pytest.raises(ConfigError, match="line 2 has lists or objects nested more than 100 deep"):
        TextDataset(path, ByteCodec())
    path.write_text(f'{{"prompt": "b", "more": {90 * "[" + 90 * "]"}, "wide": [{"[]," * 200}[]]}}')
    assert len(TextDataset(path, ByteCodec()).rows) == 1


FORMATS = {
    b"PAR1\x15\x04": r"is no JSON: .*; the file is Parquet: pandas.read_parquet\(FILE\).to_json\(OUT, ",
    gzip.compress(b'{"prompt": "a"}'): r"is no JSON: .*; the file is compressed \(gzip\): unpack it",
    b"PK\x03\x04rest": r"is no JSON: .*; the file is compressed \(zip\): unpack it",
}


@pytest.mark.parametrize("begin", FORMATS, ids=["parquet", "gzip", "zip"])
def test_the_error_of_another_file_format_names_a_conversion_to_json_lines(
    begin: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "d.parquet"
    path.write_bytes(begin)
    with pytest.raises(ConfigError, match=f"line 1 {FORMATS[begin]}"):
        TextDataset(path, ByteCodec())


def test_a_text_dataset_refuses_missing_empty_and_too_long_rows_by_name(
    tmp_path: Path, codec: Tokenizer
) -> None:
    with pytest.raises(ConfigError, match=r"dataset=.*nowhere: No such file"):
        TextDataset(tmp_path / "nowhere", ByteCodec())
    with pytest.raises(ConfigError, match="has no rows, expected JSON objects, one a line"):
        TextDataset(written(tmp_path / "none.jsonl"), ByteCodec())
    rows = written(tmp_path / "two.jsonl", {"prompt": "ab"}, {"prompt": "abcd"})
    dataset = TextDataset(rows, ByteCodec())
    dataset.require_positions(7, 3)
    with pytest.raises(ConfigError, match=r"line 2 has 7 tokens, 3 of them to generate .* positions for 6"):
        dataset.require_positions(6, 3)
    refused = {"prompt": SKY, "tools": "[", "completion": BLUE}
    with pytest.raises(ConfigError, match="line 1"):
        TextDataset(written(tmp_path / "tools.jsonl", refused), codec)


def test_each_pass_has_every_row_once_in_a_new_order_by_the_seed(tmp_path: Path) -> None:
    rows = [{"prompt": f"{i:03}", "completion": "x"} for i in range(300)]
    dataset = TextDataset(written(tmp_path / "d.jsonl", *rows), ByteCodec())
    made = DatasetPrompts(dataset, None, 5, ByteCodec())
    held = set(names(made.held_out(1, 0, 1_000)))
    assert 40 < len(held) < 80
    count = 300 - len(held)

    def times(prompts: DatasetPrompts, first: int) -> list[str]:
        return names(prompts.training_prompts(first, count))

    one, two = times(made, 0), times(made, count)
    assert one != two
    assert set(one) == set(two) == {row["prompt"] for row in rows} - held
    half = made.training_prompts(count // 2, count)
    assert names(half) == [*one, *two][count // 2 :][:count]
    assert times(DatasetPrompts(dataset, None, 6, ByteCodec()), 0) != one
    parts = [made.held_out(1, at, 25) for at in range(0, 100, 25)]
    assert set().union(*map(names, parts)) == held
    apart = TextDataset(written(tmp_path / "e.jsonl", rows[0], rows[1]), ByteCodec(), "eval_dataset")
    named = DatasetPrompts(dataset, apart, 5, ByteCodec())
    assert len(set(names(named.training_prompts(0, 300)))) == 300
    assert len(named.held_out(0, 0, 10)) == 2


def test_a_file_too_small_to_be_parted_says_so(tmp_path: Path) -> None:
    dataset = TextDataset(written(tmp_path / "d.jsonl", {"prompt": "a"}), ByteCodec())
    with pytest.raises(ConfigError, match=r"of its 1 rows none is .*; set eval_dataset=FILE"):
        DatasetPrompts(dataset, None, 0, ByteCodec())


def test_answers_are_compared_by_their_text_and_not_by_their_tokens(codec: Tokenizer) -> None:
    whole = codec.encode("it is blue", with_eos=True)
    letters = np.concatenate([codec.encode(letter) for letter in "it is blue"])
    assert len(letters) > len(whole)
    ended = np.append(letters, codec.eos_ids[0])
    assert (
        codec.exact_match((), whole, "it is blue") == codec.exact_match((), [*ended, 5], "it is blue") == 1.0
    )
    assert codec.exact_match((), letters, "it is blue") == 0.0  # cut before its end token
    assert codec.exact_match((), np.append(codec.pad, whole), "it is blue") == 0.0  # padding is not text
    assert codec.partial_match((), ended, "it is blue") == 1.0
    assert codec.partial_match((), codec.encode("it is", with_eos=True), "it is blue") == pytest.approx(
        5 / 11
    )
    assert codec.partial_match((), letters, "it is blue") == pytest.approx(10 / 11)
    assert codec.decode([*ended, 5]) == "it is blue"


@pytest.mark.parametrize("text", ["abc", "für 5 €", "日本"])
def test_the_byte_tokenizer_decodes_every_text_that_it_encodes(text: str) -> None:
    codec = ByteCodec()
    ids = codec.encode(text, with_eos=True)
    assert codec.decode(ids) == text
    assert codec.exact_match((), ids, text) == 1.0
    assert (ids.max() < len(codec), ids[-1]) == (True, ByteCodec.END)
    assert codec.decode([2 + 0xFF, 2 + ord("a")]) == "\ufffda"


@pytest.fixture(scope="module")
def spaced(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    where = tmp_path_factory.mktemp("spaced")
    with_begin().save_pretrained(where)
    return Tokenizer(where)


def test_texts_have_one_bos_token_and_answers_have_none(spaced: Tokenizer, tmp_path: Path) -> None:
    assert spaced.bos_id == spaced.encode("good day")[0] == 1
    prompts = TaskPrompts(task_of("arithmetic"), 0, spaced)
    for k, prompt in enumerate(prompts.training_prompts(0, 20)):
        both = prompts.with_rejected(prompt, k)
        assert prompt.ids[0] == 1
        assert prompt.answer_ids is not None and both.answer_ids is not None and both.rejected_ids is not None
        assert 1 not in [*prompt.answer_ids.tolist(), *both.rejected_ids.tolist()]
        assert spaced.exact_match(prompt.ids.numpy(), prompt.answer_ids.numpy(), prompt.answer or "") == 1.0
        for answer in (both.answer_ids, both.rejected_ids):
            whole = torch.cat([answer_context(both), answer]).numpy()
            text = spaced.decode(whole)
            assert spaced.encode(text, with_eos=True).tolist() == whole.tolist()
    (row,) = TextDataset(
        written(tmp_path / "d.jsonl", {"prompt": "the sky is", "completion": " blue"}), spaced
    ).rows
    assert row.prompt.answer_ids is not None
    assert spaced.exact_match(row.prompt.ids.numpy(), row.prompt.answer_ids.numpy(), " blue") == 1.0
    assert spaced.exact_match(row.prompt.ids.numpy(), row.prompt.answer_ids.numpy(), "blue") == 0.0


def test_a_prompt_stays_whole_if_the_learned_tokens_begin_within_it(codec: Tokenizer, tmp_path: Path) -> None:
    row = {"prompt": "the sea i", "completion": "s green"}
    ((_, prompt),) = TextDataset(written(tmp_path / "d.jsonl", row), codec).rows
    assert codec.decode(prompt.ids.numpy()) == "the sea i"
    assert prompt.context_ids is not None and prompt.answer_ids is not None
    assert codec.decode(prompt.context_ids.numpy()) == "the sea"
    assert codec.decode(torch.cat([prompt.context_ids, prompt.answer_ids]).numpy()) == "the sea is green"
    assert codec.exact_match(prompt.ids.numpy(), codec.encode("s green", with_eos=True), "s green") == 1.0


def test_prompts_keep_their_ends_and_texts_get_only_one_end(codec: Tokenizer) -> None:
    end = codec.eos_ids[0]
    turn = codec.encode("<|im_start|>user\nhello<|im_end|>")
    assert turn[-1] == end
    assert codec.encode("good day<|im_end|>", with_eos=True).tolist() == [
        *codec.encode("good day"),
        end,
    ]
    assert codec.decode(turn, keep_after_eos=True) == "user\nhello"
    assert codec.exact_match((), codec.encode("blue", with_eos=True), "blue<|im_end|>") == 1.0


def test_equal_questions_are_all_held_out_or_all_learned(codec: Tokenizer, tmp_path: Path) -> None:
    rows = [
        {"messages": [{"role": "user", "content": f"hello {i % 30}"}, *(BLUE if i % 2 else GREEN)]}
        for i in range(120)
    ]
    made = DatasetPrompts(TextDataset(written(tmp_path / "d.jsonl", *rows), codec), None, 0, codec)
    sides = [
        {p.columns["messages"][0]["content"] for p in side if p.columns is not None}
        for side in (made.training_prompts(0, 400), made.held_out(0, 0, 120))
    ]
    assert sides[0].isdisjoint(sides[1])
    assert len(sides[0] | sides[1]) == 30


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"prompt": "a", "texts": 1}, "a column texts, an argument of reward functions: rename"),
        ({"prompt": SKY, "chat_template_kwargs": 3}, "tools or chat_template_kwargs: expected a"),
        ({"prompt": SKY, "tools": {"a": 1}}, "tools or chat_template_kwargs: expected a list"),
        ({"prompt": "a\udc80"}, "line 1: "),
    ],
)
def test_a_row_that_cannot_be_tokenised_is_refused(
    row: dict[str, Any], told: str, codec: Tokenizer, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=told):
        TextDataset(written(tmp_path / "d.jsonl", row), codec)
