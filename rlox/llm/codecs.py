"""Texts as tokens: of characters, of bytes, or by a tokenizer that transformers loads."""

from __future__ import annotations

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import zip_longest
from operator import index
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from rlox.configs.tasks import looked_for_in
from rlox.errors import ConfigError, ShapeError
from rlox.llm.pretrained import HERE, is_tokenizer, transformers_of
from rlox.llm.saved import ends_in

__all__ = ["Ask", "Bytes", "Characters", "Codec", "Messages", "Tokenizer", "tokens_of"]

Ids = Sequence[int] | NDArray[np.int64]
STRANGE = "\ufffd"  # a token that has no text
CHANGING = re.compile(r"strftime_now|\brandom\b|\blipsum\b")  # another text each time
PLACES = ("name_or_path", "tokenizer_file", "vocab_file", "merges_file")  # where a tokenizer was
Messages = list[dict[str, Any]]  # {"role": ..., "content": ...} each


class Codec(Protocol):
    """Between texts and token ids."""

    ends: tuple[int, ...]  # tokens that end a text
    pad: int

    @property
    def digest(self) -> str:
        """Of what makes tokens of a text."""

    def __len__(self) -> int:
        """Tokens that there are."""

    def encode(self, text: str, end: bool = False) -> NDArray[np.int64]:
        """Token ids of a text, with those that a text begins with; `end` puts the end behind it."""

    def decode(self, ids: Ids, whole: bool = False) -> str:
        """The text up to its end, or the `whole` of it, to be read."""

    def right(self, prompt: Ids, tokens: Ids, answer: str) -> float:
        """1 of a completion that is the answer and its end, whatever is behind that; else 0."""

    def close(self, prompt: Ids, tokens: Ids, answer: str) -> float:
        """The part of the answer, its end among it, that stands where it does there."""

    def chat(
        self, messages: Messages, begins: Literal["answer", "more", ""], template: Mapping[str, Any]
    ) -> NDArray[np.int64]:
        """Token ids of a conversation: with what begins an `answer`, or its last message open for `more`.

        `template` has further arguments of the chat template, such as `tools`.
        """


class _OwnCodec(ABC):
    """0 pads, 1 ends a text: an answer is right token by token."""

    PAD, END = 0, 1
    pad: int = PAD
    ends: tuple[int, ...] = (END,)

    @abstractmethod
    def encode(self, text: str, end: bool = False) -> NDArray[np.int64]:
        """As `Codec.encode`."""

    def right(self, prompt: Ids, tokens: Ids, answer: str) -> float:
        """As `Codec.right`, whatever the prompt."""
        expected = self.encode(answer, end=True)
        given = np.array(_whole(tokens)[: len(expected)], np.int64)
        return float(np.array_equal(given, expected))

    def close(self, prompt: Ids, tokens: Ids, answer: str) -> float:
        """As `Codec.close`, of tokens."""
        expected = self.encode(answer, end=True)
        given = np.array(_whole(tokens)[: len(expected)], np.int64)
        return float(np.equal(given, expected[: len(given)]).sum() / len(expected))

    def chat(
        self, messages: Messages, begins: Literal["answer", "more", ""], template: Mapping[str, Any]
    ) -> NDArray[np.int64]:
        """None: `ConfigError`."""
        raise ConfigError(
            "a conversation needs a tokenizer with a chat template: model=FOLDER with one, or "
            "tokenizer=FOLDER"
        )


class Characters(_OwnCodec):
    """A token for each character: 0 pads, 1 ends a text, the others are `alphabet` in its order."""

    def __init__(self, alphabet: str) -> None:
        if not isinstance(alphabet, str) or len(set(alphabet)) != len(alphabet) or not alphabet:
            raise ConfigError(f"alphabet {alphabet!r}: expected characters, each once, in one text")
        self.alphabet = alphabet
        self._of = {character: 2 + i for i, character in enumerate(alphabet)}

    def __len__(self) -> int:
        return 2 + len(self.alphabet)

    def encode(self, text: str, end: bool = False) -> NDArray[np.int64]:
        """Token ids of a text; `end` puts the end behind it. `ConfigError` for a character that has none."""
        if not isinstance(text, str):
            raise ConfigError(f"{text!r:.80} is a {type(text).__name__}, expected a text")
        missing = sorted(set(text) - set(self.alphabet))
        if missing:
            raise ConfigError(f"{missing[0]!r} in {text!r} is no character of {self.alphabet!r}")
        ids = [self._of[character] for character in text] + [self.END] * end
        return np.array(ids, np.int64)

    def decode(self, ids: Ids, whole: bool = False) -> str:
        """As `Codec.decode`: padding is nothing, so that it may look better than it is."""
        found = _up_to(ids, () if whole else self.ends)
        known = f"{self.alphabet}{STRANGE}"
        return "".join(known[min(t - 2, len(known) - 1)] for t in found if t > self.END)

    @property
    def digest(self) -> str:
        """Its alphabet."""
        return f"characters {self.alphabet}"


