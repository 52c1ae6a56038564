"""Suggestions for misspelt names, and the error for an unknown one. A wrong suggestion is worse than none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import SequenceMatcher
from typing import Any

from rlox.errors import UnknownNameError

__all__ = ["near_names", "nearest", "require_name"]

CUTOFF = 0.65  # minimum similarity (difflib's ratio), after `_strip_common` has removed what both names share
CONTAINED_SCORE = 0.7  # score of a name that is part of an option
WORD_WEIGHT = 0.9  # weight of similarity to a single word
MIN_PART_LENGTH = 3  # minimum length of a name or word to be compared
SCORE_MARGIN = 0.05  # maximum distance from the best score
VERSION_SUFFIX = re.compile(r"-v\d+$")


def nearest(name: str, options: Iterable[str], prefix: str = "") -> str:
    """Return `; did you mean 'x' or 'y'?` for the closest options, or an empty string.

    `prefix` is put in front of each suggested option.
    """
    matches = [f"{prefix}{option}" for option in near_names(name, options)]
    return f"; did you mean {' or '.join(map(repr, matches))}?" if matches else ""


def near_names(name: str, options: Iterable[str], count: int = 3) -> list[str]:
    """Return the options similar to `name`, the most similar first; case is ignored."""
    scored_options: list[tuple[float, float, str]] = []
    for option in map(str, options):
        score = _score(*_strip_common(str(name).casefold(), option.casefold()))
        if score >= CUTOFF:
            scored_options.append((score, SequenceMatcher(None, name, option).ratio(), option))
    scored_options.sort(reverse=True)
    return [option for score, _, option in scored_options if score >= scored_options[0][0] - SCORE_MARGIN][
        :count
    ]


def _strip_common(name: str, option: str) -> tuple[str, str]:
    """Remove what does not distinguish names: shared groups, versions, a namespace."""
    while "." in name and "." in option and name.split(".")[0] == option.split(".")[0]:
        name, option = name.partition(".")[2], option.partition(".")[2]
    name, option = VERSION_SUFFIX.sub("", name), VERSION_SUFFIX.sub("", option)
    if "/" not in name:
        option = option.rpartition("/")[2]
    return name, option


def _score(name: str, option: str) -> float:
    """Return the similarity of a name to an option, or to one of the option's words."""
    words = [word for word in option.split("_") if len(word) >= MIN_PART_LENGTH]
    word_score = max((_ratio(name, word) for word in words), default=0.0)
    contained = CONTAINED_SCORE if len(name) >= MIN_PART_LENGTH and name in option else 0.0
    return max(_ratio(name, option), WORD_WEIGHT * word_score, contained)


def _ratio(name: str, option: str) -> float:
    matcher = SequenceMatcher(None, name, option)
    bound = matcher.quick_ratio()
    return bound if bound < CUTOFF else matcher.ratio()


def require_name(name: str, options: Mapping[str, Any], path: str) -> None:
    """Raise `UnknownNameError` for the name of an option below the key `path` that is not in `options`."""
    if name not in options:
        plugin_hint = "; if a plugin provides it: rlox list plugins shows what is installed"
        hint = nearest(name, options) or plugin_hint
        raise UnknownNameError(
            f"{path}.name={name!r} is not known, expected one of {', '.join(options)}{hint}"
        )
