"""Codecs between text and tokens: characters, bytes, or a tokenizer that transformers loads."""

from __future__ import annotations

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import takewhile, zip_longest
from operator import index
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from rlox.configs.run import search_note
from rlox.errors import ConfigError, ShapeError
from rlox.llm.llama_files import read_eos_ids
from rlox.llm.transformers_files import LOCAL_ONLY, import_transformers, is_tokenizer

__all__ = ["ByteCodec", "CharacterCodec", "Codec", "Messages", "TokenizeRequest", "Tokenizer", "tokenize"]

Ids = Sequence[int] | NDArray[np.int64]
UNKNOWN_CHARACTER = "\ufffd"  # stands for a token without text
NONDETERMINISTIC_TEMPLATE = re.compile(r"strftime_now|\brandom\b|\blipsum\b")  # output differs per call
PATH_KEYS = ("name_or_path", "tokenizer_file", "vocab_file", "merges_file")  # paths of a tokenizer's files
Messages = list[dict[str, Any]]  # {"role": ..., "content": ...} each
Continuation = Literal["answer", "more", ""]  # what follows a conversation: see `Codec.encode_chat`


class Codec(Protocol):
    """Converts between texts and token ids."""

    eos_ids: tuple[int, ...]  # tokens that end a text
    pad: int

    @property
    def digest(self) -> str:
        """Identifier of everything that determines the tokens of a text."""

    def __len__(self) -> int:
        """Return the size of the vocabulary."""

    def encode(self, text: str, with_eos: bool = False) -> NDArray[np.int64]:
        """Return the token ids of a text, with prefix tokens such as BOS; `with_eos` appends EOS."""

    def decode(self, ids: Ids, keep_after_eos: bool = False) -> str:
        """Return the text up to EOS, or with `keep_after_eos` the whole text, for display."""

    def exact_match(self, prompt: Ids, tokens: Ids, answer: str) -> float:
        """Return 1 if a completion is the answer followed by EOS, whatever comes after; else 0."""

    def partial_match(self, prompt: Ids, tokens: Ids, answer: str) -> float:
        """Return the fraction of the answer, with its EOS, that the completion has at the same position."""

    def encode_chat(
        self, messages: Messages, continuation: Continuation, template_kwargs: Mapping[str, Any]
    ) -> NDArray[np.int64]:
        """Return the token ids of a conversation.

        `answer` adds the header of the next assistant turn; `more` leaves the last message open.
        `template_kwargs` has further arguments of the chat template, such as `tools`.
        """


class _BuiltinCodec(ABC):
    """Base of the built-in codecs: 0 is padding, 1 is EOS, and answers are compared by token."""

    PAD, END = 0, 1
    pad: int = PAD
    eos_ids: tuple[int, ...] = (END,)

    @abstractmethod
    def encode(self, text: str, with_eos: bool = False) -> NDArray[np.int64]:
        """As `Codec.encode`."""

    def exact_match(self, prompt: Ids, tokens: Ids, answer: str) -> float:
        """As `Codec.exact_match`; the prompt has no effect."""
        expected = self.encode(answer, with_eos=True)
        start_ids = np.array(_as_token_ids(tokens)[: len(expected)], np.int64)
        return float(np.array_equal(start_ids, expected))

    def partial_match(self, prompt: Ids, tokens: Ids, answer: str) -> float:
        """As `Codec.partial_match`, compared by token."""
        expected = self.encode(answer, with_eos=True)
        start_ids = np.array(_as_token_ids(tokens)[: len(expected)], np.int64)
        return float(np.equal(start_ids, expected[: len(start_ids)]).sum() / len(expected))

    def encode_chat(
        self, messages: Messages, continuation: Continuation, template_kwargs: Mapping[str, Any]
    ) -> NDArray[np.int64]:
        """Raise `ConfigError`: there is no chat template."""
        raise ConfigError(
            "a conversation needs a tokenizer with a chat template: model=FOLDER with one, or "
            "tokenizer=FOLDER"
        )


