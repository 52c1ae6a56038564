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
from rlox.runs.loading import RuntimeObjects

__all__ = ["EOS_KEY", "SIZE_KEY", "PreferenceFunction", "TextRuntimeObjects"]

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
