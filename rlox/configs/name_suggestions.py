"""Names near one that is unknown. A far-off one misleads more than none."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import SequenceMatcher

__all__ = ["near_names", "nearest"]

CUTOFF = 0.65  # of difflib's ratio, on the parts that differ
CONTAINED_SCORE = 0.7  # what a name counts for that is part of another
WORD_WEIGHT = 0.9  # what being near one word counts of being near
MIN_PART_LENGTH = 3  # characters of a name or word that is looked for in another
SCORE_MARGIN = 0.05  # how much worse than the best one another may be
VERSION_SUFFIX = re.compile(r"-v\d+$")


def nearest(name: str, options: Iterable[str], prefix: str = "") -> str:
    """`; did you mean 'x' or 'y'?` for the closest options, or an empty string.

    `prefix` is what stands before each of them where it is to be written.
    """
    matches = [f"{prefix}{option}" for option in near_names(name, options)]
    return f"; did you mean {' or '.join(map(repr, matches))}?" if matches else ""


def near_names(name: str, options: Iterable[str], count: int = 3) -> list[str]:
    """The options that are near, the nearest first: upper and lower case are one."""
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
    """Both without what says nothing of how near they are: a group that they share, versions, a namespace."""
    while "." in name and "." in option and name.split(".")[0] == option.split(".")[0]:
        name, option = name.partition(".")[2], option.partition(".")[2]
    name, option = VERSION_SUFFIX.sub("", name), VERSION_SUFFIX.sub("", option)
    if "/" not in name:
        option = option.rpartition("/")[2]
    return name, option


def _score(name: str, option: str) -> float:
    """How near they are: as a whole, or the name to one of the option's words."""
    words = [word for word in option.split("_") if len(word) >= MIN_PART_LENGTH]
    word_score = max((_ratio(name, word) for word in words), default=0.0)
    contained = CONTAINED_SCORE if len(name) >= MIN_PART_LENGTH and name in option else 0.0
    return max(_ratio(name, option), WORD_WEIGHT * word_score, contained)


def _ratio(name: str, option: str) -> float:
    matcher = SequenceMatcher(None, name, option)
    bound = matcher.quick_ratio()
    return bound if bound < CUTOFF else matcher.ratio()