class CharacterCodec(_BuiltinCodec):
    """One token per character: 0 is padding, 1 is EOS, the others are `alphabet` in order."""

    def __init__(self, alphabet: str) -> None:
        if not isinstance(alphabet, str) or len(set(alphabet)) != len(alphabet) or not alphabet:
            raise ConfigError(f"alphabet {alphabet!r}: expected characters, each once, in one text")
        self.alphabet = alphabet
        self._id_of_character = {character: 2 + i for i, character in enumerate(alphabet)}

    def __len__(self) -> int:
        return 2 + len(self.alphabet)

    def encode(self, text: str, with_eos: bool = False) -> NDArray[np.int64]:
        """As `Codec.encode`; `ConfigError` for a character outside the alphabet."""
        if not isinstance(text, str):
            raise ConfigError(f"{text!r:.80} is a {type(text).__name__}, expected a text")
        missing = sorted(set(text) - set(self.alphabet))
        if missing:
            raise ConfigError(f"{missing[0]!r} in {text!r} is no character of {self.alphabet!r}")
        ids = [self._id_of_character[character] for character in text] + [self.END] * with_eos
        return np.array(ids, np.int64)

    def decode(self, ids: Ids, keep_after_eos: bool = False) -> str:
        """As `Codec.decode`; padding inside the text is dropped, so wrong tokens may give the right text."""
        ids_before_eos = _until_end(ids, () if keep_after_eos else self.eos_ids)
        alphabet = f"{self.alphabet}{UNKNOWN_CHARACTER}"
        return "".join(alphabet[min(t - 2, len(alphabet) - 1)] for t in ids_before_eos if t > self.END)

    @property
    def digest(self) -> str:
        """Identifier of the alphabet."""
        return f"characters {self.alphabet}"


class ByteCodec(_BuiltinCodec):
    """One token per UTF-8 byte: 0 is padding, 1 is EOS, the others are the byte + 2."""

    def __len__(self) -> int:
        return 2 + 256

    def encode(self, text: str, with_eos: bool = False) -> NDArray[np.int64]:
        """As `Codec.encode`."""
        ids = np.frombuffer(text.encode(), np.uint8).astype(np.int64) + 2
        return np.append(ids, self.END) if with_eos else ids

    def decode(self, ids: Ids, keep_after_eos: bool = False) -> str:
        """As `Codec.decode`; invalid UTF-8 becomes replacement characters."""
        ids_before_eos = _until_end(ids, () if keep_after_eos else self.eos_ids)
        return bytes(min(t - 2, 255) for t in ids_before_eos if t > self.END).decode(errors="replace")

    digest = "bytes"


