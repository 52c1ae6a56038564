"""Who writes completions to learn from: the model in this process, or a server that has its weights."""

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
from rlox.llm.decoding import Completed, Sampling, completions
from rlox.llm.pretrained import save_model
from rlox.llm.serving import GenerationServer

__all__ = ["ROWS", "LocalWriter", "ServedWriter", "Writer", "written_with"]

ROWS = 512  # completions that are written side by side at most


class Writer(Protocol):
    """Completions of prompts that have numbers in a run."""

    exact: bool  # whether they are a function of weights, seed and number alone

    def __call__(
        self, prompts: list[Tensor], n: int, numbers: Sequence[int], updates: int
    ) -> Completed:
        """`n` of each prompt, those of a prompt one after the other, after so many updates of the run."""

    def close(self) -> None:
        """Release what it holds."""


class LocalWriter:
    """The model in this process; what is drawn for prompt k is a function of the seed and k."""

    exact = True

    def __init__(self, model: TextModel, how: Sampling, seed: int) -> None:
        self._model, self._how, self._seed = model, how, seed

    def __call__(
        self, prompts: list[Tensor], n: int, numbers: Sequence[int], updates: int
    ) -> Completed:
        """By the weights as they are."""
        longest = self._how.max_new_tokens
        drawn = [Stream(self._seed, "tokens", k).uniform(n * longest) for k in numbers]
        uniforms = torch.from_numpy(np.stack(drawn).reshape(-1, longest))
        rows = [prompt for prompt in prompts for _ in range(n)]
        return written_with(self._model, rows, self._how, uniforms)

    def close(self) -> None:
        """Nothing to release."""


class ServedWriter:
    """A server, which is given the weights when its own are more than `staleness` updates old.

    They go by a folder that both see. What it says of its tokens is compared with the model each time.
    `ours`: the server's connections are closed with this.
    """

    exact = False

    def __init__(
        self,
        server: GenerationServer,
        model: TextModel,
        how: Sampling,
        seed: int,
        staleness: int = 0,
        ours: bool = False,
    ) -> None:
        self._server, self._model, self._how, self._seed = server, model, how, seed
        self._staleness, self._ours = staleness, ours
        self._folder: tempfile.TemporaryDirectory[str] | None = None  # where weights go by

    def __call__(
        self, prompts: list[Tensor], n: int, numbers: Sequence[int], updates: int
    ) -> Completed:
        """By weights that are new enough."""
        has = self._server.version if self._server.holder is self else None
        if has is None or not 0 <= updates - has <= self._staleness:
            self._sync(updates, prompts[0])
        seeds = [int(Stream(self._seed, "tokens", k).uniform(1)[0] * 2**31) for k in numbers]
        written = self._server.write(prompts, n, self._how, seeds)
        if self._server.version == updates:  # another run may have given it others meanwhile
            self._server.compare(self._model, prompts[:1] * n, written, self._how)
        return written

    def _sync(self, updates: int, prompt: Tensor) -> None:
        self._folder = self._folder or tempfile.TemporaryDirectory(prefix="rlox-weights-")
        folder = Path(self._folder.name) / f"update-{updates}"
        save_model(self._model.module, folder, self._how.eos, self._how.pad)
        self._server.load(folder, updates, self._model, prompt, self._how)
        self._server.holder = self
        for older in Path(self._folder.name).iterdir():
            if older != folder:
                shutil.rmtree(older)

    def close(self) -> None:
        """Remove the weights; close what was opened here."""
        if self._folder is not None:
            self._folder.cleanup()
        if self._ours:
            self._server.close()


def written_with(
    model: TextModel, prompts: list[Tensor], how: Sampling, uniforms: Tensor | None
) -> Completed:
    """As `completions`, so many side by side that memory holds their caches; on the CPU."""
    parts = []
    for at in range(0, len(prompts), ROWS):
        there = [prompt.to(model.device) for prompt in prompts[at : at + ROWS]]
        drawn = None if uniforms is None else uniforms[at : at + ROWS]
        parts.append(completions(model, there, how, drawn).cpu())
    return parts[0] if len(parts) == 1 else _joined(parts, how.pad)


def _joined(parts: list[Completed], pad: int) -> Completed:
    """All rows, as wide as the widest."""
    width = max(part.tokens.shape[1] for part in parts)

    def wide(of: Tensor, value: float) -> Tensor:
        return torch.nn.functional.pad(of, (0, width - of.shape[1]), value=value)

    return Completed(
        torch.cat([wide(part.tokens, pad) for part in parts]),
        torch.cat([wide(part.mask, False) for part in parts]),
        torch.cat([wide(part.log_probs, 0.0) for part in parts]),
        torch.cat([part.ended for part in parts]),
    )
