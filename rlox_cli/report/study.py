"""Runs in order: which belong together, what they are called, and what tells them apart.

A method is what is compared: runs that differ in nothing but environment and seed. A task is what it is
compared on: an environment. A cell is one method on one task, and its runs are its seeds.
"""

from __future__ import annotations

import json
import string
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rlox.configs.secrets import HIDDEN, is_secret
from rlox_cli.help import value_text
from rlox_cli.report.records import FINAL, Array, Run, text

LONGEST_NAME = 60
OWN_KEYS = ("env.action_mask_key",)  # named like a secret, and none
NOT_METHOD = ("env.id", "algo.name")  # said already by task and method


@dataclass(frozen=True)
class Cell:
    """The runs of one method on one task."""

    method: str
    task: str
    runs: tuple[Run, ...]

    @property
    def counted(self) -> tuple[Run, ...]:
        """Those whose scores are in the tables."""
        return tuple(run for run in self.runs if run.counted)

    @property
    def scores(self) -> Array:
        """A score for each counted run."""
        return np.array([run.score for run in self.counted], np.float64)


@dataclass(frozen=True)
class Study:
    """Everything that a report is about."""

    runs: tuple[Run, ...]
    methods: tuple[str, ...]
    cells: tuple[Cell, ...]
    letters: Mapping[str, str] = field(default_factory=dict)  # the settings of lettered methods

    @property
    def tasks(self) -> list[str]:
        """The tasks that some run of a method was on."""
        return sorted({cell.task for cell in self.cells})

    @property
    def left_out(self) -> list[Run]:
        """The runs whose scores are in no table."""
        return [run for run in self.runs if not run.counted]

    def scored(self, method: str) -> dict[str, Array]:
        """The scores of a method, by task."""
        own = (cell for cell in self.cells if cell.method == method)
        return {cell.task: cell.scores for cell in own if cell.counted}

    def notes(self) -> Iterator[str]:
        """What a reader has to know before believing a number."""
        yield from _few_seeds(self.cells)
        yield from _repeated_seeds(self.cells)
        kinds = Counter(run.score_kind for run in self.runs if run.counted)
        if set(kinds) - {FINAL}:
            said = ", ".join(
                f"{kind} of {n} run{'s' * (n != 1)}" for kind, n in kinds.most_common()
            )
            yield f"Not every score is a final evaluation: {said}. Compare them with care."
        tasks = {method: sorted(self.scored(method)) for method in self.methods}
        if len({tuple(own) for own in tasks.values() if own}) > 1:
            yield (
                "Methods were not run on the same tasks. What is said over all tasks is said of each "
                "method's own tasks; pairs are compared on the tasks that both have."
            )
        if damaged := [f"{run.name}/{name}" for run in self.runs for name in run.damaged]:
            files, were = ("file", "was") if len(damaged) == 1 else ("files", "were")
            more = f" and {len(damaged) - 3} more" if len(damaged) > 3 else ""
            yield f"{len(damaged):,} damaged {files} {were} passed over: {', '.join(damaged[:3])}{more}."
        if unread := sum(run.unread for run in self.runs):
            lines, were = ("line", "was") if unread == 1 else ("lines", "were")
            yield f"{unread:,} damaged {lines} of metrics.jsonl {were} passed over."


def study(runs: Iterable[Run]) -> Study:
    """Runs put in order."""
    every = tuple(runs)
    parties: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in every:
        parties[run.label, run.algo].append(run)
    cells: dict[tuple[str, str], list[Run]] = defaultdict(list)
    letters: dict[str, str] = {}
    for (label, algo), members in sorted(parties.items()):
        base = f"{label}: {algo}" if label and label != algo else algo
        for name, own in _methods(base, members, letters):
            for run in own:
                cells[name, run.env].append(run)
    methods = list(dict.fromkeys(method for method, _ in cells))
    order = sorted(
        cells, key=lambda key: (key[1], methods.index(key[0]))
    )  # a task's methods together
    ordered = tuple(Cell(*key, tuple(cells[key])) for key in order)
    return Study(every, tuple(methods), ordered, letters)


