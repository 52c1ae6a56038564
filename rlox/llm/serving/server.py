"""A generation server: completions of prompts, and weight updates that are verified."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from rlox.configs.name_suggestions import nearest
from rlox.errors import ConfigError, GenerationError, ShapeError, UnknownNameError
from rlox.llm.decoding import GeneratedTokens, Sampling
from rlox.llm.models import TextModel
from rlox.llm.serving.channel import Channel
from rlox.llm.serving.dialects import DIALECTS, ServerCompletion

__all__ = ["GenerationServer"]


class GenerationServer:
    """Completions by a vLLM, SGLang or text-generation-inference server.

    Parameters
    ----------
    kind : one of `DIALECTS`: vllm, sglang, tgi
    url : address of the server; by default port 8000 of this machine
    model : name under which the server serves the model (vllm)
    timeout, retries : seconds for a request, and retries of a failed one
    concurrency : concurrent requests; the server batches them
    decode : ids -> text, for servers that take text (tgi)
    key : sent as a bearer token
    max_bytes : maximum bytes of a reply
    tolerance : maximum difference of a log-probability from the trained model's; float32 servers agree to
        1e-5, bfloat16 servers to about 0.05, which hides a small update

    `generate` returns all completions or raises `GenerationError`; there are no partial results.
    """

    def __init__(
        self,
        kind: str,
        url: str = "http://127.0.0.1:8000",
        model: str = "default",
        *,
        timeout: float = 120.0,
        retries: int = 2,
        concurrency: int = 16,
        decode: Callable[[list[int]], str] | None = None,
        key: str | None = None,
        max_bytes: int = 64 << 20,
        tolerance: float = 1e-4,
    ) -> None:
        if kind not in DIALECTS:
            raise UnknownNameError(
                f"server {kind!r}: expected one of {', '.join(DIALECTS)}{nearest(str(kind), DIALECTS)}"
            )
        if concurrency < 1:
            raise ConfigError(f"concurrency={concurrency}: expected at least 1")
        self.channel = Channel(url, timeout, retries, max_bytes=max_bytes, key=key)
        self.version: int | None = None  # version of the verified weights on the server
        self.weights_owner: object = None  # owner of these weights
        self._dialect = DIALECTS[kind](self.channel, model, decode)
        self._concurrency, self.tolerance = concurrency, tolerance

    def generate(
        self, prompts: Sequence[Tensor], n: int, sampling: Sampling, seeds: Sequence[int]
    ) -> GeneratedTokens:
        """Generate `n` completions of each prompt, `[len(prompts) * n, T]`; those of a prompt are adjacent.

        Parameters
        ----------
        prompts : token ids `[P]` each
        n : completions per prompt
        sampling : temperature, EOS and length; filters (`top_k`, `top_p`, `min_p`) are rejected, because
            servers then return log-probabilities among the remaining tokens only
        seeds : one seed per prompt
        """
        if (sampling.top_k, sampling.top_p, sampling.min_p) != (None, None, None):
            raise ConfigError(
                "top_k, top_p and min_p with a server: log-probabilities would not be those of all tokens; "
                "leave them out"
            )
        if not prompts or len(seeds) != len(prompts) or n < 1:
            raise ShapeError(
                f"{len(prompts)} prompts, {len(seeds)} seeds and n={n}: expected one of each at least"
            )

        def generate_for_prompt(prompt: Tensor, seed: int) -> list[ServerCompletion]:
            ids = [int(token) for token in prompt]
            completions = self._dialect.generate(ids, n, sampling, seed)
            if len(completions) != n:
                raise GenerationError(
                    f"{self.channel.url} wrote {len(completions)} completions of a prompt, {n} were asked for"
                )
            return [self._check_completion(completion, sampling) for completion in completions]

        with ThreadPoolExecutor(min(self._concurrency, len(prompts))) as pool:
            groups = list(pool.map(generate_for_prompt, prompts, seeds))
        return _to_generated_tokens([completion for group in groups for completion in group], sampling)

    def load(self, folder: Path, version: int, model: TextModel, prompt: Tensor, sampling: Sampling) -> None:
        """Load the weights in `folder`, which are those of `model`, and verify them.

        The server completes `prompt`, and each token has to have the log-probability that `model` gives it.
        This detects a server that answers 200 but keeps its old weights.
        """
        folder = Path(folder).absolute()
        if not any(folder.glob("*.safetensors")):
            raise ConfigError(f"{folder} has no *.safetensors, and weights are loaded from no other file")
        self.version, self.weights_owner = None, None
        self._dialect.load(folder)
        self.check(model, prompt, sampling)
        self.version = version

    def check(self, model: TextModel, prompt: Tensor, sampling: Sampling) -> float:
        """Return the largest log-probability difference from `model`; `GenerationError` above `tolerance`."""
        sampling = replace(sampling, max_new_tokens=min(sampling.max_new_tokens, 16))
        return self.compare(model, [prompt], self.generate([prompt], 1, sampling, [0]), sampling)

    def compare(
        self,
        model: TextModel,
        prompts: Sequence[Tensor],
        generated_tokens: GeneratedTokens,
        sampling: Sampling,
    ) -> float:
        """As `check`, with the first `len(prompts)` rows of `generated_tokens`, one for each prompt."""
        rows = len(prompts)
        batch = (
            [prompt.cpu() for prompt in prompts],
            generated_tokens.tokens[:rows],
            generated_tokens.mask[:rows],
        )
        with torch.no_grad():
            model_log_probs = model.completion_log_probs(*batch, sampling.temperature or 1.0)
        largest_difference = float((model_log_probs.cpu() - generated_tokens.log_probs[:rows]).abs().max())
        if not largest_difference <= self.tolerance:
            raise GenerationError(
                f"{self.channel.url} has other weights than the model that learns: a log-probability differs "
                f"by {largest_difference:.4g}, expected at most {self.tolerance:g}. It may have answered "
                "without loading them, or it returns log-probabilities before the temperature (vLLM: "
                "start it with --logprobs-mode processed_logprobs)"
            )
        return largest_difference

    def close(self) -> None:
        """Close the connections."""
        self.channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_completion(self, completion: ServerCompletion, sampling: Sampling) -> ServerCompletion:
        """Return the completion; `GenerationError` if it is invalid, because lost tokens corrupt training."""
        tokens, log_probs = completion.tokens, completion.log_probs
        url, n_tokens = self.channel.url, len(tokens)
        if not all(isinstance(t, int) and not isinstance(t, bool) and t >= 0 for t in tokens):
            raise GenerationError(f"{url} returned tokens {tokens[:8]}, expected token ids")
        if len(log_probs) != n_tokens or not all(_is_log_probability(value) for value in log_probs):
            raise GenerationError(
                f"{url} returned {n_tokens} tokens and log-probabilities {log_probs[:4]}, expected one <= 0 "
                "for each token"
            )
        has_eos = bool(tokens) and tokens[-1] in sampling.eos
        has_early_eos = any(token in sampling.eos for token in tokens[:-1])
        if not 1 <= n_tokens <= sampling.max_new_tokens or has_early_eos:
            raise GenerationError(
                f"{url} wrote {n_tokens} tokens{' with an end among them' if has_early_eos else ''}, "
                f"expected 1 to {sampling.max_new_tokens} up to the first end"
            )
        if not has_eos and (n_tokens < sampling.max_new_tokens or not completion.is_truncated):
            raise GenerationError(
                f"{url} wrote {n_tokens} tokens without an end, and reports the completion as "
                f"{'cut off' if completion.is_truncated else 'done'}: some were lost"
            )
        return completion


def _is_log_probability(value: Any) -> bool:
    return isinstance(value, int | float) and isfinite(value) and value <= 1e-6


def _to_generated_tokens(completions: list[ServerCompletion], sampling: Sampling) -> GeneratedTokens:
    tokens = [torch.tensor(completion.tokens) for completion in completions]
    lengths = torch.tensor([len(row) for row in tokens])
    padded = pad_sequence(tokens, batch_first=True, padding_value=float(sampling.pad))
    mask = torch.arange(padded.shape[1]) < lengths.unsqueeze(1)
    log_probs = pad_sequence(
        [torch.tensor(w.log_probs, dtype=torch.float32) for w in completions], batch_first=True
    )
    has_ended = torch.tensor([completion.tokens[-1] in sampling.eos for completion in completions])
    return GeneratedTokens(padded, mask, log_probs, has_ended)
