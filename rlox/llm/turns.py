"""Turns of conversations as a chat template writes them: what ends one, and whose tokens are whose."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlox.errors import ConfigError
from rlox.llm.codecs import Ask, Codec, Messages, Tokenizer
from rlox.llm.prompts import agreeing

__all__ = ["ONLY", "assistant_mask", "require_turn_end", "turn_asks"]

Ids = NDArray[np.int64]
ONLY = "algo.assistant_only_loss=true"
MARKED = re.compile(r"\{%-?\s*generation\s*-?%\}")  # by which transformers knows, too


def require_turn_end(
    codec: Codec,
    messages: Messages,
    template: Mapping[str, Any],
    ends: tuple[int, ...],
    writes: bool,
    at: str,
) -> None:
    """Warn where the chat template ends a turn by none of the `ends` of completions.

    Parameters
    ----------
    messages : a conversation up to an answer
    writes : whether rewards or learning need completions that end
    at : the key and value that messages name

    Raises `ConfigError` where completions are written and nothing can end one.
    """
    if not isinstance(codec, Tokenizer):
        return
    while messages and messages[-1]["role"] == "assistant":
        messages = messages[:-1]
    try:
        said = [*messages, {"role": "assistant", "content": "good"}]
        ending = _behind(codec.chat(said, "more", template), codec.chat(said, "", template))
    except ConfigError:  # a template that takes other conversations alone, as those of the file
        return
    if set(ending) & set(ends):
        return
    token = next((t for t in ending if codec.is_special(t)), next(iter(ending), None))
    named = "nothing" if token is None else codec.name_of(token)
    known = " or ".join(map(codec.name_of, ends)) or "nothing"
    remedy = "give the chat template an end of turns"
    if token is not None:
        remedy = f"set algo.eos_token_id=[{','.join(map(str, [token, *ends]))}]"
    told = f"{at}: the chat template ends a turn by {named}, and completions end by {known}"
    if writes and not ends:
        raise ConfigError(f"{told}: no completion could end; {remedy}")
    warnings.warn(
        f"{told}: a completion goes on behind its turn, up to algo.max_new_tokens; {remedy}",
        UserWarning,
        stacklevel=2,
    )


def turn_asks(codec: Codec, messages: Messages, template: Mapping[str, Any]) -> list[Ask]:
    """Whatever tokens `assistant_mask` needs of a conversation."""
    if not isinstance(codec, Tokenizer):
        raise ConfigError(f"{ONLY}: expected a tokenizer with a chat template")
    if MARKED.search(codec.template_of(template)):
        return [Ask(messages, "generated", template)]
    at = _answers(messages)
    if not at or at[0] == 0:
        raise ConfigError(
            f"{ONLY}: the conversation {'begins with' if at else 'has nothing of'} the assistant, and the "
            "chat template does not mark its turns ({% generation %})"
        )
    return [
        ask
        for i in at
        for ask in (
            Ask(messages[:i], "", template),
            Ask(messages[:i], "answer", template),
            Ask(messages[: i + 1], "", template),
        )
    ]


def assistant_mask(whole: Ids, found: Sequence[Ids]) -> NDArray[np.bool_]:
    """Which tokens of a conversation the assistant says, bool `[L]`.

    Marked by `{% generation %}` in the chat template where that is there; else a turn goes from where an
    answer begins up to what ends it.

    Parameters
    ----------
    whole : the conversation, int64 `[L]`
    found : the tokens of `turn_asks`

    Raises `ConfigError` where the template writes a turn otherwise once others follow, and where no token is
    the assistant's.
    """
    mask = np.zeros(len(whole), bool)
    if len(found) == 1:
        mask = found[0].astype(bool)
    else:
        for before, asked, upto in zip(*[iter(found)] * 3, strict=True):
            begin = agreeing(asked, whole)
            if agreeing(upto, whole) < len(upto) or not len(before) <= begin < len(upto):
                raise ConfigError(
                    f"{ONLY}: the chat template writes a turn otherwise where others follow, and does not "
                    "mark the assistant's ({% generation %}): which tokens are the assistant's is not known"
                )
            mask[begin : len(upto)] = True
    if not mask.any():
        raise ConfigError(f"{ONLY}: the chat template marks no token as the assistant's")
    return mask


def _answers(messages: Messages) -> list[int]:
    return [i for i, message in enumerate(messages) if message["role"] == "assistant"]


def _behind(one: Ids, whole: Ids) -> list[int]:
    """What `whole` goes on with where it ceases to be `one`."""
    return [int(token) for token in whole[agreeing(one, whole) :]]