class Bytes(_OwnCodec):
    """A token for each byte of UTF-8: 0 pads, 1 ends a text, the others are the bytes and 2."""

    def __len__(self) -> int:
        return 2 + 256

    def encode(self, text: str, end: bool = False) -> NDArray[np.int64]:
        """As `Codec.encode`."""
        ids = np.frombuffer(text.encode(), np.uint8).astype(np.int64) + 2
        return np.append(ids, self.END) if end else ids

    def decode(self, ids: Ids, whole: bool = False) -> str:
        """As `Codec.decode`; what is no UTF-8 is shown as such."""
        found = _up_to(ids, () if whole else self.ends)
        return bytes(min(t - 2, 255) for t in found if t > self.END).decode(errors="replace")

    digest = "bytes"


class Tokenizer:
    """A tokenizer in a folder, as transformers loads it: no code of the folder's runs.

    An answer is right by its text, in whatever tokens: `right` and `close` compare characters and the end.
    """

    def __init__(self, folder: Path) -> None:
        if not is_tokenizer(folder):
            raise ConfigError(
                f"tokenizer={folder}: expected a folder with tokenizer.json, as save_pretrained writes one"
                f"{looked_for_in(folder)}"
            )
        transformers = transformers_of(f"the tokenizer in {folder}")
        self.folder = Path(folder)
        try:
            self._of: Any = transformers.AutoTokenizer.from_pretrained(self.folder, **HERE)
            beside = ends_in(self.folder)
        except Exception as error:
            raise ConfigError(f"tokenizer={folder}: {error}") from error
        own = self._of.eos_token_id
        self.ends: tuple[int, ...] = () if own is None else (int(own),)
        self.add_ends(beside)
        pad = self._of.pad_token_id
        self.pad = int(pad if pad is not None else next(iter(self.ends), 0))

    def __len__(self) -> int:
        return len(self._of)

    def add_ends(self, tokens: Iterable[int]) -> None:
        """Further tokens end a text; what stands behind a text that is learned stays the first end."""
        self.ends = tuple(dict.fromkeys([*self.ends, *tokens]))

    def save(self, folder: Path) -> None:
        """Write it beside a model."""
        self._of.save_pretrained(folder)

    @property
    def digest(self) -> str:
        """The SHA-256 of what makes tokens, and of the chat template."""
        said = (
            self._of.backend_tokenizer.to_str() if self._of.is_fast else str(self._of.get_vocab())
        )
        return hashlib.sha256(f"{said}{self._of.chat_template}".encode()).hexdigest()

    @property
    def about(self) -> str | None:
        """All that its tokens depend on, as text.

        None where that is not known: of a slow tokenizer, and where a chat template tells the date or draws.
        """
        templates = repr(self._of.chat_template)
        if not self._of.is_fast or CHANGING.search(templates):
            return None
        given = {k: repr(v) for k, v in self._of.init_kwargs.items() if k not in PLACES}
        kind, special = type(self._of).__name__, repr(self._of.special_tokens_map)
        said = [kind, special, templates, self.ends, given, self._of.backend_tokenizer.to_str()]
        return json.dumps(said, sort_keys=True)

    @property
    def begin(self) -> int | None:
        """The token that a text begins with, where there is one."""
        return None if self._of.bos_token_id is None else int(self._of.bos_token_id)

    def encode(self, text: str, end: bool = False) -> NDArray[np.int64]:
        """As `Codec.encode`; what the tokenizer itself puts behind a text is not there."""
        (found,) = self.encode_all([text], end)
        return found

    def encode_all(self, texts: Sequence[str], end: bool = False) -> list[NDArray[np.int64]]:
        """`encode` of each of several texts, which takes a fraction of the time."""
        if end and not self.ends:
            raise ConfigError(
                f"tokenizer={self.folder} has no eos_token, by which a text would end"
            )
        bare = self._of(list(texts), add_special_tokens=False)["input_ids"]
        return [self._encoded([*self._before, *ids], end) for ids in bare]

    def _encoded(self, ids: list[int], end: bool) -> NDArray[np.int64]:
        if end and ids[-1:] != list(self.ends[:1]):
            ids.append(self.ends[0])
        return np.array(ids, np.int64)

    @cached_property
    def _before(self) -> list[int]:
        """What the tokenizer puts before a text."""
        bare, ids = (self._of("a", add_special_tokens=of)["input_ids"] for of in (False, True))
        at = next((i for i in range(len(ids)) if ids[i : i + len(bare)] == bare), 0)
        return list(ids[:at])

    def decode(self, ids: Ids, whole: bool = False) -> str:
        """As `Codec.decode`, without special tokens."""
        return self._text(_up_to(ids, () if whole else self.ends), skip=True)

    def right(self, prompt: Ids, tokens: Ids, answer: str) -> float:
        """As `Codec.right`."""
        return float(self._ended(tokens) and self._said(prompt, tokens) == self._expected(answer))

    def close(self, prompt: Ids, tokens: Ids, answer: str) -> float:
        """As `Codec.close`, of characters."""
        said = [*self._said(prompt, tokens), *[None] * self._ended(tokens)]
        expected = [*self._expected(answer), None]
        pairs = zip_longest(said[: len(expected)], expected, fillvalue="")
        return float(np.mean([a == b for a, b in pairs]))

    def _said(self, prompt: Ids, tokens: Ids) -> str:
        """What tokens add to the text of a prompt, special ones too, which are no part of an answer."""
        before, said = (
            self._text([*map(int, prompt), *more], skip=False)
            for more in ([], _up_to(tokens, self.ends))
        )
        return said.removeprefix(before)

    def _expected(self, answer: str) -> str:
        """Without the ends that a text may have, and the space between and behind them."""
        said = [re.escape(text) for end in self.ends if (text := self._text([end], skip=False))]
        if not said:
            return answer
        ends = "|".join(said)
        return re.sub(rf"(?:{ends})(?:{ends}|\s)*\Z", "", answer)

    def _text(self, ids: list[int], skip: bool) -> str:
        return str(
            self._of.decode(ids, skip_special_tokens=skip, clean_up_tokenization_spaces=False)
        )

    def _ended(self, tokens: Ids) -> bool:
        return any(int(token) in self.ends for token in tokens)

    def chat(
        self, messages: Messages, begins: Literal["answer", "more", ""], template: Mapping[str, Any]
    ) -> NDArray[np.int64]:
        """As `Codec.chat`, by the chat template."""
        (found,) = self.chat_all([messages], begins, template)
        return found

    def chat_all(
        self, several: Sequence[Messages], begins: str, template: Mapping[str, Any]
    ) -> list[NDArray[np.int64]]:
        """`chat` of each of several conversations."""
        made = self._chatted(
            several,
            template,
            add_generation_prompt=begins == "answer",
            continue_final_message=begins == "more",
        )
        return [np.array(ids, np.int64) for ids in made["input_ids"]]

    def generated_all(
        self, several: Sequence[Messages], template: Mapping[str, Any]
    ) -> list[NDArray[np.int64]]:
        """1 for each token of `chat` that the chat template marks by `{% generation %}`, else 0."""
        made = self._chatted(several, template, return_assistant_tokens_mask=True)
        return [np.array(mask, np.int64) for mask in made["assistant_masks"]]

    def _chatted(
        self, several: Sequence[Messages], template: Mapping[str, Any], **how: bool
    ) -> Any:
        """What the chat template makes of conversations, with these arguments."""
        try:
            return self._of.apply_chat_template(
                list(several), tokenize=True, return_dict=True, **how, **template
            )
        # of jinja, transformers and templates that refuse a conversation
        except Exception as error:
            raise ConfigError(f"the chat template of tokenizer={self.folder}: {error}") from error

    def template_of(self, template: Mapping[str, Any]) -> str:
        """The chat template of conversations with these arguments."""
        try:
            return str(self._of.get_chat_template(tools=template.get("tools")))
        except ValueError as error:
            raise ConfigError(f"tokenizer={self.folder}: {error}") from error

    def is_special(self, token: int) -> bool:
        """Whether a token is none of texts."""
        return token in self._of.added_tokens_decoder

    def name_of(self, token: int) -> str:
        """What messages call a token: its text and its number."""
        return f"{self._text([token], skip=False)!r} (token {token})"


