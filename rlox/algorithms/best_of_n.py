"""BestOfN: the best of several completions (Stiennon et al. 2020, arXiv:2009.01325). Nothing is learned."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from rlox._core import Stream
from rlox.algorithms.text_facade import Rewarding, functions_of
from rlox.configs import EvalConfig
from rlox.configs.check import whole_number
from rlox.configs.params import object_name
from rlox.errors import ConfigError, RewardError
from rlox.llm import Sampling, TextModel
from rlox.llm.codecs import Tokenizer
from rlox.llm.judges import FunctionJudge
from rlox.llm.pretrained import ends_of, is_tokenizer, load_model
from rlox.llm.prompts import Prompt, rows_of
from rlox.llm.rewards import weighted_rewards
from rlox.sources.writers import written_with
from rlox.training.text import best_rows

__all__ = ["BestOfN"]


class BestOfN:
    """A sampler: of `n` completions of each prompt the one with the greatest reward, the first of equals.

    Parameters
    ----------
    model : a module as of `GRPO`, or the folder of one
    reward_fn : as of `GRPO`; several are added up
    n : completions of each prompt
    max_new_tokens : of a completion
    temperature, top_k, top_p, min_p : that they are drawn with
    eos_token_id : tokens that end a completion; none: those that the model and its tokenizer say
    pad_token_id : the token behind an end
    seed : keys what is drawn; each call of `generate` draws anew
    """

    def __init__(
        self,
        model: nn.Module | str | PathLike[str],
        reward_fn: Rewarding,
        n: int = 4,
        max_new_tokens: int = 64,
        *,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        eos_token_id: int | Sequence[int] = (),
        pad_token_id: int = 0,
        seed: int = 42,
    ) -> None:
        functions = functions_of(reward_fn)
        if not functions:
            raise ConfigError("BestOfN needs a reward_fn to tell which completion is best")
        codec: Tokenizer | None = None
        if isinstance(model, str | PathLike):
            folder = Path(model)
            model = load_model(folder)
            codec = Tokenizer(folder) if is_tokenizer(folder) else None
        else:
            TextModel(model).require_causal()
        self.model, self.seed = TextModel(model), seed
        self.n = whole_number(EvalConfig, "episodes", n, "n")
        ends = (eos_token_id,) if isinstance(eos_token_id, int) else tuple(eos_token_id)
        known = ends_of(model)
        if codec is not None:
            codec.add_ends((*known, *ends))
            known = codec.ends
        ends = ends or known
        named = [(object_name(function), function) for function in functions]
        self._judge = FunctionJudge(named, codec)
        self._how = Sampling(max_new_tokens, temperature, top_k, top_p, min_p, ends, pad_token_id)
        self._calls = 0

    def generate(self, prompts: Tensor | Sequence[Tensor]) -> Tensor:
        """The prompts `[B, P]`, each with its best completion behind it, `[B, P + T]`.

        Prompts of different lengths are rows of their own; the end of shorter ones is padding.
        """
        rows = rows_of(prompts)
        best, _ = self.sample(rows)
        return pad_sequence(
            [torch.cat([row, found]) for row, found in zip(rows, best, strict=True)],
            batch_first=True,
            padding_value=float(self._how.pad),
        )

    def sample(self, prompts: Tensor | Sequence[Tensor]) -> tuple[list[Tensor], Any]:
        """The best completion of each prompt, up to its end, and the rewards of all, float64 `[B, n]`."""
        rows = rows_of(prompts)
        many = [Prompt(row) for row in rows for _ in range(self.n)]
        drawn = Stream(self.seed, "best_of", self._calls)
        self._calls += 1
        shape = (len(many), self._how.max_new_tokens)
        uniforms = torch.from_numpy(drawn.uniform(shape[0] * shape[1]).reshape(shape))
        written = written_with(self.model, [prompt.ids for prompt in many], self._how, uniforms)
        worth = weighted_rewards(self._judge(many, written))
        chosen = best_rows(worth, self.n)
        if len(chosen) < len(rows):
            at = int(np.isnan(worth.reshape(-1, self.n)).all(1).argmax())
            raise RewardError(f"no completion of prompt {at} got a reward, expected one at least")
        completed = written.rows()
        return [completed[row] for row in chosen], worth.reshape(-1, self.n)
