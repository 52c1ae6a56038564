"""Disk cache of the tokens of whole files, so that later runs start faster.

The name of an entry is the SHA-256 of everything its tokens depend on: the file, the tokenizer, the options,
the package versions and rlox's tokenizing code. If an entry cannot be read or written, or is damaged, its
tokens are computed again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import metadata
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load, save

from rlox.disk import replace_file
from rlox.errors import StorageError
from rlox.llm.codecs import Codec, Tokenizer

__all__ = ["MIN_ROWS", "TokenCache", "cache_folder"]

MIN_ROWS = 1024  # smaller files are tokenized in less than a second
MAX_CACHE_BYTES = 2**31  # maximum bytes of all entries together
DIGEST_SIZE = hashlib.sha256().digest_size
# rlox modules that determine the tokens of a file
TOKENIZING_MODULES = ("codecs.py", "datasets.py", "jsonl_rows.py", "chat_turns.py")
PACKAGES = ("jinja2", "tokenizers", "transformers")


def cache_folder() -> Path | None:
    """Return `RLOX_CACHE`, else `rlox` in the user's cache folder; None if `RLOX_CACHE` is empty."""
    configured = os.environ.get("RLOX_CACHE")
    if configured is not None:
        return Path(configured).absolute() if configured else None
    try:
        home = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    except RuntimeError:  # a user without a home
        return None
    return home / "rlox" if home.is_absolute() else None


class TokenCache:
    """The tokens of one file, in order.

    Parameters
    ----------
    digest : SHA-256 of the file
    rows : number of rows in the file
    codec : codec that tokenizes it
    options : further options that determine the tokens
    """

    def __init__(self, digest: str, rows: int, codec: Codec, options: Mapping[str, Any]) -> None:
        self._path = _cache_path(digest, rows, codec, options)
        self._new_tokens: list[NDArray[np.int32]] = []
        self._lengths: list[int] = []
        self._cached = None if self._path is None else _read(self._path)

    def get(self, count: int) -> list[NDArray[np.int64]] | None:
        """Return the next `count` token arrays, int64 `[L]` each; None if they have to be computed."""
        return None if self._cached is None else list(islice(self._cached, count))

    def add(self, tokens: Sequence[NDArray[np.int64]]) -> None:
        """Add newly computed tokens."""
        if self._path is not None:
            self._lengths += map(len, tokens)
            self._new_tokens.append(np.concatenate(tokens).astype(np.int32))

    def save(self) -> None:
        """Write the added tokens, unless the entry is too large; disk errors are ignored."""
        if self._path is None or not self._new_tokens:
            return
        lengths, tokens = np.array(self._lengths, np.int64), np.concatenate(self._new_tokens)
        data = save({"lengths": lengths, "tokens": tokens})
        if len(data) > MAX_CACHE_BYTES // 4:
            return
        with suppress(OSError, StorageError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(self._path, hashlib.sha256(data).digest() + data)
            _prune(self._path.parent)


def _cache_path(digest: str, rows: int, codec: Codec, options: Mapping[str, Any]) -> Path | None:
    """Return the file of an entry; None if nothing is cached."""
    folder = cache_folder()
    if folder is None or rows < MIN_ROWS or not isinstance(codec, Tokenizer):
        return None
    fingerprint, version = codec.fingerprint, _version()
    if fingerprint is None or version is None:
        return None
    key_text = json.dumps([digest, fingerprint, dict(options), version], sort_keys=True)
    return folder / "tokens" / f"{hashlib.sha256(key_text.encode()).hexdigest()}.safetensors"


def _read(path: Path) -> Iterator[NDArray[np.int64]] | None:
    """Read the tokens of an entry; None if it is missing or damaged."""
    try:
        data = path.read_bytes()
        if hashlib.sha256(data[DIGEST_SIZE:]).digest() != data[:DIGEST_SIZE]:
            return None
        with suppress(OSError):
            os.utime(path)  # for pruning by last use
    except OSError:
        return None
    arrays = load(data[DIGEST_SIZE:])
    lengths, tokens = arrays["lengths"], arrays["tokens"]
    ends = np.cumsum(lengths)
    return (tokens[a:b].astype(np.int64) for a, b in zip(ends - lengths, ends, strict=True))


def _prune(folder: Path) -> None:
    """Delete the least recently used entries until the total size is within the limit."""
    entries = [(path, path.stat()) for path in folder.iterdir()]
    total = sum(status.st_size for _, status in entries)
    for path, status in sorted(entries, key=lambda entry: entry[1].st_mtime):
        if total <= MAX_CACHE_BYTES:
            return
        path.unlink(missing_ok=True)
        total -= status.st_size


@cache
def _version() -> str | None:
    """Return the versions of the packages and of rlox's tokenizing code; None if they are unknown."""
    try:
        packages = [f"{name} {metadata.version(name)}" for name in PACKAGES]
        code = [Path(__file__).with_name(name).read_bytes() for name in TOKENIZING_MODULES]
    except (OSError, metadata.PackageNotFoundError):
        return None
    return "; ".join([*packages, hashlib.sha256(b"\0".join(code)).hexdigest()])
