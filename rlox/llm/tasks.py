"""Small text tasks with verifiable answers and one token per character."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlox._core import Stream
from rlox.configs.name_suggestions import nearest
from rlox.errors import UnknownNameError
from rlox.llm.codecs import CharacterCodec

__all__ = ["TASKS", "Example", "Task", "is_held_out", "task_of"]

HELD_OUT_FRACTION = 0.2  # fraction of the prompts excluded from training


class Example(NamedTuple):
    """A prompt and its only correct completion."""

    prompt: str
    answer: str


class Task(ABC):
    """Prompts with one answer each; the text of a prompt decides whether it is held out."""

    name: ClassVar[str]
    alphabet: ClassVar[str]
    max_answer_length: ClassVar[int]  # maximum number of characters in an answer

    @abstractmethod
    def example(self, numbers: NDArray[np.float64]) -> Example:
        """Return the example for eight random numbers in [0, 1)."""

    def examples(self, count: int, stream: Stream, held_out: bool = False) -> list[Example]:
        """Draw `count` examples, either all for training or all held out."""
        candidates = self._generate_examples(stream)
        return [next(e for e in candidates if is_held_out(e.prompt) == held_out) for _ in range(count)]

    def _generate_examples(self, stream: Stream) -> Iterator[Example]:
        while True:
            yield self.example(stream.uniform(8))

    @property
    def codec(self) -> CharacterCodec:
        """Codec of the task's alphabet."""
        return CharacterCodec(self.alphabet)

    def exact_match(self, tokens: Sequence[int] | NDArray[np.int64], example: Example) -> float:
        """Return 1 if a completion is the correct answer followed by EOS, whatever comes after; else 0."""
        return self.codec.exact_match((), tokens, example.answer)

    def partial_match(self, tokens: Sequence[int] | NDArray[np.int64], example: Example) -> float:
        """Return the fraction of the answer's tokens, with EOS, that the completion has in the same place."""
        return self.codec.partial_match((), tokens, example.answer)

    def wrong_answer(self, example: Example, numbers: NDArray[np.float64]) -> str:
        """Return the answer with one character replaced; two random numbers choose place and character."""
        index = int(numbers[0] * len(example.answer))
        character = example.answer[index]
        other_characters = [c for c in self.answer_characters(example) if c != character]
        return (
            example.answer[:index]
            + other_characters[int(numbers[1] * len(other_characters))]
            + example.answer[index + 1 :]
        )

    @abstractmethod
    def answer_characters(self, example: Example) -> str:
        """Return the characters for wrong answers."""


class Arithmetic(Task):
    """Sums of two numbers below 100: `7+58=` is `65`."""

    name, alphabet, max_answer_length = "arithmetic", "0123456789+=", 3

    def example(self, numbers: NDArray[np.float64]) -> Example:
        """Return the example for the first two numbers."""
        a, b = (int(100 * number) for number in numbers[:2])
        return Example(f"{a}+{b}=", f"{a + b}")

    def answer_characters(self, example: Example) -> str:
        """Return the digits."""
        return "0123456789"


class Copy(Task):
    """Repeat the text: `badc>` is `badc`."""

    name, alphabet, max_answer_length = "copy", "abcdefgh>", 7

    def example(self, numbers: NDArray[np.float64]) -> Example:
        """Return an example of three to seven letters."""
        length = 3 + int(5 * numbers[0])
        text = "".join("abcdefgh"[int(8 * number)] for number in numbers[1 : 1 + length])
        return Example(f"{text}>", text)

    def answer_characters(self, example: Example) -> str:
        """Return the letters."""
        return "abcdefgh"


class Format(Task):
    """Repeat a letter a number of times, in brackets: `3c:` is `[ccc]`."""

    name, alphabet, max_answer_length = "format", "123456abcdefghijklmnopqrstuvwxyz:[]", 8

    def example(self, numbers: NDArray[np.float64]) -> Example:
        """Return the example for the first two numbers."""
        count = 1 + int(6 * numbers[0])
        letter = "abcdefghijklmnopqrstuvwxyz"[int(26 * numbers[1])]
        return Example(f"{count}{letter}:", f"[{letter * count}]")

    def answer_characters(self, example: Example) -> str:
        """Return the answer's own characters, so that only the format is wrong."""
        return "[]" + example.answer[1]


TASKS: Mapping[str, type[Task]] = {kind.name: kind for kind in (Arithmetic, Copy, Format)}


def task_of(name: str) -> Task:
    """Return the task with this name; `UnknownNameError` lists the known tasks."""
    if name not in TASKS:
        raise UnknownNameError(
            f"unknown task {name!r}, expected one of {', '.join(TASKS)}{nearest(name, TASKS)}"
        )
    return TASKS[name]()


def is_held_out(prompt: str) -> bool:
    """Return whether a prompt is held out; the first four bytes of its hash decide."""
    digest = hashlib.sha256(prompt.encode()).digest()
    return int.from_bytes(digest[:4], "big") < HELD_OUT_FRACTION * 2**32
