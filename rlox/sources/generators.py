"""Generators of completions: the model in this process, or a server with a copy of its weights."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from rlox._core import Stream
from rlox.llm import TextModel
from rlox.llm.decoding import GeneratedTokens, Sampling, generate_completions
from rlox.llm.serving import GenerationServer
from rlox.llm.transformers_files import save_model

__all__ = ["MAX_ROWS", "CompletionGenerator", "LocalGenerator", "ServerGenerator", "generate_in_batches"]

MAX_ROWS = 512  # most completions that are generated in parallel


class CompletionGenerator(Protocol):
    """Generates completions of prompts; each prompt of a run has a number."""

    is_exact: bool  # whether completions depend only on the weights, the seed and the prompt's number

    def __call__(
        self, prompts: list[Tensor], n: int, numbers: Sequence[int], updates: int
    ) -> GeneratedTokens:
        """Generate `n` completions of each prompt, grouped by prompt, after `updates` updates of the run."""

    def close(self) -> None:
        """Release its resources."""


class LocalGenerator:
    """The model in this process; the random numbers for prompt k are a function of the seed and k."""

    is_exact = True

    def __init__(self, model: TextModel, sampling: Sampling, seed: int) -> None:
        self._model, self._sampling, self._seed = model, sampling, seed

    def __call__(
        self, prompts: list[Tensor], n: int, numbers: Sequence[int], updates: int
    ) -> GeneratedTokens:
        """Generate with the current weights."""
        max_new_tokens = self._sampling.max_new_tokens
        draws = [Stream(self._seed, "tokens", k).uniform(n * max_new_tokens) for k in numbers]
        uniforms = torch.from_numpy(np.stack(draws).reshape(-1, max_new_tokens))
        rows = [prompt for prompt in prompts for _ in range(n)]
        return generate_in_batches(self._model, rows, self._sampling, uniforms)

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


class ServerGenerator:
    """A generation server, which gets new weights when those it has are over `staleness` updates old.

    Weights are transferred through a folder that both processes can read. The server's log-probabilities are
    compared with the model's after each call with current weights. With `owns_server`, `close` also closes
    the server's connections.
    """

    is_exact = False

    def __init__(
        self,
        server: GenerationServer,
        model: TextModel,
        sampling: Sampling,
        seed: int,
        staleness: int = 0,
        owns_server: bool = False,
    ) -> None:
        self._server, self._model, self._sampling, self._seed = server, model, sampling, seed
        self._staleness, self._owns_server = staleness, owns_server
        self._folder: tempfile.TemporaryDirectory[str] | None = None  # for the transfer of weights

    def __call__(
        self, prompts: list[Tensor], n: int, numbers: Sequence[int], updates: int
    ) -> GeneratedTokens:
        """Generate with weights that are at most `staleness` updates old."""
        server_version = self._server.version if self._server.weights_owner is self else None
        if server_version is None or not 0 <= updates - server_version <= self._staleness:
            self._sync(updates, prompts[0])
        seeds = [int(Stream(self._seed, "tokens", k).uniform(1)[0] * 2**31) for k in numbers]
        generated_tokens = self._server.generate(prompts, n, self._sampling, seeds)
        if self._server.version == updates:  # not for stale weights, nor for those of another run
            self._server.compare(self._model, prompts[:1] * n, generated_tokens, self._sampling)
        return generated_tokens

    def _sync(self, updates: int, prompt: Tensor) -> None:
        self._folder = self._folder or tempfile.TemporaryDirectory(prefix="rlox-weights-")
        folder = Path(self._folder.name) / f"update-{updates}"
        save_model(self._model.module, folder, self._sampling.eos, self._sampling.pad)
        self._server.load(folder, updates, self._model, prompt, self._sampling)
        self._server.weights_owner = self
        for old_folder in Path(self._folder.name).iterdir():
            if old_folder != folder:
                shutil.rmtree(old_folder)

    def close(self) -> None:
        """Remove the weights folder; close the server if it is owned."""
        if self._folder is not None:
            self._folder.cleanup()
        if self._owns_server:
            self._server.close()


def generate_in_batches(
    model: TextModel, prompts: list[Tensor], sampling: Sampling, uniforms: Tensor | None
) -> GeneratedTokens:
    """Like `generate_completions`, in batches whose caches fit into memory; results are on the CPU."""
    parts = []
    for at in range(0, len(prompts), MAX_ROWS):
        device_prompts = [prompt.to(model.device) for prompt in prompts[at : at + MAX_ROWS]]
        draws = None if uniforms is None else uniforms[at : at + MAX_ROWS]
        parts.append(generate_completions(model, device_prompts, sampling, draws).cpu())
    return parts[0] if len(parts) == 1 else _concat_completions(parts, sampling.pad)


def _concat_completions(parts: list[GeneratedTokens], pad: int) -> GeneratedTokens:
    """Concatenate all rows, padded to the widest."""
    width = max(part.tokens.shape[1] for part in parts)

    def pad_to_width(tensor: Tensor, value: float) -> Tensor:
        return torch.nn.functional.pad(tensor, (0, width - tensor.shape[1]), value=value)

    return GeneratedTokens(
        torch.cat([pad_to_width(part.tokens, pad) for part in parts]),
        torch.cat([pad_to_width(part.mask, False) for part in parts]),
        torch.cat([pad_to_width(part.log_probs, 0.0) for part in parts]),
        torch.cat([part.has_ended for part in parts]),
    )
