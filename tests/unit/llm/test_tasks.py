"""Tests text tasks: rules give the answers; a prompt is either held out or learned from, never both."""

from __future__ import annotations

import re

import numpy as np
import pytest

from rlox import Stream
from rlox.configs.text import TASKS as NAMED
from rlox.errors import ConfigError, UnknownNameError
from rlox.llm.codecs import CharacterCodec
from rlox.llm.tasks import TASKS, Example, is_held_out, task_of


def right(name: str, prompt: str) -> str:
    """Computes the answer from the prompt."""
    if name == "arithmetic":
        return str(sum(map(int, prompt[:-1].split("+"))))
    if name == "copy":
        return prompt[:-1]
    return f"[{prompt[1] * int(prompt[0])}]"


def test_the_configuration_names_every_task() -> None:
    assert tuple(TASKS) == NAMED


@pytest.mark.parametrize("name", TASKS)
def test_answers_are_right_and_rejected_answers_differ_by_one_character(name: str) -> None:
    task = task_of(name)
    characters = task.codec
    numbers = np.random.default_rng(0)
    for example in task.examples(300, Stream(0, "text")):
        assert example.answer == right(name, example.prompt)
        assert len(example.answer) <= task.max_answer_length
        text = example.prompt + example.answer
        assert characters.decode(characters.encode(text, with_eos=True)) == text
        wrong = task.wrong_answer(example, numbers.random(2))
        assert sum(a != b for a, b in zip(wrong, example.answer, strict=True)) == 1
        tokens = characters.encode(example.answer, with_eos=True)
        assert task.exact_match(tokens, example) == task.exact_match([*tokens, 3, 0, 0], example) == 1.0
        assert task.exact_match(tokens[:-1], example) == 0.0  # cut before its end token
        padded = np.insert(tokens, 1, CharacterCodec.PAD)
        assert characters.decode(padded) == example.answer
        assert task.exact_match(padded, example) == 0.0
        assert task.exact_match(characters.encode(wrong, with_eos=True), example) == 0.0


@pytest.mark.parametrize("name", TASKS)
def test_a_prompt_is_held_out_or_learned_from_whatever_the_seed(name: str) -> None:
    task = task_of(name)
    learned, held = (
        {e.prompt for seed in range(3) for e in task.examples(400, Stream(seed, "text"), held_out)}
        for held_out in (False, True)
    )
    assert learned.isdisjoint(held)
    drawn = [task.example(Stream(9, "text", i).uniform(8)).prompt for i in range(2000)]
    assert 0.12 < np.mean([is_held_out(prompt) for prompt in drawn]) < 0.28


def test_examples_are_a_function_of_the_stream() -> None:
    task = task_of("arithmetic")
    first, again, other = (task.examples(20, Stream(seed, "text")) for seed in (1, 1, 2))
    assert first == again != other
    assert re.fullmatch(r"\d{1,2}\+\d{1,2}=", first[0].prompt)


def test_decoding_stops_at_the_end_token_and_skips_padding() -> None:
    characters = CharacterCodec("ab")
    assert characters.encode("ba", with_eos=True).tolist() == [3, 2, 1]
    assert characters.decode([0, 0, 3, 2, 1, 2, 0]) == "ba"
    assert len(characters) == 4
    with pytest.raises(ConfigError, match="'c' in 'abc' is no character of 'ab'"):
        characters.encode("abc")
    with pytest.raises(ConfigError, match="alphabet 'aa': expected characters, each once"):
        CharacterCodec("aa")


def test_an_unknown_text_task_is_refused_with_the_known_names() -> None:
    with pytest.raises(UnknownNameError, match="unknown task 'sums', expected one of arithmetic, copy"):
        task_of("sums")
    assert task_of("format").example(np.zeros(8)) == Example("1a:", "[a]")
