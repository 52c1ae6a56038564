"""The configuration of a run, as stored in `config.yaml` in the run folder, and its text task.

The task is set by `env`, `task`, `dataset` and `model` together.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from rlox.configs.base import AlgorithmConfig
from rlox.configs.buffers import BUFFER_CONFIGS, BufferConfig, RolloutBufferConfig
from rlox.configs.builtin_algorithms import BUILTIN_ALGORITHMS
from rlox.configs.env import TEXT, EnvConfig, is_text
from rlox.configs.name_suggestions import nearest
from rlox.configs.params import Code, code, param
from rlox.configs.ppo import PPOConfig
from rlox.configs.text import TASKS, TextAlgorithmConfig
from rlox.errors import ConfigError
from rlox.plugins import AlgorithmPlugin, PluginEntry, PluginRegistry


def _plugin_config(entry: PluginEntry, plugin: Any, setting: str) -> type[AlgorithmConfig]:
    """Return the configuration class of an algorithm plugin; raise `ConfigError` if it is invalid."""
    if not isinstance(plugin, AlgorithmPlugin):
        raise entry.kind_error(setting, "a rlox.plugins.AlgorithmPlugin")
    config_class = entry.require_named_dataclass(plugin.config, setting)
    if not issubclass(config_class, AlgorithmConfig):
        raise entry.kind_error(setting, "config=a dataclass derived from rlox.configs.base.AlgorithmConfig")
    if not config_class.buffers or not all(name in BUFFER_CONFIGS for name in config_class.buffers):
        raise entry.kind_error(setting, f"buffers of its configuration among {', '.join(BUFFER_CONFIGS)}")
    return config_class


ALGO_CONFIGS: PluginRegistry[type[AlgorithmConfig]] = PluginRegistry(
    {name: plugin.config for name, plugin in BUILTIN_ALGORITHMS.items()}, "algo", _plugin_config
)


@dataclass(frozen=True)
class EvalConfig:
    """Evaluation on a separate environment with frozen normalisers."""

    every: int = param(0, "steps between evaluations; 0: only at the end", within="[0, inf)")
    episodes: int = param(50, "episodes of each evaluation; all are counted", within="[1, inf)")
    seed: int = param(100_000, "episode i starts from reset(seed=seed + i)", within="[0, 2147483647]")
    n_envs: int | None = param(
        None,
        "environments that an evaluation steps at once. auto: up to 64 native environments, 8 of Gymnasium, "
        "or of your own vectorised ones as many as training has",
        within="[1, 65536]",
        null_word="auto",
    )
    reuse_env: bool = param(
        False,
        "evaluate in the training environments, where a second set cannot exist; running episodes "
        "continue afterwards if their state can be saved, else they are lost",
    )
    max_steps: int | None = param(
        None,
        "steps after which an evaluation episode is stopped and counted as it is; null: no limit besides "
        "the environment's",
        within="[1, inf)",
    )


@dataclass(frozen=True)
class CheckpointConfig:
    """When the run is saved and how many checkpoints are kept."""

    every: int = param(50_000, "steps between checkpoints", within="[1, inf)")
    keep: int = param(2, "number of newest checkpoints to keep; the best one is kept too", within="[1, inf)")
    storage_timeout: float = param(
        300.0,
        "seconds to wait for a full or failing disk before the run stops",
        within="[0, inf)",
    )


@dataclass(frozen=True)
class LogConfig:
    """How often a row is logged."""

    every: int = param(2048, "steps between rows of metrics.jsonl", within="[1, inf)")


@dataclass(frozen=True)
class StopConfig:
    """Reasons to stop before total_steps."""

    score: float | None = param(
        None, "stop once an evaluation's mean return reaches this", within="(-inf, inf)"
    )
    minutes: float | None = param(
        None,
        "stop at the end of the first update after this many minutes, evaluations included; the final "
        "evaluation may take a tenth of the minutes more, at least 10 s",
        within="(0, inf)",
    )


@dataclass(frozen=True)
class LabelConfig:
    """Labels of a run; they have no effect."""

    name: str | None = param(None, "your name for the run, in listings and results", verbatim=True)
    tags: tuple[str, ...] = param((), "words to find the run by: run.tags=[baseline,v2]")
    variant: str | None = param(
        None,
        "your own option files that the run was composed from, such as algo=ppo_big; null: rlox names them",
        verbatim=True,
    )


@dataclass(frozen=True)
class RunConfig:
    """Everything a run depends on except code, versions and machine."""

    algo: AlgorithmConfig = param(doc="the algorithm", default_factory=PPOConfig)
    env: EnvConfig = param(doc="the environment", default_factory=EnvConfig)
    buffer: BufferConfig = param(doc="the buffer", default_factory=RolloutBufferConfig)
    logger: dict[str, Any] = param(doc="loggers besides jsonl, by name", default_factory=dict)
    task: str | None = param(None, "the task of env=text: its prompts and right answers", choices=TASKS)
    dataset: str | None = param(
        None,
        "instead of a task: a JSON lines file with text, messages, prompt, completion, chosen, rejected",
        verbatim=True,
    )
    eval_dataset: str | None = param(
        None,
        "a file as for dataset, for evaluation; null: a fifth of the rows of dataset, not trained on",
        verbatim=True,
    )
    tokenizer: str | None = param(
        None,
        "a folder with tokenizer.json, or bytes; null: the model's own, else characters for a task, "
        "bytes for a dataset",
        verbatim=True,
    )
    model: str | None = param(
        None,
        "the language model: tiny, a new small one, or a folder with config.json and model.safetensors; "
        "null: tiny",
        verbatim=True,
    )
    seed: int = param(0, "seed of every random stream of the run", within="[0, 9007199254740991]")
    total_steps: int = param(
        100_000,
        "length of the run, in the algorithm's unit; rounded up to whole batches",
        within="[1, inf)",
    )
    device: str = param(
        "auto",
        "torch device: auto, cpu, cuda, cuda:N or mps; auto: CUDA if available and useful (images, wide "
        "layers, language models), else the CPU",
    )
    torch_threads: int = param(1, "torch intra-op threads; 1 is fastest for small nets", within="[1, 1024]")
    threads: int | None = param(
        None,
        "threads for long work in Rust; null: RLOX_THREADS, else all CPUs. Results do not depend on it",
        within="[1, 1024]",
    )
    init_from: str | None = param(None, "run or checkpoint folder with the initial weights", verbatim=True)
    callbacks: tuple[Code, ...] = code("callbacks of your own as module:Name", many=True)
    run: LabelConfig = param(doc="labels", default_factory=LabelConfig)
    run_root: str = param("runs", "where run folders are made", verbatim=True)
    dry_run: bool = param(False, "check and build everything, train nothing")
    eval: EvalConfig = param(doc="evaluation", default_factory=EvalConfig)
    checkpoint: CheckpointConfig = param(doc="checkpoints", default_factory=CheckpointConfig)
    log: LogConfig = param(doc="logging", default_factory=LogConfig)
    stop: StopConfig = param(doc="early stopping", default_factory=StopConfig)

    @cached_property
    def batch_steps(self) -> int:
        """The length of a batch in the algorithm's unit; totals are rounded up to a multiple of it."""
        return self.algo.batch_steps(self.env.n_envs)

    @cached_property
    def rounded_steps(self) -> int:
        """`total_steps` rounded up to whole batches."""
        return -(-self.total_steps // self.batch_steps) * self.batch_steps

    @property
    def hook_intervals(self) -> tuple[int, ...]:
        """Steps between log rows, evaluations and checkpoints; 0 for none."""
        return self.log.every, self.eval.every, self.checkpoint.every


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
