"""Which device `device=auto` takes: CUDA for what gains from it, where there is CUDA; else the CPU.

Small networks of vectors are faster on the CPU, where calls of a GPU would take longer than what they compute
(docs/algorithms.md, On a GPU). So torch is asked for CUDA only by runs that would use it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlox.configs import RunConfig
from rlox.configs.offline import NO_ENV
from rlox.configs.text import TINY, TextAlgorithmConfig, is_text
from rlox.devices import loaded_torch
from rlox.envs.failures import close_or_warn
from rlox.envs.make import EnvSource, single_factory, uses_native
from rlox.envs.spaces import ObservationCodec
from rlox.errors import ConfigError
from rlox.training.setup import usable_device

__all__ = [
    "AUTO",
    "CPU",
    "CUDA",
    "Device",
    "cuda_is_there",
    "device_for",
    "device_of_auto",
    "saved_device",
]

log = logging.getLogger("rlox.device")

AUTO, CPU, CUDA = "auto", "cpu", "cuda"
WIDE = 1024  # widths of hidden layers from which on a network counts as large
# What drivers of GPUs leave in a machine: NVIDIA's, WSL's, AMD's. Without them torch need not be imported.
DRIVERS = ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")


@dataclass(frozen=True)
class Device:
    """Where networks are, and why `auto` took it: empty for the CPU, and where it was asked for."""

    name: str
    reason: str = ""
    before: str = ""  # what `auto` took when the run began, where that is not here

    @property
    def line(self) -> str:
        """For people; nothing of what was asked for."""
        return f"\n  device  {self.name}: {self.reason}" if self.reason else ""

    @property
    def kept(self) -> str:
        """What a run goes on with where that is there; empty for the CPU, and where it was asked for."""
        return self.before or (self.name if self.reason and self.name != CPU else "")


def device_for(
    config: RunConfig, source: EnvSource | None = None, own: Any = None, kept: str | None = None
) -> Device:
    """The device of a run; `ConfigError` where the one that is asked for is not there.

    `source` is an environment in place of the configured one, `own` a policy or model in place of the
    configured one, `kept` what `auto` took when the run began.
    """
    if config.device != AUTO:
        return Device(usable_device(config.device))
    if kept is not None:
        if kept == CPU:
            return Device(CPU)
        if cuda_is_there():
            return Device(kept, "as when the run began")
        missing = f"the run began on {kept}, which is not here (results differ by rounding)"
        log.warning("device=auto takes %s: %s", CPU, missing)
        return Device(CPU, missing, kept)
    if own is not None:  # it is where the user has put it
        return Device(CPU)
    return device_of_auto(config, lambda: _has_images(config, source))


def saved_device(state: Mapping[str, Any]) -> str:
    """What `auto` took for a run with such a state: not said of the CPU, which it was in earlier versions."""
    return str(state.get("device", CPU))


def device_of_auto(config: RunConfig, images: Callable[[], bool]) -> Device:
    """What `auto` takes for a run that begins; `images` says whether its observations have some."""
    algo = config.algo
    if algo.native_only or algo.asks_native or algo.own_policy:
        return Device(CPU)
    if isinstance(algo, TextAlgorithmConfig):
        large = "" if config.model in (None, TINY) else "a language model"
    else:
        widest = algo.widest_hidden
        large = f"layers {widest:,} wide" if widest >= WIDE else ""
    if not (large or _may_see_images(config)) or not cuda_is_there():
        return Device(CPU)
    gains = large or ("images to encode" if images() else "")
    if not gains:
        return Device(CPU)
    try:
        return Device(usable_device(CUDA), f"{gains}, and CUDA is there (device=cpu: the CPU)")
    except ConfigError as error:  # all of its memory may be taken
        return Device(CPU, str(error))


def cuda_is_there() -> bool:
    """Whether torch computes with CUDA here; it is imported only where a driver is."""
    if loaded_torch() is None and not any(Path(path).exists() for path in DRIVERS):
        return False
    import torch

    return torch.cuda.is_available()


def _may_see_images(config: RunConfig) -> bool:
    """Whether an environment that Python steps may have images: those that run in Rust have none."""
    return not (config.env.id == NO_ENV or is_text(config.env.id) or uses_native(config.env))


def _has_images(config: RunConfig, source: EnvSource | None) -> bool:
    """Whether the observations of a run have images, by one environment of its kind."""
    env = single_factory(config.env, source, training=True)()
    try:
        return bool(ObservationCodec.of(env.observation_space, config.env.id).images)
    finally:
        if env is not source:
            close_or_warn(env, config.env.id)