class Ask(NamedTuple):
    """A text, with its end or without, or a conversation, of which there are to be tokens."""

    said: Any
    how: Literal["text", "ended", "answer", "more", "", "generated"]
    template: Mapping[str, Any]  # further arguments of the chat template


def tokens_of(codec: Codec, asks: Sequence[Ask]) -> list[NDArray[np.int64]]:
    """The tokens of each; `generated` are those of `Tokenizer.generated_all`.

    A tokenizer is asked for all of a kind at once.
    """
    if not isinstance(codec, Tokenizer):
        return [
            codec.encode(ask.said, end=ask.how == "ended")
            if isinstance(ask.said, str)
            else codec.chat(ask.said, "", ask.template)
            for ask in asks
        ]
    kinds: dict[tuple[str, str], list[int]] = {}
    for i, ask in enumerate(asks):
        kinds.setdefault((ask.how, json.dumps(ask.template, sort_keys=True)), []).append(i)
    found: dict[int, NDArray[np.int64]] = {}
    for (how, _), at in kinds.items():
        said, template = [asks[i].said for i in at], asks[at[0]].template
        if how in ("text", "ended"):
            made = codec.encode_all(said, how == "ended")
        elif how == "generated":
            made = codec.generated_all(said, template)
        else:
            made = codec.chat_all(said, how, template)
        found |= dict(zip(at, made, strict=True))
    return [found[i] for i in range(len(asks))]


def _up_to(ids: Ids, ends: tuple[int, ...]) -> list[int]:
    """Those before the first end."""
    found = []
    for token in _whole(ids):
        if token in ends:
            break
        found.append(token)
    return found


def _whole(ids: Ids) -> list[int]:
    """Token ids; `ShapeError` for what is no sequence of whole numbers, such as a batch."""
    try:
        return [index(token) for token in ids]
    except TypeError as error:
        raise ShapeError(f"tokens {ids!r:.80}: expected token ids [T], whole numbers") from error
