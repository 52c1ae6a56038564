"""Configuration that algorithms for language models share."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

from rlox.configs.base import AlgorithmConfig
from rlox.configs.buffers import BufferConfig
from rlox.configs.env import EnvConfig
from rlox.configs.offline import format_value
from rlox.configs.params import Code, code, param
from rlox.configs.schedules import Schedule, schedule
from rlox.errors import ConfigError

TASKS = ("arithmetic", "copy", "format")
REWARDS = ("right", "close")  # computed from a task's answers
SERVERS = ("vllm", "sglang")  # the servers that accept new weights
SERVER_FIELDS = ("server_url", "server_model", "server_tolerance")
TINY = "tiny"  # a new small model instead of one from a folder


@dataclass(frozen=True)
class TextAlgorithmConfig(AlgorithmConfig):
    """Text algorithms count prompts, as samples; no environment is stepped."""

    unit: ClassVar[Literal["env_steps", "updates", "samples"]] = "samples"
    unused_env_fields: ClassVar[frozenset[str] | None] = None
    action_kinds: ClassVar[tuple[str, ...]] = ()
    default_overrides: ClassVar[dict[str, Any]] = {
        "env.n_envs": 1,
        "total_steps": 20_000,
        "log.every": 1_000,
        "checkpoint.every": 10_000,
        "eval.episodes": 200,
    }

    name: str = param(doc="the algorithm")
    learning_rate: Schedule = schedule(1e-5, "Adam step size", within="(0, inf)")
    anneal_lr: bool = param(
        False, "learning rate falls linearly to 0 over total_steps", anneals="learning_rate"
    )
    batch_size: int = param(16, "prompts in a batch", within="[1, inf)")
    max_grad_norm: float = param(1.0, "global gradient-norm limit", within="(0, inf)", source="TRL")
    max_new_tokens: int | None = param(
        None,
        "maximum tokens of a completion; null: the longest answer of the task with its end, else 64",
        within="[1, inf)",
    )
    eos_token_id: tuple[int, ...] = param(
        (),
        "tokens that end a completion; none: the task's, or those of the tokenizer and the model's files",
        within="[0, inf)",
    )
    pad_token_id: int | None = param(
        None, "padding token after the end of a completion; null: the task's, else 0", within="[0, inf)"
    )
    rewards: tuple[Code, ...] = code(
        "rewards of completions. right: 1 for the task's answer, else 0; close: the fraction of it that "
        "is right; or a function (completions, prompts) of your own, module:name; none: right, with a "
        "task",
        names=REWARDS,
        many=True,
    )
    reward_weights: tuple[float, ...] = param((), "weights of algo.rewards; none: 1 each")
    bf16: bool = param(False, "matrix multiplications in bfloat16; weights and the optimizer stay in float32")
    gradient_checkpointing: bool = param(
        False, "recompute layers in the backward pass: less memory, more time"
    )
    accumulate: int = param(
        1,
        "gradient accumulation: parts that the rows of an optimizer step are split into; less memory, "
        "more time, the same step up to rounding",
        within="[1, inf)",
    )
    packing: bool = param(
        False, "several sequences in one row instead of padding; each attends only to itself"
    )
    lora_r: int | None = param(
        None,
        "rank of LoRA adapters, which are trained instead of the model (Hu et al. 2021); null: none",
        within="[1, inf)",
    )
    lora_alpha: float = param(
        32.0, "the adapters' output is scaled by lora_alpha / lora_r", within="(0, inf)", source="TRL"
    )
    lora_target_modules: tuple[str, ...] = param(
        (), "linear layers with adapters, by the end of their names: [q_proj,v_proj]; none: all but the last"
    )
    backend: str = param("torch", "library that computes the updates", choices=("torch",))

    def batch_layout(self, total: int) -> tuple[set[int], int]:
        """Return the sizes of batches in a run of `total`, in prompts, and the optimizer steps per batch."""
        return {self.batch_size, total % self.batch_size or self.batch_size}, 1

    @property
    def n_completions(self) -> int:
        """Completions of each prompt in a batch."""
        return 1

    def check_total(self, total: int) -> None:
        """Raise `ConfigError` if a batch has fewer rows than parts (`accumulate`)."""
        n_rows = self.batch_size * self.n_completions
        if self.accumulate > n_rows:
            group_text = f" x algo.group_size={self.n_completions}" if self.n_completions > 1 else ""
            raise ConfigError(
                f"algo.accumulate={self.accumulate}: a batch has {n_rows} rows (algo.batch_size="
                f"{self.batch_size}{group_text}), expected 1 to {n_rows}"
            )

    def check(self, env: EnvConfig, buffer: BufferConfig) -> None:
        """Raise `ConfigError` for environment settings, or unequal numbers of weights and rewards."""
        idle = EnvConfig(id=env.id, n_envs=1)
        for key, required_value in vars(idle).items():
            value = getattr(env, key)
            if value != required_value:
                raise ConfigError(
                    f"env.{key}={format_value(value)}: {self.name} learns from text, expected "
                    f"{format_value(required_value)}; leave it out"
                )
        for name in ("lora_alpha", "lora_target_modules"):
            default = type(self).__dataclass_fields__[name].default
            if self.lora_r is None and getattr(self, name) != default:
                raise ConfigError(
                    f"algo.{name}={format_value(getattr(self, name))} applies to adapters only: "
                    "set algo.lora_r, or leave it out"
                )
        if self.reward_weights and len(self.reward_weights) != len(self.rewards):
            raise ConfigError(
                f"algo.reward_weights has {len(self.reward_weights)} numbers for {len(self.rewards)} of "
                "algo.rewards, expected one for each"
            )


@dataclass(frozen=True)
class GenerationConfig(TextAlgorithmConfig):
    """Algorithms that learn from completions of the model itself."""

    temperature: float = param(1.0, "sampling temperature, which logits are divided by", within="(0, inf)")
    top_k: int | None = param(None, "sample only from the k most likely tokens", within="[1, inf)")
    top_p: float | None = param(
        None, "sample only from the most likely tokens with this total probability", within="(0, 1]"
    )
    min_p: float | None = param(
        None,
        "sample only from tokens at least this many times as likely as the most likely one",
        within="[0, 1]",
    )
    server: str | None = param(
        None,
        "generation server for completions, which gets the weights as they change; null: this process",
        choices=SERVERS,
        accepts="GenerationServer",
    )
    server_url: str = param(
        "http://127.0.0.1:8000",
        "address of the server; weights are passed through a folder that both can access",
        code="url",
    )
    server_model: str = param("default", "name of the model on the server (vllm)")
    server_tolerance: float = param(
        1e-4,
        "allowed difference between log-probabilities of the server and the model; with bfloat16 about 0.05",
        within="(0, inf)",
    )
    staleness: int = param(0, "maximum age of the server's weights, in updates", within="[0, inf)")

    def check(self, env: EnvConfig, buffer: BufferConfig) -> None:
        """Raise `ConfigError` for server settings without a server, or sampling filters with a server."""
        super().check(env, buffer)
        server_defaults = {f.name: f.default for f in fields(self) if f.name in SERVER_FIELDS}
        for name, default in server_defaults.items():
            if self.server is None and getattr(self, name) != default:
                raise ConfigError(
                    f"algo.{name}={getattr(self, name)} applies to a server only: set algo.server, "
                    "or leave it out"
                )
        filters = [n for n in ("top_k", "top_p", "min_p") if getattr(self, n) is not None]
        if self.server is not None and filters:
            raise ConfigError(
                f"algo.{filters[0]} with algo.server: log-probabilities would not be those of all tokens; "
                "leave it out"
            )


@dataclass(frozen=True)
class GroupConfig(GenerationConfig):
    """Algorithms that compare completions of the same prompt."""

    group_size: int = param(4, "completions of each prompt", within="[2, inf)")
    n_epochs: int = param(1, "passes over each batch", within="[1, inf)")
    minibatches: int = param(1, "optimizer steps in each pass over a batch", within="[1, inf)")
    clip_eps: float = param(
        0.2, "ratios are clipped to [1 - clip_eps, 1 + clip_eps]", within="[0, 1)", source="Shao et al. 2024"
    )
    mask_truncated: bool = param(
        False, "leave out completions that did not end (Yu et al. 2025, section 3.4)"
    )

    @property
    def n_completions(self) -> int:
        """The group's size."""
        return self.group_size

    def batch_layout(self, total: int) -> tuple[set[int], int]:
        """Return the sizes of batches, in prompts, and the optimizer steps per batch (`minibatches`)."""
        return super().batch_layout(total)[0], self.minibatches

    def check(self, env: EnvConfig, buffer: BufferConfig) -> None:
        """Raise `ConfigError` if there are more minibatches than completions."""
        super().check(env, buffer)
        if self.minibatches > self.batch_size * self.group_size:
            raise ConfigError(
                f"algo.minibatches={self.minibatches} of {self.batch_size * self.group_size} completions, "
                "expected at most one for each completion"
            )
