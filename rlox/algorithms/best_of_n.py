"""BestOfN: best of several completions (Stiennon et al. 2020, arXiv:2009.01325), without training."""

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
from rlox.algorithms.text.facade import RewardArgument, as_reward_functions
from rlox.configs import EvalConfig
from rlox.configs.check import check_integer
from rlox.configs.params import object_name
from rlox.errors import ConfigError, RewardError
from rlox.llm import Sampling, TextModel
from rlox.llm.advantages import weighted_rewards
from rlox.llm.codecs import Tokenizer
from rlox.llm.completion_rewards import FunctionReward
from rlox.llm.prompts import Prompt, parse_token_rows
from rlox.llm.transformers_files import eos_ids_of, is_tokenizer, load_model
from rlox.sources.generators import generate_in_batches
from rlox.training.text_evaluation import best_rows

__all__ = ["BestOfN"]


class BestOfN:
    """A sampler that returns, of `n` completions per prompt, the first one with the highest reward.

    Parameters
    ----------
    model : a module as in `GRPO`, or the folder of a model
    reward_fn : as in `GRPO`; the rewards of several functions are added
    n : number of completions per prompt
    max_new_tokens : maximum length of a completion
    temperature, top_k, top_p, min_p : sampling settings
    eos_token_id : tokens that end a completion; if empty, those of the model and its tokenizer
    pad_token_id : token that fills rows after the end of a completion
    seed : seed of the sampling; each call of `generate` draws new completions
    """

    def __init__(
        self,
        model: nn.Module | str | PathLike[str],
        reward_fn: RewardArgument,
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
        functions = as_reward_functions(reward_fn)
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
        self.n = check_integer(EvalConfig, "episodes", n, "n")
        eos_ids = (eos_token_id,) if isinstance(eos_token_id, int) else tuple(eos_token_id)
        model_eos_ids = eos_ids_of(model)
        if codec is not None:
            codec.add_eos_ids((*model_eos_ids, *eos_ids))
            model_eos_ids = codec.eos_ids
        eos_ids = eos_ids or model_eos_ids
        named_functions = [(object_name(function), function) for function in functions]
        self._reward_function = FunctionReward(named_functions, codec)
        self._sampling = Sampling(max_new_tokens, temperature, top_k, top_p, min_p, eos_ids, pad_token_id)
        self._n_calls = 0

    def generate(self, prompts: Tensor | Sequence[Tensor]) -> Tensor:
        """Return the prompts `[B, P]`, each followed by its best completion, `[B, P + T]`.

        Prompts of different lengths come as a sequence of rows; shorter rows are padded at the end.
        """
        rows = parse_token_rows(prompts)
        completions, _ = self.sample(rows)
        return pad_sequence(
            [torch.cat([row, completion]) for row, completion in zip(rows, completions, strict=True)],
            batch_first=True,
            padding_value=float(self._sampling.pad),
        )

    def sample(self, prompts: Tensor | Sequence[Tensor]) -> tuple[list[Tensor], Any]:
        """Return each prompt's best completion, up to its end, and all rewards, float64 `[B, n]`."""
        rows = parse_token_rows(prompts)
        repeated_prompts = [Prompt(row) for row in rows for _ in range(self.n)]
        stream = Stream(self.seed, "best_of", self._n_calls)
        self._n_calls += 1
        shape = (len(repeated_prompts), self._sampling.max_new_tokens)
        uniforms = torch.from_numpy(stream.uniform(shape[0] * shape[1]).reshape(shape))
        generated_tokens = generate_in_batches(
            self.model, [prompt.ids for prompt in repeated_prompts], self._sampling, uniforms
        )
        rewards = weighted_rewards(self._reward_function(repeated_prompts, generated_tokens))
        best_indices = best_rows(rewards, self.n)
        if len(best_indices) < len(rows):
            prompt_index = int(np.isnan(rewards.reshape(-1, self.n)).all(1).argmax())
            raise RewardError(f"no completion of prompt {prompt_index} got a reward, expected at least one")
        rows_of_tokens = generated_tokens.token_rows()
        return [rows_of_tokens[row] for row in best_indices], rewards.reshape(-1, self.n)
