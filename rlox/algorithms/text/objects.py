"""The objects given to a façade of an algorithm on text, which no configuration can contain."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, cast

from torch import nn

from rlox.configs import RunConfig
from rlox.configs.params import object_name
from rlox.configs.text import SERVER_FIELDS
from rlox.errors import ConfigError
from rlox.llm import LlamaSize
from rlox.llm.reward_arguments import RewardFunction, require_takes_pairs
from rlox.llm.serving import GenerationServer
from rlox.runs.checkpoint import Checkpoint
from rlox.runs.constructor import RUN_OBJECTS, ObjectArgument
from rlox.runs.loading import RuntimeObjects

__all__ = [
    "EOS_KEY",
    "PREFERENCE_OBJECT",
    "REFERENCE_OBJECT",
    "SIZE_KEY",
    "TEXT_OBJECTS",
    "PreferenceFunction",
    "TextRuntimeObjects",
]

# Takes the pairs and returns, for each, the index of the better completion (0 or 1), or -1 for neither.
PreferenceFunction = Callable[[list[Any]], Sequence[int]]

SIZE_KEY, EOS_KEY = "size", "ends"  # keys in a learner's state: model size, end tokens


@dataclass(frozen=True)
class TextRuntimeObjects(RuntimeObjects):
    """Objects given to a façade that are not saved to any file."""

    model: nn.Module | None = None
    ref_model: nn.Module | None = None
    rewards: tuple[RewardFunction, ...] = ()
    preference: PreferenceFunction | None = None
    size: LlamaSize | None = None  # of a model whose weights are in a checkpoint
    eos_ids: tuple[int, ...] = ()  # end tokens from the files of that model
    server: GenerationServer | None = None  # generates completions instead of the model
    files: Mapping[str, str] = field(default_factory=dict)  # present paths of files that a checkpoint names

    def __post_init__(self) -> None:
        for name in ("model", "ref_model"):
            value = getattr(self, name)
            if not isinstance(value, nn.Module | None):
                raise ConfigError(
                    f"{name} is a {type(value).__name__}, expected a torch.nn.Module whose "
                    "forward(input_ids) returns logits"
                )
        if not isinstance(self.server, GenerationServer | None):
            raise ConfigError(f"server={self.server!r}: expected a GenerationServer, or the name of a kind")
        if self.preference is not None and not callable(self.preference):
            raise ConfigError(f"preference_fn={self.preference!r}: expected a function that takes pairs")
        if self.preference is not None:
            require_takes_pairs(self.preference, f"preference_fn={object_name(self.preference)}")

    def function_names(self) -> dict[str, Any]:
        """Return the names of the functions; the keys are fields of the algorithm's configuration."""
        names: dict[str, Any] = {}
        if self.rewards:
            names["rewards"] = tuple(object_name(function) for function in self.rewards)
        if self.preference is not None:
            names["preference"] = object_name(self.preference)
        return names

    def restored_from(self, checkpoint: Checkpoint) -> TextRuntimeObjects:
        """Return a copy with the checkpoint's model size, so that the model's folder is not needed."""
        size, eos_ids = checkpoint.optimizer.get(SIZE_KEY), checkpoint.optimizer.get(EOS_KEY, ())
        return self if size is None else replace(self, size=LlamaSize(**size), eos_ids=tuple(eos_ids))

    def with_names(self, config: RunConfig) -> RunConfig:
        """Return the configuration with the names of these objects, since it cannot contain the objects."""
        algo: Any = config.algo
        names = self.function_names()
        if self.server is not None:  # replaces a configured server
            names |= {f.name: f.default for f in fields(algo) if f.name in ("server", *SERVER_FIELDS)}
        named = replace(config, algo=replace(algo, **names), **cast(Any, self.files))
        return named if self.model is None else replace(named, model=object_name(self.model))


_REWARD_DOC = (
    "one or several functions `(completions, prompts) -> rewards`: `completions` are tensors of the tokens "
    "up to the end, `prompts` `[B, P]` has one row for each (a list if lengths differ). A function may also "
    "take `texts` and columns of the dataset, by parameter name. None as a reward: the completion has none. "
    "Default: the task's reward. Algorithms that learn without rewards evaluate with it"
)
TEXT_OBJECTS = {
    "model": ObjectArgument(
        "ModelArgument",
        "a module whose `forward(input_ids)` returns logits `[B, L, V]`, or an object with such `.logits`; "
        'with a `task` or `dataset`, also `"tiny"` or the folder of a model',
    ),
    "reward_fn": ObjectArgument("RewardArgument", _REWARD_DOC),
    "task": ObjectArgument("str | None", "one of `rlox.llm.TASKS`"),
    "dataset": ObjectArgument("str | PathLike[str] | None", "a JSON lines file, instead of a task"),
    "eval_dataset": ObjectArgument(
        "str | PathLike[str] | None", "a file as for `dataset`, for evaluation; None: a fifth of its rows"
    ),
    "tokenizer": ObjectArgument(
        "str | PathLike[str] | None",
        "a folder with tokenizer.json, or bytes; None: the model's own, else characters for a task, bytes "
        "for a dataset",
    ),
    **RUN_OBJECTS,
}
REFERENCE_OBJECT = {
    "ref_model": ObjectArgument("nn.Module | None", "reference of the KL penalty; None: the initial model")
}
PREFERENCE_OBJECT = {
    "preference_fn": ObjectArgument(
        "PreferenceFunction | None",
        "`(pairs) -> list[int]`: for each pair `(first, second)`, the index of the better completion, 0 or "
        "1, or -1 for neither; `pair.prompt` is their prompt. None: the higher reward wins",
    )
}
