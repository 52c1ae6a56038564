"""Turns of conversations in a chat template: the tokens that end a turn, and the assistant's tokens."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlox.errors import ConfigError
from rlox.llm.codecs import Codec, Messages, Tokenizer, TokenizeRequest
from rlox.llm.prompts import common_prefix_length

__all__ = ["SETTING", "assistant_mask", "require_turn_end", "turn_requests"]

Ids = NDArray[np.int64]
SETTING = "algo.assistant_only_loss=true"
GENERATION_MARK = re.compile(r"\{%-?\s*generation\s*-?%\}")  # the pattern of transformers


def require_turn_end(
    codec: Codec,
    messages: Messages,
    template_kwargs: Mapping[str, Any],
    eos_ids: tuple[int, ...],
    generates: bool,
    place: str,
) -> None:
    """Warn if the chat template ends a turn with none of the `eos_ids` of completions.

    Parameters
    ----------
    messages : a conversation up to an answer
    generates : whether the run generates completions, which have to end
    place : the setting that errors and warnings name, as `key=value`

    Raises `ConfigError` if completions are generated and no token can end one.
    """
    if not isinstance(codec, Tokenizer):
        return
    while messages and messages[-1]["role"] == "assistant":
        messages = messages[:-1]
    try:
        conversation = [*messages, {"role": "assistant", "content": "good"}]
        ending = _suffix(
            codec.encode_chat(conversation, "more", template_kwargs),
            codec.encode_chat(conversation, "", template_kwargs),
        )
    except ConfigError:  # the template rejects this test conversation
        return
    if set(ending) & set(eos_ids):
        return
    token = next((t for t in ending if codec.is_special(t)), next(iter(ending), None))
    token_name = "nothing" if token is None else codec.name_of(token)
    eos_names = " or ".join(map(codec.name_of, eos_ids)) or "nothing"
    remedy = "give the chat template an end of turns"
    if token is not None:
        remedy = f"set algo.eos_token_id=[{','.join(map(str, [token, *eos_ids]))}]"
    message = f"{place}: the chat template ends a turn by {token_name}, and completions end by {eos_names}"
    if generates and not eos_ids:
        raise ConfigError(f"{message}: no completion could end; {remedy}")
    warnings.warn(
        f"{message}: a completion goes on after its turn, up to algo.max_new_tokens; {remedy}",
        UserWarning,
        stacklevel=2,
    )


def turn_requests(
    codec: Codec, messages: Messages, template_kwargs: Mapping[str, Any]
) -> list[TokenizeRequest]:
    """Return the requests whose tokens `assistant_mask` needs for a conversation."""
    if not isinstance(codec, Tokenizer):
        raise ConfigError(f"{SETTING}: expected a tokenizer with a chat template")
    if GENERATION_MARK.search(codec.template_of(template_kwargs)):
        return [TokenizeRequest(messages, "generated", template_kwargs)]
    answer_indices = _assistant_indices(messages)
    if not answer_indices or answer_indices[0] == 0:
        raise ConfigError(
            f"{SETTING}: the conversation {'begins with' if answer_indices else 'has no turn of'} the "
            f"assistant, and the chat template does not mark its turns ({{% generation %}})"
        )
    return [
        request
        for i in answer_indices
        for request in (
            TokenizeRequest(messages[:i], "", template_kwargs),
            TokenizeRequest(messages[:i], "answer", template_kwargs),
            TokenizeRequest(messages[: i + 1], "", template_kwargs),
        )
    ]


def assistant_mask(full_ids: Ids, parts: Sequence[Ids]) -> NDArray[np.bool_]:
    """Return the mask of the assistant's tokens in a conversation, bool `[L]`.

    The chat template marks them by `{% generation %}`. Without such marks, a turn runs from the start of its
    answer to the end of the turn.

    Parameters
    ----------
    full_ids : the conversation, int64 `[L]`
    parts : the tokens of each of the `turn_requests`

    Raises `ConfigError` if the template writes a turn differently when others follow it, and if no token is
    the assistant's.
    """
    mask = np.zeros(len(full_ids), bool)
    if len(parts) == 1:
        mask = parts[0].astype(bool)
    else:
        for ids_before, ids_with_header, ids_with_answer in zip(*[iter(parts)] * 3, strict=True):
            start = common_prefix_length(ids_with_header, full_ids)
            if common_prefix_length(ids_with_answer, full_ids) < len(ids_with_answer) or not len(
                ids_before
            ) <= start < len(ids_with_answer):
                raise ConfigError(
                    f"{SETTING}: the chat template writes a turn differently once others follow, and does "
                    "not mark the assistant's turns ({% generation %}), so the assistant's tokens are unknown"
                )
            mask[start : len(ids_with_answer)] = True
    if not mask.any():
        raise ConfigError(f"{SETTING}: the chat template marks no token as the assistant's")
    return mask


def _assistant_indices(messages: Messages) -> list[int]:
    return [i for i, message in enumerate(messages) if message["role"] == "assistant"]


def _suffix(prefix_ids: Ids, full_ids: Ids) -> list[int]:
    """Return the tokens of `full_ids` after its common prefix with `prefix_ids`."""
    return [int(token) for token in full_ids[common_prefix_length(prefix_ids, full_ids) :]]
