"""The spaces that a checkpoint's policy learned in, and whether it is given the same ones again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlox.configs import RunConfig
from rlox.configs.offline import NO_ENV, OfflineAlgorithmConfig
from rlox.envs.space_words import in_words
from rlox.errors import CheckpointError, RloxError
from rlox.training.actor import ActorOf

__all__ = ["require_spaces", "spaces_of"]

MOST = 120  # letters of a space in a message


def spaces_of(config: RunConfig, actor: Any) -> dict[str, str]:
    """Those that `actor` acts in, in words; none of a model of text, nor where sizes stand for spaces."""
    algo = config.algo
    sized = isinstance(algo, OfflineAlgorithmConfig) and algo.sized
    if not isinstance(actor, ActorOf) or (sized and config.env.id == NO_ENV):
        return {}
    return {
        "observations": in_words(actor.observations.space),
        "actions": in_words(actor.actions.space, bounds=True),
    }


def require_spaces(
    state: Mapping[str, Any],
    config: RunConfig,
    actor: Any,
    kind: type[RloxError] = CheckpointError,
) -> None:
    """Raise an error of this `kind` where `actor` acts in other spaces than a checkpoint's `state` says.

    Checkpoints of earlier versions say none.
    """
    there = state.get("spaces", {})
    for name, here in spaces_of(config, actor).items():
        if name in there and there[name] != here:
            raise kind(
                f"its policy learned with {name} {_cut(there[name])}, {name} here are {_cut(here)}; take an "
                "environment with its spaces, or wrap this one so that it has them"
            )


def _cut(words: Any) -> str:
    text = str(words)
    return text if len(text) <= MOST else text[: MOST - 3] + "..."
