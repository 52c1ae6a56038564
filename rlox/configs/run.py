"""The configuration of a run, as stored in `config.yaml` in the run folder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rlox.configs.base import AlgorithmConfig
from rlox.configs.buffers import BufferConfig, RolloutBufferConfig
from rlox.configs.builtin_algorithms import BUILTIN_ALGORITHMS
from rlox.configs.code import Code, code
from rlox.configs.env import EnvConfig
from rlox.configs.params import param
from rlox.configs.plugin_configs import algorithm_config
from rlox.configs.ppo import PPOConfig
from rlox.configs.text import TASKS
from rlox.plugins import PluginRegistry

ALGO_CONFIGS: PluginRegistry[type[AlgorithmConfig]] = PluginRegistry(
    {name: plugin.config for name, plugin in BUILTIN_ALGORITHMS.items()}, "algo", algorithm_config
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

    @property
    def batch_steps(self) -> int:
        """The length of a batch in the algorithm's unit; totals are rounded up to a multiple of it."""
        return self.algo.batch_steps(self.env.n_envs)

    @property
    def rounded_steps(self) -> int:
        """`total_steps` rounded up to whole batches."""
        return -(-self.total_steps // self.batch_steps) * self.batch_steps
