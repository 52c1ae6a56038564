"""Programs in strings, which tests run in other processes, as files of their own."""

from __future__ import annotations

import re
from collections.abc import Mapping

from renaming.sources import Source
from renaming.strings_of import string_places

IMPORT = re.compile(rb"\b(?:from ([\w.]+) import\b|import ([\w.]+))")
PLAIN = re.compile(rb"""(?P<prefix>[rR]?)(?P<quote>\"{3}|'{3}|"|')""")


def programs(sources: Mapping[str, Source]) -> dict[str, tuple[Source, str, list[int]]]:
    """Programs that import a module of the repository, by a path with `#`: host and offset of each byte."""
    modules = {source.module for source in sources.values()}
    found = {}
    for path, source in sources.items():
        for start, end in string_places(source):
            names = {(match[1] or match[2]).decode() for match in IMPORT.finditer(source.data[start:end])}
            read = _read(source.data, start, end) if names & modules else None
            if read is not None:
                text, places = read
                inner = f"{path}#{start}"
                try:
                    found[inner] = (Source.parse(inner, text), path, places)
                except SyntaxError:
                    continue
    return found


def _read(data: bytes, start: int, end: int) -> tuple[str, list[int]] | None:
    """The value of a string and the offset of each of its bytes; None where it has escapes but `\\n`."""
    matched = PLAIN.match(data, start, end)
    if matched is None:
        return None
    stop, at = end - len(matched["quote"]), matched.end()
    value, places = bytearray(), []
    while at < stop:
        places.append(at)
        if data[at : at + 2] == b"\\n" and not matched["prefix"]:
            value += b"\n"
            at += 2
            continue
        if data[at : at + 1] == b"\\" and not matched["prefix"]:
            return None
        value += data[at : at + 1]
        at += 1
    return value.decode(), [*places, stop]
