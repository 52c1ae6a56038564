"""Small tasks of text whose answers can be checked, with a token for each character."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlox._core import Stream
from rlox.configs.names import nearest
from rlox.errors import ConfigError, UnknownNameError

__all__ = ["TASKS", "Characters", "Example", "Task", "task_of"]

HELD_OUT = 0.2  # part of the prompts that nothing is learned from


class Characters:
    """A token for each character: 0 pads, 1 ends a text, the others are `alphabet` in its order."""

    PAD, END = 0, 1

    def __init__(self, alphabet: str) -> None:
        if len(set(alphabet)) != len(alphabet) or not alphabet:
            raise ConfigError(f"alphabet {alphabet!r}: expected characters, each once")
        self.alphabet = alphabet
        self._of = {character: 2 + i for i, character in enumerate(alphabet)}

    def __len__(self) -> int:
        return 2 + len(self.alphabet)

    def encode(self, text: str, end: bool = False) -> NDArray[np.int64]:
        """Token ids of a text; `end` puts the end behind it. `ConfigError` for a character that has none."""
        missing = sorted(set(text) - set(self.alphabet))
        if missing:
            raise ConfigError(f"{missing[0]!r} in {text!r} is no character of {self.alphabet!r}")
        ids = [self._of[character] for character in text] + [self.END] * end
        return np.array(ids, np.int64)

    def decode(self, ids: Sequence[int] | NDArray[np.int64]) -> str:
        """The text up to its end, to be read: padding is nothing, so that it may look better than it is."""
        found = []
        for token in ids:
            if token == self.END:
                break
            if token != self.PAD:
                found.append(self.alphabet[int(token) - 2])
        return "".join(found)


class Example(NamedTuple):
    """A prompt, and the one completion of it that is right."""

    prompt: str
    answer: str


class Task(ABC):
    """Prompts with an answer each. A prompt is either learned from or held out, by its text alone."""

    name: ClassVar[str]
    alphabet: ClassVar[str]
    longest: ClassVar[int]  # characters of an answer at most

    @abstractmethod
    def example(self, numbers: NDArray[np.float64]) -> Example:
        """The one that eight numbers in [0, 1) say."""

    def examples(self, count: int, stream: Stream, held_out: bool = False) -> list[Example]:
        """So many examples, all to learn from or all held out."""
        drawn = self._endless(stream)
        return [next(e for e in drawn if _is_held_out(e.prompt) == held_out) for _ in range(count)]

    def _endless(self, stream: Stream) -> Iterator[Example]:
        while True:
            yield self.example(stream.uniform(8))

    @property
    def characters(self) -> Characters:
        """Its tokens."""
        return Characters(self.alphabet)

    def reward(self, tokens: Sequence[int] | NDArray[np.int64], example: Example) -> float:
        """1 of a completion that is the right answer and its end, whatever is behind that; else 0."""
        right = self.characters.encode(example.answer, end=True)
        given = np.asarray(tokens, np.int64)[: len(right)]
        return float(np.array_equal(given, right))

    def closeness(self, tokens: Sequence[int] | NDArray[np.int64], example: Example) -> float:
        """The part of the tokens of the right answer, its end among them, that stand where they do there."""
        right = self.characters.encode(example.answer, end=True)
        given = np.asarray(tokens, np.int64)[: len(right)]
        return float(np.equal(given, right[: len(given)]).sum() / len(right))

    def rejected(self, example: Example, numbers: NDArray[np.float64]) -> str:
        """A wrong answer that is near the right one: one character is another one, by two numbers."""
        at = int(numbers[0] * len(example.answer))
        there = example.answer[at]
        others = [c for c in self.used(example) if c != there]
        return (
            example.answer[:at] + others[int(numbers[1] * len(others))] + example.answer[at + 1 :]
        )

    @abstractmethod
    def used(self, example: Example) -> str:
        """The characters that near answers are made of."""


class Arithmetic(Task):
    """Sums of two numbers below 100: `7+58=` is `65`."""

    name, alphabet, longest = "arithmetic", "0123456789+=", 3

    def example(self, numbers: NDArray[np.float64]) -> Example:
        """By the first two."""
        a, b = (int(100 * number) for number in numbers[:2])
        return Example(f"{a}+{b}=", f"{a + b}")

    def used(self, example: Example) -> str:
        """Digits."""
        return "0123456789"


class Copy(Task):
    """The text once more: `badc>` is `badc`."""

    name, alphabet, longest = "copy", "abcdefgh>", 7

    def example(self, numbers: NDArray[np.float64]) -> Example:
        """Three to seven letters."""
        length = 3 + int(5 * numbers[0])
        text = "".join("abcdefgh"[int(8 * number)] for number in numbers[1 : 1 + length])
        return Example(f"{text}>", text)

    def used(self, example: Example) -> str:
        """Letters."""
        return "abcdefgh"


class Format(Task):
    """A letter so many times, in brackets: `3c:` is `[ccc]`."""

    name, alphabet, longest = "format", "123456abcdefghijklmnopqrstuvwxyz:[]", 8

    def example(self, numbers: NDArray[np.float64]) -> Example:
        """By the first two."""
        count = 1 + int(6 * numbers[0])
        letter = "abcdefghijklmnopqrstuvwxyz"[int(26 * numbers[1])]
        return Example(f"{count}{letter}:", f"[{letter * count}]")

    def used(self, example: Example) -> str:
        """Of this answer, so that only the format is wrong."""
        return "[]" + example.answer[1]


TASKS: Mapping[str, type[Task]] = {kind.name: kind for kind in (Arithmetic, Copy, Format)}


def task_of(name: str) -> Task:
    """The task of that name; `UnknownNameError` names those that there are."""
    if name not in TASKS:
        raise UnknownNameError(
            f"unknown task {name!r}, expected one of {', '.join(TASKS)}{nearest(name, TASKS)}"
        )
    return TASKS[name]()


def _is_held_out(prompt: str) -> bool:
    """By the first four bytes of its hash."""
    digest = hashlib.sha256(prompt.encode()).digest()
    return int.from_bytes(digest[:4], "big") < HELD_OUT * 2**32