class Tokenizer:
    """A tokenizer in a folder, loaded by transformers without running code from the folder.

    Answers are compared by text, not by token: `exact_match` and `partial_match` compare the characters, and
    whether the completion has ended.
    """

    def __init__(self, folder: Path) -> None:
        if not is_tokenizer(folder):
            raise ConfigError(
                f"tokenizer={folder}: expected a folder with tokenizer.json, as save_pretrained writes one"
                f"{search_note(folder)}"
            )
        transformers = import_transformers(f"the tokenizer in {folder}")
        self.folder = Path(folder)
        try:
            self._tokenizer: Any = transformers.AutoTokenizer.from_pretrained(self.folder, **LOCAL_ONLY)
            file_eos_ids = read_eos_ids(self.folder)
        except Exception as error:
            raise ConfigError(f"tokenizer={folder}: {error}") from error
        eos_id = self._tokenizer.eos_token_id
        self.eos_ids: tuple[int, ...] = () if eos_id is None else (int(eos_id),)
        self.add_eos_ids(file_eos_ids)
        pad = self._tokenizer.pad_token_id
        self.pad = int(pad if pad is not None else next(iter(self.eos_ids), 0))

    def __len__(self) -> int:
        return len(self._tokenizer)

    def add_eos_ids(self, tokens: Iterable[int]) -> None:
        """Add EOS tokens; `encode` still appends the first one."""
        self.eos_ids = tuple(dict.fromkeys([*self.eos_ids, *tokens]))

    def save(self, folder: Path) -> None:
        """Save the tokenizer in a model's folder."""
        self._tokenizer.save_pretrained(folder)

    @property
    def digest(self) -> str:
        """SHA-256 of the vocabulary and the chat template."""
        vocabulary = (
            self._tokenizer.backend_tokenizer.to_str()
            if self._tokenizer.is_fast
            else str(self._tokenizer.get_vocab())
        )
        return hashlib.sha256(f"{vocabulary}{self._tokenizer.chat_template}".encode()).hexdigest()

    @property
    def fingerprint(self) -> str | None:
        """Everything that determines the tokens, as text.

        It is None if that is unknown: for a slow tokenizer, or a chat template with the date or random text.
        """
        templates = repr(self._tokenizer.chat_template)
        if not self._tokenizer.is_fast or NONDETERMINISTIC_TEMPLATE.search(templates):
            return None
        init_args = {k: repr(v) for k, v in self._tokenizer.init_kwargs.items() if k not in PATH_KEYS}
        class_name, special = type(self._tokenizer).__name__, repr(self._tokenizer.special_tokens_map)
        contents = [
            class_name,
            special,
            templates,
            self.eos_ids,
            init_args,
            self._tokenizer.backend_tokenizer.to_str(),
        ]
        return json.dumps(contents, sort_keys=True)

    @property
    def bos_id(self) -> int | None:
        """The BOS token; None without one."""
        return None if self._tokenizer.bos_token_id is None else int(self._tokenizer.bos_token_id)

    def encode(self, text: str, with_eos: bool = False) -> NDArray[np.int64]:
        """As `Codec.encode`; the tokenizer's own suffix tokens are left out."""
        (ids,) = self.encode_all([text], with_eos)
        return ids

    def encode_all(self, texts: Sequence[str], with_eos: bool = False) -> list[NDArray[np.int64]]:
        """Encode several texts in one call, which is many times faster than one by one."""
        if with_eos and not self.eos_ids:
            raise ConfigError(f"tokenizer={self.folder} has no eos_token, with which a text has to end")
        ids_by_text = self._tokenizer(list(texts), add_special_tokens=False)["input_ids"]
        return [self._finish([*self._prefix_ids, *ids], with_eos) for ids in ids_by_text]

    def _finish(self, ids: list[int], with_eos: bool) -> NDArray[np.int64]:
        if with_eos and ids[-1:] != list(self.eos_ids[:1]):
            ids.append(self.eos_ids[0])
        return np.array(ids, np.int64)

    @cached_property
    def _prefix_ids(self) -> list[int]:
        """Tokens that the tokenizer puts before a text."""
        plain_ids, ids = (
            self._tokenizer("a", add_special_tokens=with_special)["input_ids"]
            for with_special in (False, True)
        )
        n_prefix = next((i for i in range(len(ids)) if ids[i : i + len(plain_ids)] == plain_ids), 0)
        return list(ids[:n_prefix])

    def decode(self, ids: Ids, keep_after_eos: bool = False) -> str:
        """As `Codec.decode`, without special tokens."""
        return self._decode(_until_end(ids, () if keep_after_eos else self.eos_ids), skip=True)

    def exact_match(self, prompt: Ids, tokens: Ids, answer: str) -> float:
        """As `Codec.exact_match`."""
        return float(
            self._has_ended(tokens) and self._completion_text(prompt, tokens) == self._answer_text(answer)
        )

    def partial_match(self, prompt: Ids, tokens: Ids, answer: str) -> float:
        """As `Codec.partial_match`, compared by character."""
        characters = [*self._completion_text(prompt, tokens), *[None] * self._has_ended(tokens)]
        expected = [*self._answer_text(answer), None]
        pairs = zip_longest(characters[: len(expected)], expected, fillvalue="")
        return float(np.mean([a == b for a, b in pairs]))

    def _completion_text(self, prompt: Ids, tokens: Ids) -> str:
        """Return the text that tokens add to the prompt's, with special tokens, which no answer contains."""
        prompt_text, full_text = (
            self._decode([*map(int, prompt), *extra_ids], skip=False)
            for extra_ids in ([], _until_end(tokens, self.eos_ids))
        )
        return full_text.removeprefix(prompt_text)

    def _answer_text(self, answer: str) -> str:
        """Remove EOS texts at the end of an answer, and the whitespace between and after them."""
        patterns = [
            re.escape(text) for eos_id in self.eos_ids if (text := self._decode([eos_id], skip=False))
        ]
        if not patterns:
            return answer
        ends_pattern = "|".join(patterns)
        return re.sub(rf"(?:{ends_pattern})(?:{ends_pattern}|\s)*\Z", "", answer)

    def _decode(self, ids: list[int], skip: bool) -> str:
        return str(self._tokenizer.decode(ids, skip_special_tokens=skip, clean_up_tokenization_spaces=False))

    def _has_ended(self, tokens: Ids) -> bool:
        return any(int(token) in self.eos_ids for token in tokens)

    def encode_chat(
        self, messages: Messages, continuation: Continuation, template_kwargs: Mapping[str, Any]
    ) -> NDArray[np.int64]:
        """As `Codec.encode_chat`, with the tokenizer's chat template."""
        (ids,) = self.encode_chats([messages], continuation, template_kwargs)
        return ids

    def encode_chats(
        self, conversations: Sequence[Messages], continuation: str, template_kwargs: Mapping[str, Any]
    ) -> list[NDArray[np.int64]]:
        """Encode several conversations in one call."""
        encoding = self._apply_chat_template(
            conversations,
            template_kwargs,
            add_generation_prompt=continuation == "answer",
            continue_final_message=continuation == "more",
        )
        return [np.array(ids, np.int64) for ids in encoding["input_ids"]]

    def assistant_masks(
        self, conversations: Sequence[Messages], template_kwargs: Mapping[str, Any]
    ) -> list[NDArray[np.int64]]:
        """Return 1 for each token that the chat template marks by `{% generation %}`, else 0."""
        encoding = self._apply_chat_template(
            conversations, template_kwargs, return_assistant_tokens_mask=True
        )
        return [np.array(mask, np.int64) for mask in encoding["assistant_masks"]]

    def _apply_chat_template(
        self, conversations: Sequence[Messages], template_kwargs: Mapping[str, Any], **options: bool
    ) -> Any:
        """Tokenize conversations by the chat template with these arguments."""
        try:
            return self._tokenizer.apply_chat_template(
                list(conversations), tokenize=True, return_dict=True, **options, **template_kwargs
            )
        # jinja, transformers and templates that reject a conversation raise different classes
        except Exception as error:
            raise ConfigError(f"the chat template of tokenizer={self.folder}: {error}") from error

    def template_of(self, template_kwargs: Mapping[str, Any]) -> str:
        """Return the chat template that applies with these arguments."""
        try:
            return str(self._tokenizer.get_chat_template(tools=template_kwargs.get("tools")))
        except ValueError as error:
            raise ConfigError(f"tokenizer={self.folder}: {error}") from error

    def is_special(self, token: int) -> bool:
        """Return whether a token is an added token, not part of ordinary text."""
        return token in self._tokenizer.added_tokens_decoder

    def name_of(self, token: int) -> str:
        """Return a token's name in messages: its text and its id."""
        return f"{self._decode([token], skip=False)!r} (token {token})"


