"""Devices on which the tests of this folder compute: the CPU, a pretended device and a GPU."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from contract.specs import AlgorithmSpec
from helpers.fake_device import DEVICE, SyncRecorder, install_fake_device

from rlox.optim import Optimizer

STEP = "a step of an optimizer"
WAITED = "called a synchronizing CUDA operation"  # the words of torch's sync debug mode
GPU = torch.cuda.is_available()


@dataclass(frozen=True)
class Place:
    """A device, and whether its numbers equal the CPU's."""

    name: str
    device: torch.device
    watch: SyncRecorder | None = None

    @property
    def option(self) -> str:
        """Return the value for `device=...`."""
        return "cpu" if self.name == "cpu" else "cuda"

    def rounds_as_the_cpu(self, algorithm: str) -> bool:
        """Return whether its numbers equal the CPU's; its recurrent and attention kernels differ."""
        own = ("recurrent_ppo", "sft", "grpo", "rloo", "dpo", "online_dpo")
        return self.name == "cpu" or (self.name == "pretended" and algorithm not in own)

    def make(self, spec: AlgorithmSpec, case: str, **options: Any) -> Any:
        """Make the façade of a case on this device."""
        return spec.make(case, device=self.option, **options)

    @contextmanager
    def watched(self) -> Iterator[list[str]]:
        """Yield a list that has the host's waits in the block, and each `STEP`, after the block's end."""
        found: list[str] = []
        step = Optimizer.step

        def marked(optimizer: Optimizer) -> None:
            warnings.warn(STEP, stacklevel=2)
            if self.watch is not None:
                self.watch.waits.append(STEP)
            step(optimizer)

        with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            patch.setattr(Optimizer, "step", marked)
            if self.watch is not None:
                self.watch.waits.clear()
            with _synchronising() if self.name == "cuda" else nullcontext():
                yield found
        texts = [str(warning.message) for warning in told]
        known = [text for text in texts if text == STEP or WAITED in text]
        found += known if self.watch is None else self.watch.waits


@contextmanager
def _synchronising() -> Iterator[None]:
    """Make torch warn of every operation that makes the host wait for the GPU."""
    torch.cuda.set_sync_debug_mode("warn")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def _gpu(name: str) -> Any:
    missing = pytest.mark.skipif(not GPU, reason="no GPU here: torch.cuda.is_available() is False")
    return pytest.param(name, marks=missing) if name == "cuda" else name


PLACES = [_gpu(name) for name in ("cpu", "pretended", "cuda")]
OTHER_DEVICES = PLACES[1:]
WHERE_GENERATORS_ARE = PLACES[2:]


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """Yield each device in turn; on a GPU without the reduced precision of TF32."""
    if request.param == "pretended":
        install_fake_device(monkeypatch)
        with SyncRecorder() as watch:
            yield Place("pretended", DEVICE, watch)
    elif request.param == "cuda":
        with torch.backends.cudnn.flags(allow_tf32=False):
            yield Place("cuda", torch.device("cuda", torch.cuda.current_device()))
    else:
        yield Place("cpu", torch.device("cpu"))
