"""Group runs by method and task, and name methods by the settings in which they differ.

A method is a set of runs that differ only in environment and seed. A task is the environment on which
methods are compared. A cell is one method on one task; its runs are its seeds.
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
from rlox_cli.report.records import FINAL, Array, Run, safe_text
from rlox_cli.shell.help import value_text

LONGEST_NAME = 60
NOT_SECRET_KEYS = ("env.action_mask_key",)  # looks like the name of a secret, but is not
NON_METHOD_KEYS = ("env.id", "algo.name")  # already in the names of task and method


@dataclass(frozen=True)
class Cell:
    """The runs of one method on one task."""

    method: str
    task: str
    runs: tuple[Run, ...]

    @property
    def counted_runs(self) -> tuple[Run, ...]:
        """The runs whose scores are in the tables."""
        return tuple(run for run in self.runs if run.is_counted)

    @property
    def scores(self) -> Array:
        """A score for each counted run."""
        return np.array([run.score for run in self.counted_runs], np.float64)


@dataclass(frozen=True)
class Study:
    """All runs of a report, with their methods and cells."""

    runs: tuple[Run, ...]
    methods: tuple[str, ...]
    cells: tuple[Cell, ...]
    letter_settings: Mapping[str, str] = field(default_factory=dict)  # settings of methods named by letters

    @property
    def tasks(self) -> list[str]:
        """The tasks of all cells, sorted."""
        return sorted({cell.task for cell in self.cells})

    @property
    def left_out(self) -> list[Run]:
        """The runs whose scores are in no table."""
        return [run for run in self.runs if not run.is_counted]

    def scores_by_task(self, method: str) -> dict[str, Array]:
        """Return the scores of a method, by task."""
        method_cells = (cell for cell in self.cells if cell.method == method)
        return {cell.task: cell.scores for cell in method_cells if cell.counted_runs}

    def notes(self) -> Iterator[str]:
        """Yield caveats on the numbers."""
        yield from _few_seeds_notes(self.cells)
        yield from _repeated_seeds_notes(self.cells)
        kinds = Counter(run.score_kind for run in self.runs if run.is_counted)
        if set(kinds) - {FINAL}:
            kinds_text = ", ".join(f"{kind} of {n} run{'s' * (n != 1)}" for kind, n in kinds.most_common())
            yield f"Not every score is a final evaluation: {kinds_text}. Compare them with care."
        tasks = {method: sorted(self.scores_by_task(method)) for method in self.methods}
        if len({tuple(own_tasks) for own_tasks in tasks.values() if own_tasks}) > 1:
            yield (
                "Methods were not run on the same tasks. Statistics over all tasks are over each method's "
                "own tasks; pairs are compared on the tasks that both have."
            )
        if damaged_files := [f"{run.name}/{name}" for run in self.runs for name in run.damaged_files]:
            file_word, verb = ("file", "was") if len(damaged_files) == 1 else ("files", "were")
            omitted_text = f" and {len(damaged_files) - 3} more" if len(damaged_files) > 3 else ""
            yield (
                f"{len(damaged_files):,} damaged {file_word} {verb} passed over: "
                f"{', '.join(damaged_files[:3])}{omitted_text}."
            )
        if unreadable_lines := sum(run.unreadable_lines for run in self.runs):
            line_word, verb = ("line", "was") if unreadable_lines == 1 else ("lines", "were")
            yield f"{unreadable_lines:,} damaged {line_word} of metrics.jsonl {verb} passed over."


def group_runs(runs: Iterable[Run]) -> Study:
    """Group runs by method and task."""
    all_runs = tuple(runs)
    runs_by_algo: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in all_runs:
        runs_by_algo[run.label, run.algo].append(run)
    cells: dict[tuple[str, str], list[Run]] = defaultdict(list)
    letter_settings: dict[str, str] = {}
    for (label, algo), members in sorted(runs_by_algo.items()):
        base = f"{label}: {algo}" if label and label != algo else algo
        for name, method_runs in _name_methods(base, members, letter_settings):
            for run in method_runs:
                cells[name, run.env].append(run)
    methods = list(dict.fromkeys(method for method, _ in cells))
    order = sorted(cells, key=lambda key: (key[1], methods.index(key[0])))  # keeps a task's methods together
    ordered = tuple(Cell(*key, tuple(cells[key])) for key in order)
    return Study(all_runs, tuple(methods), ordered, letter_settings)


def varying_keys(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the keys in which configurations differ."""
    keys = dict.fromkeys(key for settings_of_run in settings for key in settings_of_run)
    return [
        key for key in keys if len({_to_json(settings_of_run.get(key)) for settings_of_run in settings}) > 1
    ]


