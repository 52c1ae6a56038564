"""The text task of a run, set by `env`, `task`, `dataset` and `model` together."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from rlox.configs.name_suggestions import nearest
from rlox.configs.run import ALGO_CONFIGS, RunConfig
from rlox.configs.text import TASKS, TEXT, TextAlgorithmConfig, is_text
from rlox.errors import ConfigError

__all__ = ["require_task", "search_note", "with_task"]

# Keys outside of any group that concern text.
TEXT_KEYS = ("task", "model", "dataset", "eval_dataset", "tokenizer")


def with_task(run: RunConfig) -> RunConfig:
    """Return the run with its task in the environment's id (for example `text/copy`) and in the key `task`.

    A dataset takes the task's place in the id. Raises `ConfigError` if an algorithm that does not learn from
    text has text settings, or if one that learns from text has an environment other than `text`.
    """
    if not isinstance(run.algo, TextAlgorithmConfig):
        return _without_text(run)
    if not is_text(run.env.id):
        task_hint = "" if run.task or run.dataset else f" and task={TASKS[0]} (or {', '.join(TASKS[1:])})"
        raise ConfigError(f"env={run.env.id}: {run.algo.name} learns from text; set env={TEXT}{task_hint}")
    env_task = run.env.id.partition("/")[2] or None
    if run.dataset is not None:
        return _with_dataset(run, run.dataset, env_task)
    if run.eval_dataset is not None:
        raise ConfigError(f"eval_dataset={run.eval_dataset} without dataset: set dataset, or leave it out")
    if env_task is not None and env_task not in TASKS:
        raise ConfigError(
            f"env={run.env.id}: expected {TEXT}/ and one of {', '.join(TASKS)}{nearest(env_task, TASKS)}"
        )
    if env_task is not None and run.task not in (None, env_task):
        raise ConfigError(f"env={run.env.id} and task={run.task}: leave one of them out")
    task = run.task or env_task
    if task is None:
        return run
    return replace(run, task=task, env=replace(run.env, id=f"{TEXT}/{task}"))


def _with_dataset(run: RunConfig, dataset: str, env_task: str | None) -> RunConfig:
    """Set the environment's id to the name of the dataset's file, unless the id already has a name."""
    for key, other in (("task", run.task), ("env", env_task if env_task in TASKS else None)):
        if other is not None:
            setting = f"env={TEXT}/{other}" if key == "env" else f"task={other}"
            raise ConfigError(f"dataset={dataset} and {setting}: leave one of them out")
    name = env_task or re.sub(r"[^\w.-]+", "-", Path(dataset).name)
    return replace(run, env=replace(run.env, id=f"{TEXT}/{name}"))


def require_task(run: RunConfig) -> None:
    """Raise `ConfigError` for a text run without a task or dataset."""
    if run.task is None and run.dataset is None:
        raise ConfigError(
            f"missing key 'task': {run.algo.name} needs a text task or dataset; set "
            f"task={', '.join(TASKS[:-1])} or {TASKS[-1]}, or dataset=FILE"
        )
    for key in ("dataset", "eval_dataset"):
        path = getattr(run, key)
        if path is not None and not Path(path).is_file():
            raise ConfigError(
                f"{key}={path}: there is no such file, expected a file of JSON lines{search_note(path)}"
            )


def search_note(path: str | Path) -> str:
    """Return a note on where a relative path was looked for; an empty string for an absolute path."""
    return "" if Path(path).is_absolute() else f" (looked for in {Path.cwd()})"


def _without_text(run: RunConfig) -> RunConfig:
    settings = [f"{key}={value}" for key in TEXT_KEYS if (value := getattr(run, key))]
    settings += [f"env={run.env.id}"] * is_text(run.env.id)
    if settings:
        text_algos = (n for n, kind in ALGO_CONFIGS.items() if issubclass(kind, TextAlgorithmConfig))
        raise ConfigError(
            f"{settings[0]}: {run.algo.name} does not learn from text ({', '.join(text_algos)} do); "
            f"choose one of these with algo=, or leave out {settings[0]}"
        )
    return run
