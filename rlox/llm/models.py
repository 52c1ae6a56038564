"""A language model as training and generation use it, whoever wrote it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from rlox.devices import moved
from rlox.errors import ConfigError, NonFiniteError, ShapeError
from rlox.llm.adapters import Learned
from rlox.llm.layers import computed_twice, layers_of, names_taken
from rlox.llm.llama import Llama
from rlox.llm.packing import Packing, can_pack
from rlox.llm.pretrained import room_of, sees_later_tokens
from rlox.losses import token_log_probs
from rlox.losses.tokens import of_linear

__all__ = ["TextModel", "evaluating", "require_finite_logits"]


class TextModel:
    """Logits of a module whose `forward(input_ids)` returns them, or what has them as `logits`.

    Parameters
    ----------
    module : the model
    bf16 : whether products are of bfloat16 (torch's autocast); weights stay what they are
    twice : whether layers are computed again on the way back, to keep less
    packing : whether sequences that are scored stand side by side, where lengths differ

    What else `forward` takes by name it gets: `attention_mask`, `position_ids`, `past_key_values` with
    `use_cache`, `logits_to_keep`, as the models of transformers do. A causal model that takes no mask never
    sees padding before a token that counts.
    """

    def __init__(
        self, module: nn.Module, bf16: bool = False, twice: bool = False, packing: bool = False
    ) -> None:
        if not isinstance(module, nn.Module):
            raise ConfigError(
                f"model is a {type(module).__name__}, expected a torch.nn.Module whose forward(input_ids) "
                "returns logits"
            )
        self.module = module
        named = names_taken(module)
        self._takes_mask, self._takes_positions, self._keeps, self.caches = (
            name in named
            for name in ("attention_mask", "position_ids", "logits_to_keep", "past_key_values")
        )
        self._told_to_cache = "use_cache" in named
        self.bf16, self._layers = bf16, layers_of(module) if twice else []
        self._packing = Packing(module, bf16) if packing else None
        self.learned = Learned(module)

    def like(self, module: nn.Module) -> TextModel:
        """Another one that is asked in the same way, a copy of this that does not learn."""
        other = TextModel(module, self.bf16, packing=self._packing is not None and can_pack(module))
        other.learned = Learned(module, self.learned)
        return other

    def log_probs(
        self,
        ids: Tensor,
        start: int = 1,
        lengths: Tensor | None = None,
        temperature: float = 1.0,
        overwrite: bool = False,
    ) -> Tensor:
        """Log-probabilities of the tokens of each sequence from column `start` on, with gradient.

        Parameters
        ----------
        ids : int64 `[B, L]`, padding behind each sequence
        start : in [1, L)
        lengths : tokens of each sequence, int64 `[B]`; None: L. What is behind them means nothing
        temperature : that they are drawn with, > 0
        overwrite : write the gradient of the logits where they are, if a linear layer made them: no second
            `[B, L, V]` is held. Nobody else may read them afterwards, and there is one way back

        Returns `[B, L - start]`.
        """
        if ids.dim() != 2 or (lengths is not None and lengths.shape != ids.shape[:1]):
            told = None if lengths is None else list(lengths.shape)
            raise ShapeError(f"ids {list(ids.shape)} and lengths {told}: expected [B, L] and [B]")
        if not 1 <= start < ids.shape[1]:
            raise ShapeError(
                f"start={start} of {ids.shape[1]} columns, expected one in [1, {ids.shape[1]})"
            )
        self.require_room(ids.shape[1])
        kept = ids.shape[1] - start + 1
        given: dict[str, Any] = {}
        if self._takes_mask and lengths is not None:
            columns = torch.arange(ids.shape[1], device=ids.device)
            given["attention_mask"] = (columns < lengths.unsqueeze(1)).long()
        if self._told_to_cache:
            given["use_cache"] = False
        if self._keeps:
            given["logits_to_keep"] = kept
        logits = self.logits_of(self.asked(ids, **given), ids, kept)
        free = overwrite and of_linear(logits)
        return token_log_probs(logits, ids[:, start:], logits.shape[1] - kept, temperature, free)

    def completion_log_probs(
        self,
        prompts: Sequence[Tensor],
        tokens: Tensor,
        mask: Tensor,
        temperature: float = 1.0,
        overwrite: bool = False,
    ) -> Tensor:
        """Log-probabilities of completions of prompts of any lengths, in one call, with gradient.

        Parameters
        ----------
        prompts : int64 `[P]` each, as many as completions, where `tokens` are: on the CPU, or by the model
        tokens : int64 `[B, T]`
        mask : of those that belong to a completion, `[B, T]`, none behind one that does not
        temperature, overwrite : as of `log_probs`

        Returns `[B, T]` by the model, 0 where the mask is.
        """
        if tokens.dim() != 2 or tokens.shape != mask.shape or len(prompts) != len(tokens):
            raise ShapeError(
                f"{len(prompts)} prompts, tokens {list(tokens.shape)} and mask {list(mask.shape)}: expected "
                "B, [B, T] and [B, T]"
            )
        mask = mask.bool()
        if bool((mask[:, 1:] & ~mask[:, :-1]).any()):
            raise ShapeError(
                "mask: a token behind one that does not count, expected padding behind"
            )
        before = torch.tensor([len(prompt) for prompt in prompts], device=tokens.device)
        counts = mask.sum(1)
        if int(before.min()) < 1:
            raise ShapeError("a prompt without a token, expected at least one")
        rows = [
            torch.cat([p, row[: int(n)]]) for p, row, n in zip(prompts, tokens, counts, strict=True)
        ]
        if self._packing:
            return self._packing(self, rows, before, mask, temperature, overwrite)
        ids, start = pad_sequence(rows, batch_first=True), int(before.min())
        if ids.shape[1] == start:
            return torch.zeros(mask.shape, device=self.device)
        columns = (before - start).unsqueeze(1) + torch.arange(
            tokens.shape[1], device=tokens.device
        )
        # everything there is to look at was looked at where the tokens are: a device is waited for nowhere
        given = (ids, before + counts, columns.clamp(max=ids.shape[1] - start - 1), ~mask)
        ids, lengths, columns, behind = (moved(tensor, self.device) for tensor in given)
        said = self.log_probs(ids, start, lengths, temperature, overwrite)
        return said.gather(1, columns).masked_fill(behind, 0.0)

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next((p.device for p in self.module.parameters()), torch.device("cpu"))

    @property
    def vocabulary(self) -> int:
        """Tokens that it has logits of, by the layer that makes them, or its configuration."""
        about = getattr(self.module, "size", None) or getattr(self.module, "config", None)
        return int(getattr(about, "vocab_size", 0))

    def require_room(self, tokens: int) -> None:
        """`ConfigError` for a sequence of more tokens than the model says that it has positions."""
        room = room_of(self.module)
        if room is not None and tokens > room:
            raise ConfigError(
                f"a sequence of {tokens} tokens, expected at most max_position_embeddings={room} of "
                f"{type(self.module).__name__}"
            )

    def require_causal(self, what: str = "model") -> None:
        """`ConfigError` where logits depend on tokens behind them, by one forward of a few tokens.

        A model that fails there, or says something else each time, is passed over: of it nothing is known.
        """
        if isinstance(self.module, Llama):
            return
        try:
            with torch.no_grad(), evaluating(self.module):
                sees = sees_later_tokens(lambda ids: self.whole(ids.to(self.device)))
        except Exception:  # its first use says what is wrong with it
            return
        if sees:
            raise ConfigError(
                f"{what}: the logits that {type(self.module).__name__} returns for a token depend on later "
                "tokens, expected a causal model, which sees each token and those before it alone"
            )

    def caches_for(self, lengths: Sequence[int]) -> bool:
        """Whether a cache serves prompts of these lengths: of different ones their padding has to be told."""
        alike = len(set(lengths)) == 1
        return self.caches and (alike or (self._takes_mask and self._takes_positions))

    def whole(self, ids: Tensor) -> Tensor:
        """The logits behind all tokens of sequences with padding behind them, `[B, L, V]`."""
        self.require_room(ids.shape[1])
        given = {"use_cache": False} if self._told_to_cache else {}
        return self.logits_of(self.asked(ids, **given), ids, ids.shape[1])

    def prefill(self, ids: Tensor, mask: Tensor | None, length: int) -> tuple[Tensor, Any]:
        """The logits behind prompts, `[B, V]`, and a cache for `length` tokens.

        `mask` `[B, P]` is False for padding, which is before a prompt; None: there is none.
        """
        given: dict[str, Any] = {}
        if isinstance(self.module, Llama):
            given["past_key_values"] = self.module.cache(len(ids), length)
        return self._step(ids, mask, given)

    def decode_step(self, ids: Tensor, mask: Tensor | None, cache: Any) -> tuple[Tensor, Any]:
        """The logits behind one more token of each, `[B, 1]`; `mask` `[B, all]` or None."""
        return self._step(ids, mask, {"past_key_values": cache})

    def _step(self, ids: Tensor, mask: Tensor | None, given: dict[str, Any]) -> tuple[Tensor, Any]:
        if mask is not None:
            given["attention_mask"] = mask.long()
            at = (mask.long().cumsum(1) - 1).clamp_(min=0)
            given["position_ids"] = at[:, -ids.shape[1] :]
        if self._keeps:
            given["logits_to_keep"] = 1
        if self._told_to_cache:
            given["use_cache"] = True
        said = self.asked(ids, **given)
        cache = getattr(said, "past_key_values", None)
        if cache is None:
            raise ConfigError(
                f"{type(self.module).__name__} takes past_key_values and returned none: what was said before "
                "would be forgotten"
            )
        return self.logits_of(said, ids, 1)[:, -1], cache

    def asked(self, ids: Tensor, **given: Any) -> Any:
        """What the module says; `ConfigError` for tokens that it has none of."""
        wide = torch.autocast(ids.device.type, torch.bfloat16) if self.bf16 else nullcontext()
        try:
            with wide, computed_twice(self._layers):
                # a copy: a forward that writes to its argument would change what is learned
                return self.module(ids.clone(), **given)
        except IndexError as error:
            raise ConfigError(
                f"{type(self.module).__name__} fails on token ids from {int(ids.min())} to {int(ids.max())}: "
                f"{error}; are they ids of its vocabulary?"
            ) from error

    def logits_of(self, said: Any, ids: Tensor, least: int) -> Tensor:
        """The logits in what the module says of `ids`, of the last `least` tokens at least, `[B, L, V]`."""
        logits = said if isinstance(said, Tensor) else getattr(said, "logits", None)
        if not isinstance(logits, Tensor):
            raise ConfigError(
                f"{type(self.module).__name__} returned a {type(said).__name__}, expected logits [B, L, V] "
                "or what has them as .logits"
            )
        if (
            logits.dim() != 3
            or len(logits) != len(ids)
            or not least <= logits.shape[1] <= ids.shape[1]
        ):
            raise ShapeError(
                f"{type(self.module).__name__} returned logits {list(logits.shape)} for tokens "
                f"{list(ids.shape)}, expected [{len(ids)}, {ids.shape[1]}, V]"
            )
        return logits


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Without dropout; afterwards each part is in the mode that it was in."""
    training = [part for part in module.modules() if part.training]
    for part in training:
        part.training = False
    try:
        yield
    finally:
        for part in training:
            part.training = True


def require_finite_logits(logits: Tensor, model: nn.Module) -> None:
    """`NonFiniteError` where nothing can be drawn."""
    if not bool(torch.isfinite(logits.amax(-1)).all()):
        raise NonFiniteError(f"{type(model).__name__} says logits that are not finite")
