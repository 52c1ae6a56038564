"""Tests the token cache between runs: the same tokens, only for the same file, only if the disk allows it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.pretrained import CHAT, tokenizer, with_begin

from rlox.errors import StorageError
from rlox.llm import codecs, datasets, token_cache
from rlox.llm.codecs import ByteCodec, Codec, Tokenizer
from rlox.llm.datasets import Row, TextDataset

USER = {"role": "user", "content": "what colour is the sky?"}
SAYS = {"role": "assistant", "content": "it is blue"}
BEGUN = {"role": "assistant", "content": "it is"}
KINDS: dict[str, dict[str, Any]] = {
    "text": {"text": "the sky is blue today"},
    "completion": {"prompt": "the sea is", "completion": " green"},
    "merging": {"prompt": "the sea i", "completion": "s green"},
    "pair": {"prompt": "the sky is", "chosen": " blue", "rejected": " green"},
    "messages": {"messages": [USER, SAYS]},
    "prompt": {"prompt": [USER]},
    "open": {"prompt": [USER, BEGUN], "completion": [{**SAYS, "content": " blue"}]},
}


def made(folder: Path, kind: Any = None) -> Tokenizer:
    (kind or tokenizer()).save_pretrained(folder)
    return Tokenizer(folder)


def written(path: Path, row: dict[str, Any], count: int = 5) -> Path:
    path.write_text("".join(json.dumps({**row, "n": n}) + "\n" for n in range(count)), "utf-8")
    return path


def same(one: list[Row], other: list[Row]) -> bool:
    def plain(rows: list[Row]) -> list[Any]:
        return [
            [row.line, *(p.tolist() if isinstance(p, torch.Tensor) else p for p in row.prompt)]
            for row in rows
        ]

    return plain(one) == plain(other)


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns the folder of the cache, which keeps files of any size."""
    monkeypatch.setenv("RLOX_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(token_cache, "MIN_ROWS", 1)
    return tmp_path / "cache" / "tokens"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts the calls of `tokenize`."""
    counted: list[int] = []

    def counting(codec: Codec, asks: Any) -> Any:
        counted.append(len(asks))
        return codecs.tokenize(codec, asks)

    monkeypatch.setattr(datasets, "tokenize", counting)
    return counted


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_becomes_tokens_once_and_its_rows_are_the_same_each_time(
    kind: str, kept: Path, asked: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "d.jsonl", KINDS[kind])
    codec = made(tmp_path / "tokenizer")
    first, makings = TextDataset(path, codec).rows, len(asked)
    again = TextDataset(path, made(tmp_path / "elsewhere")).rows
    assert len(asked) == makings
    monkeypatch.setenv("RLOX_CACHE", "")
    assert same(TextDataset(path, codec).rows, first)
    assert len(asked) > makings
    assert same(again, first)
    assert again[0].prompt.ids.is_contiguous() and again[0].prompt.ids.dtype == torch.int64


def test_a_part_of_the_rows_takes_its_own_tokens(
    kept: Path, asked: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets, "ROWS_AT_ONCE", 4)
    rows = [{"prompt": "the sky is", "completion": f" {n}"} for n in range(11)]
    path = tmp_path / "d.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    codec = made(tmp_path / "tokenizer")
    first = TextDataset(path, codec).rows
    assert len(asked) == 3
    assert same(TextDataset(path, codec).rows, first)
    assert len(asked) == 3


CHANGES: dict[str, Callable[[Path], tuple[Path, Tokenizer, bool]]] = {
    "file": lambda at: (written(at / "o.jsonl", KINDS["messages"], 6), made(at / "t"), False),
    "tokenizer": lambda at: (at / "d.jsonl", made(at / "o", _without_merges()), False),
    "template": lambda at: (at / "d.jsonl", made(at / "o", tokenizer(f" {CHAT}")), False),
    "begin": lambda at: (at / "d.jsonl", made(at / "o", _with_another_begin()), False),
    "option": lambda at: (at / "d.jsonl", made(at / "t"), True),
}


def _without_merges() -> Any:
    found = with_begin()
    found.chat_template = CHAT
    return found


def _with_another_begin() -> Any:
    found = tokenizer()
    found.bos_token = "<|im_start|>"
    return found


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_file_tokenizer_or_settings_makes_new_tokens(
    change: str, kept: Path, asked: list[int], tmp_path: Path
) -> None:
    TextDataset(written(tmp_path / "d.jsonl", KINDS["messages"]), made(tmp_path / "t"))
    makings = len(asked)
    path, codec, only = CHANGES[change](tmp_path)
    TextDataset(path, codec, assistant_only=only)
    assert len(asked) == makings + 1
    assert len(list(kept.iterdir())) == 2


def test_another_version_of_transformers_makes_new_tokens(
    kept: Path, asked: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, codec = written(tmp_path / "d.jsonl", KINDS["text"]), made(tmp_path / "t")
    TextDataset(path, codec)
    monkeypatch.setattr(token_cache, "_version", lambda: "transformers 99.0")
    TextDataset(path, codec)
    assert len(asked) == 2


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "short": lambda data: data[:-3],
    "head": lambda data: bytes([data[0] ^ 1]) + data[1:],
    "token": lambda data: data[:-1] + bytes([data[-1] ^ 1]),
    "other": lambda data: b"not of rlox",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_entry_is_made_again(damage: str, kept: Path, asked: list[int], tmp_path: Path) -> None:
    path, codec = written(tmp_path / "d.jsonl", KINDS["pair"]), made(tmp_path / "t")
    first = TextDataset(path, codec).rows
    (entry,) = kept.iterdir()
    whole = entry.read_bytes()
    entry.write_bytes(DAMAGES[damage](whole))
    assert same(TextDataset(path, codec).rows, first)
    assert len(asked) == 2
    assert entry.read_bytes() == whole


def test_a_folder_that_takes_no_entry_changes_nothing(
    kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, codec = written(tmp_path / "d.jsonl", KINDS["pair"]), made(tmp_path / "t")

    def full(*_: Any) -> None:
        raise StorageError("cannot write: no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(token_cache, "replace_file", full)
        first = TextDataset(path, codec).rows
    assert list(kept.iterdir()) == []
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RLOX_CACHE", str(tmp_path / "file"))
    assert same(TextDataset(path, codec).rows, first)


def test_two_writers_of_the_same_tokens_leave_one_whole_entry(kept: Path, tmp_path: Path) -> None:
    codec, ids = made(tmp_path / "t"), [np.array([4, 5, 6]), np.array([7])]
    both = [token_cache.TokenCache("digest", 2, codec, {}) for _ in range(2)]
    for one in both:
        assert one.get(2) is None
        one.add(ids)
    for one in both:
        one.save()
    assert len(list(kept.iterdir())) == 1
    found = token_cache.TokenCache("digest", 2, codec, {}).get(2)
    assert found is not None and [of.tolist() for of in found] == [[4, 5, 6], [7]]


def test_the_token_cache_removes_the_least_recently_used_entries(
    kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_cache, "MAX_CACHE_BYTES", 10_000)
    kept.mkdir(parents=True)
    # a killed process left the middle one
    others = [kept / "a.safetensors", kept / ".b.safetensors.7.new", kept / "c.safetensors"]
    for age, other in zip((30, 20, 10), others, strict=True):
        other.write_bytes(bytes(4_000))
        os.utime(other, (10**9 - age, 10**9 - age))
    path, codec = written(tmp_path / "d.jsonl", KINDS["text"]), made(tmp_path / "t")
    TextDataset(path, codec)
    (new,) = set(kept.iterdir()) - set(others)
    assert set(kept.iterdir()) == {*others[1:], new}
    os.utime(new, (10**9 - 40, 10**9 - 40))
    TextDataset(path, codec)  # uses the entry
    assert new.stat().st_mtime > others[2].stat().st_mtime


def test_an_entry_that_would_take_the_place_of_most_others_is_not_kept(
    kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_cache, "MAX_CACHE_BYTES", 400)
    TextDataset(written(tmp_path / "d.jsonl", KINDS["text"]), made(tmp_path / "t"))
    assert not kept.exists()


@pytest.mark.parametrize("told", ["{{ strftime_now('%d %b %Y') }}", "{{ ['a', 'b'] | random }}"])
def test_tokens_of_a_template_with_dates_or_random_text_are_not_cached(
    told: str, kept: Path, asked: list[int], tmp_path: Path
) -> None:
    path = written(tmp_path / "d.jsonl", KINDS["messages"])
    codec = made(tmp_path / "t", tokenizer(told + CHAT))
    for times in (1, 2):
        TextDataset(path, codec)
        assert len(asked) == times
    assert not kept.exists()


def test_few_rows_and_bytes_are_not_kept(kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "d.jsonl", KINDS["text"])
    TextDataset(path, ByteCodec())
    monkeypatch.setattr(token_cache, "MIN_ROWS", 6)
    TextDataset(path, made(tmp_path / "t"))
    assert not kept.exists()


def test_the_folder_is_the_users_own_unless_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RLOX_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/of/mine")
    assert token_cache.cache_folder() == Path("/of/mine/rlox")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/somebody")
    assert token_cache.cache_folder() == Path("/somebody/.cache/rlox")
    monkeypatch.setenv("RLOX_CACHE", "")
    assert token_cache.cache_folder() is None