class TokenizeRequest(NamedTuple):
    """A text, with or without EOS, or a conversation to tokenize."""

    content: Any
    mode: Literal["text", "ended", "answer", "more", "", "generated"]
    template_kwargs: Mapping[str, Any]  # further arguments of the chat template


def tokenize(codec: Codec, requests: Sequence[TokenizeRequest]) -> list[NDArray[np.int64]]:
    """Return the tokens of each request; those of mode `generated` are `Tokenizer.assistant_masks`.

    A tokenizer gets all requests of one mode in one call.
    """
    if not isinstance(codec, Tokenizer):
        return [
            codec.encode(request.content, with_eos=request.mode == "ended")
            if isinstance(request.content, str)
            else codec.encode_chat(request.content, "", request.template_kwargs)
            for request in requests
        ]
    groups: dict[tuple[str, str], list[int]] = {}
    for i, request in enumerate(requests):
        groups.setdefault((request.mode, json.dumps(request.template_kwargs, sort_keys=True)), []).append(i)
    ids_by_request: dict[int, NDArray[np.int64]] = {}
    for (mode, _), indices in groups.items():
        contents = [requests[i].content for i in indices]
        template_kwargs = requests[indices[0]].template_kwargs
        if mode in ("text", "ended"):
            encoding = codec.encode_all(contents, mode == "ended")
        elif mode == "generated":
            encoding = codec.assistant_masks(contents, template_kwargs)
        else:
            encoding = codec.encode_chats(contents, mode, template_kwargs)
        ids_by_request |= dict(zip(indices, encoding, strict=True))
    return [ids_by_request[i] for i in range(len(requests))]


def _until_end(ids: Ids, eos_ids: tuple[int, ...]) -> list[int]:
    """Return the tokens before the first EOS."""
    return list(takewhile(lambda token: token not in eos_ids, _as_token_ids(ids)))


def _as_token_ids(ids: Ids) -> list[int]:
    """Convert to a list of ids; `ShapeError` unless it is a sequence of integers, not a batch."""
    try:
        return [index(token) for token in ids]
    except TypeError as error:
        raise ShapeError(f"tokens {ids!r:.80}: expected token ids [T], whole numbers") from error
