"""A server as a model is asked: completions of prompts, and weights that are checked to have arrived."""

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

from rlox.configs.names import nearest
from rlox.errors import ConfigError, GenerationError, ShapeError, UnknownNameError
from rlox.llm.decoding import Completed, Sampling
from rlox.llm.models import TextModel
from rlox.llm.serving.channel import Channel
from rlox.llm.serving.dialects import DIALECTS, Written

__all__ = ["GenerationServer"]


class GenerationServer:
    """Completions by a vLLM, SGLang or text-generation-inference server.

    Parameters
    ----------
    kind : one of `DIALECTS`: vllm, sglang, tgi
    url : where it is; on this machine unless another one is named
    model : the name that it serves the model by (vllm)
    timeout, retries : seconds of a request, and how often one that failed is made again
    concurrency : requests at once; the server batches them
    decode : ids -> text, for servers that read text (tgi)
    key : sent as a bearer token
    most : bytes of an answer at most
    tolerance : how far a log-probability may be from the model's that learns; float32 servers agree to 1e-5,
        those of bfloat16 to about 0.05, which hides a small update

    Nothing that failed is half there: `write` returns all completions, or raises `GenerationError`.
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
        most: int = 64 << 20,
        tolerance: float = 1e-4,
    ) -> None:
        if kind not in DIALECTS:
            raise UnknownNameError(
                f"server {kind!r}: expected one of {', '.join(DIALECTS)}{nearest(str(kind), DIALECTS)}"
            )
        if concurrency < 1:
            raise ConfigError(f"concurrency={concurrency}: expected at least 1")
        self.channel = Channel(url, timeout, retries, most=most, key=key)
        self.version: int | None = None  # of the weights that it was seen to have
        self.holder: object = None  # whose weights they are
        self._dialect = DIALECTS[kind](self.channel, model, decode)
        self._concurrency, self.tolerance = concurrency, tolerance

    def write(
        self, prompts: Sequence[Tensor], n: int, how: Sampling, seeds: Sequence[int]
    ) -> Completed:
        """`n` completions of each prompt, those of a prompt one after the other, `[len(prompts) * n, T]`.

        Parameters
        ----------
        prompts : token ids `[P]` each
        n : completions of each
        how : temperature, ends and length; filters (`top_k`, `top_p`, `min_p`) are refused: what servers
            say of a token is then not its probability among all
        seeds : of each prompt
        """
        if (how.top_k, how.top_p, how.min_p) != (None, None, None):
            raise ConfigError(
                "top_k, top_p and min_p with a server: log-probabilities would not be those of all tokens; "
                "leave them out"
            )
        if not prompts or len(seeds) != len(prompts) or n < 1:
            raise ShapeError(
                f"{len(prompts)} prompts, {len(seeds)} seeds and n={n}: expected one of each at least"
            )

        def one(prompt: Tensor, seed: int) -> list[Written]:
            ids = [int(token) for token in prompt]
            found = self._dialect.write(ids, n, how, seed)
            if len(found) != n:
                raise GenerationError(
                    f"{self.channel.url} wrote {len(found)} completions of a prompt, {n} were asked for"
                )
            return [self._checked(written, how) for written in found]

        with ThreadPoolExecutor(min(self._concurrency, len(prompts))) as pool:
            groups = list(pool.map(one, prompts, seeds))
        return _completed([written for group in groups for written in group], how)

    def load(
        self, folder: Path, version: int, model: TextModel, prompt: Tensor, how: Sampling
    ) -> None:
        """Answer with the weights in `folder`, which are those of `model`, and see that it does.

        The server completes `prompt`; each of its tokens has to be as probable as `model` says. A server that
        answers 200 and has the weights of before is found so.
        """
        folder = Path(folder).absolute()
        if not any(folder.glob("*.safetensors")):
            raise ConfigError(
                f"{folder} has no *.safetensors, and weights are taken from nothing else"
            )
        self.version, self.holder = None, None
        self._dialect.load(folder)
        self.check(model, prompt, how)
        self.version = version

    def check(self, model: TextModel, prompt: Tensor, how: Sampling) -> float:
        """The largest difference of a log-probability to `model`'s; `GenerationError` above `tolerance`."""
        how = replace(how, max_new_tokens=min(how.max_new_tokens, 16))
        return self.compare(model, [prompt], self.write([prompt], 1, how, [0]), how)

    def compare(
        self, model: TextModel, prompts: Sequence[Tensor], written: Completed, how: Sampling
    ) -> float:
        """As `check`, of the first completions that were written, a prompt each."""
        rows = len(prompts)
        given = [prompt.cpu() for prompt in prompts], written.tokens[:rows], written.mask[:rows]
        with torch.no_grad():
            said = model.completion_log_probs(*given, how.temperature or 1.0)
        apart = float((said.cpu() - written.log_probs[:rows]).abs().max())
        if not apart <= self.tolerance:
            raise GenerationError(
                f"{self.channel.url} has other weights than the model that learns: a log-probability differs "
                f"by {apart:.4g}, expected at most {self.tolerance:g}. It may have answered without loading "
                "them, or says what was before the temperature (vLLM: --logprobs-mode processed_logprobs)"
            )
        return apart

    def close(self) -> None:
        """Close the connections."""
        self.channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _checked(self, written: Written, how: Sampling) -> Written:
        """The completion, if it can be one; a token that was lost on the way would be learned wrongly."""
        tokens, said = written.tokens, written.log_probs
        url, count = self.channel.url, len(tokens)
        if not all(isinstance(t, int) and not isinstance(t, bool) and t >= 0 for t in tokens):
            raise GenerationError(f"{url} says tokens {tokens[:8]}, expected ids")
        if len(said) != count or not all(_is_log_probability(value) for value in said):
            raise GenerationError(
                f"{url} says {count} tokens and log-probabilities {said[:4]}, expected one <= 0 for each"
            )
        ends = bool(tokens) and tokens[-1] in how.eos
        early = any(token in how.eos for token in tokens[:-1])
        if not 1 <= count <= how.max_new_tokens or early:
            raise GenerationError(
                f"{url} wrote {count} tokens{' with an end among them' if early else ''}, expected 1 to "
                f"{how.max_new_tokens} up to the first end"
            )
        if not ends and (count < how.max_new_tokens or not written.cut_off):
            raise GenerationError(
                f"{url} wrote {count} tokens without an end, and says that it was "
                f"{'cut off' if written.cut_off else 'done'}: some were lost"
            )
        return written


def _is_log_probability(value: Any) -> bool:
    return isinstance(value, int | float) and isfinite(value) and value <= 1e-6


def _completed(found: list[Written], how: Sampling) -> Completed:
    tokens = [torch.tensor(written.tokens) for written in found]
    lengths = torch.tensor([len(row) for row in tokens])
    padded = pad_sequence(tokens, batch_first=True, padding_value=float(how.pad))
    mask = torch.arange(padded.shape[1]) < lengths.unsqueeze(1)
    said = pad_sequence(
        [torch.tensor(w.log_probs, dtype=torch.float32) for w in found], batch_first=True
    )
    ended = torch.tensor([written.tokens[-1] in how.eos for written in found])
    return Completed(padded, mask, said, ended)