def format_setting(key: str, value: Any) -> str:
    """Format the value of a setting as users write it; hide it if its key is named like a secret."""
    hidden = value is not None and is_secret(key) and key not in NOT_SECRET_KEYS
    return HIDDEN if hidden else safe_text(value_text(value))


def _name_methods(
    base: str, runs: Sequence[Run], letter_settings: dict[str, str]
) -> Iterator[tuple[str, list[Run]]]:
    """Yield runs of one algorithm by method name; add the settings behind letters to `letter_settings`."""
    keys = _distinguishing_keys(runs)
    runs_by_settings: dict[tuple[str, ...], list[Run]] = defaultdict(list)
    for run in runs:
        runs_by_settings[tuple(_to_json(run.settings.get(key)) for key in keys)].append(run)
    if names := _user_names(runs_by_settings):
        for name in dict.fromkeys(names.values()):
            named_runs = [
                run
                for part, method_runs in runs_by_settings.items()
                if names[part] == name
                for run in method_runs
            ]
            yield f"{base} ({name})", named_runs
        return
    settings_texts = [_settings_text(method_runs[0], keys) for method_runs in runs_by_settings.values()]
    is_readable = (
        len(set(settings_texts)) == len(settings_texts) and max(map(len, settings_texts)) <= LONGEST_NAME
    )
    for index, (settings_text, method_runs) in enumerate(
        zip(settings_texts, runs_by_settings.values(), strict=True)
    ):
        short = settings_text if is_readable else _letter_name(index)
        name = f"{base} ({short})" if len(runs_by_settings) > 1 else base
        if len(runs_by_settings) > 1 and not is_readable:
            letter_settings[name] = settings_text
        yield name, method_runs


def _distinguishing_keys(runs: Sequence[Run]) -> list[str]:
    """Return the keys in which runs on the same task differ."""
    keys: dict[str, None] = {}
    for task in sorted({run.env for run in runs}):
        settings = [run.settings for run in runs if run.env == task and run.settings]
        keys |= dict.fromkeys(varying_keys(settings))
    return [key for key in keys if key not in NON_METHOD_KEYS]


def _user_names(runs_by_settings: Mapping[tuple[str, ...], Sequence[Run]]) -> dict[tuple[str, ...], str]:
    """Return the user's name for each group of runs; empty unless names separate the groups on each task."""
    if len(runs_by_settings) < 2:
        return {}
    names = {part: {run.user_name for run in part_runs} for part, part_runs in runs_by_settings.items()}
    if any(len(part_runs) > 1 or "" in part_runs for part_runs in names.values()):
        return {}
    name_by_part = {part: next(iter(part_runs)) for part, part_runs in names.items()}
    pairs = Counter(
        (name_by_part[part], task)
        for part, part_runs in runs_by_settings.items()
        for task in {run.env for run in part_runs}
    )
    return name_by_part if max(pairs.values()) == 1 else {}


def _settings_text(run: Run, keys: Sequence[str]) -> str:
    """Return the settings of a run as text: `learning_rate=0.001, env.n_envs=8`."""
    return ", ".join(
        f"{key.removeprefix('algo.')}={format_setting(key, run.settings.get(key, 'unset'))}" for key in keys
    )


def _letter_name(index: int) -> str:
    """Return the letters of an index: A, B, ... Z, AA, AB, ..."""
    rest, letter = divmod(index, 26)
    return (_letter_name(rest - 1) if rest else "") + string.ascii_uppercase[letter]


def _to_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _few_seeds_notes(cells: Sequence[Cell]) -> Iterator[str]:
    sizes = [len(cell.counted_runs) for cell in cells if cell.counted_runs]
    if not sizes:
        yield "No run has a score yet: there is nothing to compare."
    elif max(sizes) == 1:
        yield (
            "One run of each method and task: there are no intervals, profiles or probabilities. A "
            "difference between methods may be chance."
        )
    elif min(sizes) < 10:
        count_text = f"{min(sizes)}" if min(sizes) == max(sizes) else f"{min(sizes)} to {max(sizes)}"
        yield (
            f"{count_text} runs of each method and task. Intervals from fewer than 10 runs are too narrow: "
            "a 95% interval covers the true value about 73 times in 100 with 3 runs, and 88 times with 5."
        )


def _repeated_seeds_notes(cells: Sequence[Cell]) -> Iterator[str]:
    repeated = []
    for cell in cells:
        seeds = Counter(run.seed for run in cell.counted_runs if run.seed is not None)
        n_repeated = sum(1 for times in seeds.values() if times > 1)
        if n_repeated:
            repeated.append(f"{cell.method} on {cell.task} ({n_repeated})")
    if repeated:
        omitted_text = f" and {len(repeated) - 3} more" if len(repeated) > 3 else ""
        yield (
            f"Seeds that occur more than once: {', '.join(repeated[:3])}{omitted_text}. Runs with the "
            "same seed are not independent, and intervals are too narrow."
        )