def varied(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """The keys in which configurations differ."""
    keys = dict.fromkeys(key for one in settings for key in one)
    return [key for key in keys if len({_plain(one.get(key)) for one in settings}) > 1]


def shown(key: str, value: Any) -> str:
    """The value of a setting as it is written, unless it is named like a secret."""
    hidden = value is not None and is_secret(key) and key not in OWN_KEYS
    return HIDDEN if hidden else text(value_text(value))


def _methods(
    base: str, runs: Sequence[Run], letters: dict[str, str]
) -> Iterator[tuple[str, list[Run]]]:
    """Runs of one algorithm, by what they are configured to do; `letters` gets what a letter stands for."""
    keys = _telling(runs)
    parts: dict[tuple[str, ...], list[Run]] = defaultdict(list)
    for run in runs:
        parts[tuple(_plain(run.settings.get(key)) for key in keys)].append(run)
    if names := _called(parts):
        for name in dict.fromkeys(names.values()):
            whose = [run for part, own in parts.items() if names[part] == name for run in own]
            yield f"{base} ({name})", whose
        return
    said = [_settings(own[0], keys) for own in parts.values()]
    clear = len(set(said)) == len(said) and max(map(len, said)) <= LONGEST_NAME
    for place, (one, own) in enumerate(zip(said, parts.values(), strict=True)):
        short = one if clear else _letters(place)
        name = f"{base} ({short})" if len(parts) > 1 else base
        if len(parts) > 1 and not clear:
            letters[name] = one
        yield name, own


def _telling(runs: Sequence[Run]) -> list[str]:
    """The keys in which runs on the same task differ."""
    found: dict[str, None] = {}
    for task in sorted({run.env for run in runs}):
        settings = [run.settings for run in runs if run.env == task and run.settings]
        found |= dict.fromkeys(varied(settings))
    return [key for key in found if key not in NOT_METHOD]


def _called(parts: Mapping[tuple[str, ...], Sequence[Run]]) -> dict[tuple[str, ...], str]:
    """The user's own names of the parts, where they tell apart the same runs on each task."""
    if len(parts) < 2:
        return {}
    names = {part: {run.called for run in own} for part, own in parts.items()}
    if any(len(own) > 1 or "" in own for own in names.values()):
        return {}
    called = {part: next(iter(own)) for part, own in names.items()}
    pairs = Counter(
        (called[part], task) for part, own in parts.items() for task in {run.env for run in own}
    )
    return called if max(pairs.values()) == 1 else {}


def _settings(run: Run, keys: Sequence[str]) -> str:
    """`learning_rate=0.001, env.n_envs=8`."""
    return ", ".join(
        f"{key.removeprefix('algo.')}={shown(key, run.settings.get(key, 'unset'))}" for key in keys
    )


def _letters(place: int) -> str:
    """A, B, ... Z, AA, AB, ..."""
    rest, letter = divmod(place, 26)
    return (_letters(rest - 1) if rest else "") + string.ascii_uppercase[letter]


def _plain(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _few_seeds(cells: Sequence[Cell]) -> Iterator[str]:
    sizes = [len(cell.counted) for cell in cells if cell.counted]
    if not sizes:
        yield "No run has a score yet: there is nothing to compare."
    elif max(sizes) == 1:
        yield (
            "One run of each method and task: there are no intervals, profiles and probabilities. A "
            "difference between methods may be chance."
        )
    elif min(sizes) < 10:
        few = f"{min(sizes)}" if min(sizes) == max(sizes) else f"{min(sizes)} to {max(sizes)}"
        yield (
            f"{few} runs of each method and task. Intervals from fewer than 10 runs are too narrow: "
            "what is called 95% covers the truth about 73 times of 100 with 3 runs, and 88 times with 5."
        )


def _repeated_seeds(cells: Sequence[Cell]) -> Iterator[str]:
    again = []
    for cell in cells:
        seeds = Counter(run.seed for run in cell.counted if run.seed is not None)
        often = sum(1 for times in seeds.values() if times > 1)
        if often:
            again.append(f"{cell.method} on {cell.task} ({often})")
    if again:
        more = f" and {len(again) - 3} more" if len(again) > 3 else ""
        yield (
            f"Seeds that are there more than once: {', '.join(again[:3])}{more}. Runs with the same seed are "
            "not independent, and intervals are too narrow."
        )
