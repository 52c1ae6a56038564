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
from rlox.devices import torch_if_imported
from rlox.envs.failures import close_or_warn
from rlox.envs.make import EnvLike, uses_native, wrapped_factory
from rlox.envs.spaces import ObservationCodec
from rlox.errors import ConfigError
from rlox.training.setup import require_device

__all__ = [
    "AUTO",
    "CPU",
    "CUDA",
    "Device",
    "is_cuda_available",
    "resolve_auto_device",
    "saved_device",
    "select_device",
]

log = logging.getLogger("rlox.device")

AUTO, CPU, CUDA = "auto", "cpu", "cuda"
LARGE_WIDTH = 1024  # widths of hidden layers from which on a network counts as large
# What drivers of GPUs leave in a machine: NVIDIA's, WSL's, AMD's. Without them torch need not be imported.
DRIVER_FILES = ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")


@dataclass(frozen=True)
class Device:
    """Where networks are, and why `auto` took it: empty for the CPU, and where it was asked for."""

    name: str
    reason: str = ""
    saved_name: str = ""  # what `auto` took when the run began, where that is not here

    @property
    def message(self) -> str:
        """For people; nothing of what was asked for."""
        return f"\n  device  {self.name}: {self.reason}" if self.reason else ""

    @property
    def name_to_save(self) -> str:
        """What a run goes on with where that is there; empty for the CPU, and where it was asked for."""
        return self.saved_name or (self.name if self.reason and self.name != CPU else "")


def select_device(
    config: RunConfig, source: EnvLike | None = None, user_policy: Any = None, saved_name: str | None = None
) -> Device:
    """The device of a run; `ConfigError` where the one that is asked for is not there.

    `source` is an environment in place of the configured one, `user_policy` a policy or model in place of the
    configured one, `saved_name` what `auto` took when the run began.
    """
    if config.device != AUTO:
        return Device(require_device(config.device))
    if saved_name is not None:
        if saved_name == CPU:
            return Device(CPU)
        if is_cuda_available():
            return Device(saved_name, "as when the run began")
        fallback_reason = f"the run began on {saved_name}, which is not here (results differ by rounding)"
        log.warning("device=auto takes %s: %s", CPU, fallback_reason)
        return Device(CPU, fallback_reason, saved_name)
    if user_policy is not None:  # it is where the user has put it
        return Device(CPU)
    return resolve_auto_device(config, lambda: _has_images(config, source))


def saved_device(state: Mapping[str, Any]) -> str:
    """What `auto` took for a run with such a state: not said of the CPU, which it was in earlier versions."""
    return str(state.get("device", CPU))


def resolve_auto_device(config: RunConfig, has_images: Callable[[], bool]) -> Device:
    """What `auto` takes for a run that begins; `has_images` says whether its observations have some."""
    algo = config.algo
    if algo.is_native_only or algo.requests_native or algo.has_custom_policy:
        return Device(CPU)
    if isinstance(algo, TextAlgorithmConfig):
        size_reason = "" if config.model in (None, TINY) else "a language model"
    else:
        widest = algo.widest_hidden
        size_reason = f"layers {widest:,} wide" if widest >= LARGE_WIDTH else ""
    if not (size_reason or _may_have_images(config)) or not is_cuda_available():
        return Device(CPU)
    reason = size_reason or ("images to encode" if has_images() else "")
    if not reason:
        return Device(CPU)
    try:
        return Device(require_device(CUDA), f"{reason}, and CUDA is there (device=cpu: the CPU)")
    except ConfigError as error:  # all of its memory may be taken
        return Device(CPU, str(error))


def is_cuda_available() -> bool:
    """Whether torch computes with CUDA here; it is imported only where a driver is."""
    if torch_if_imported() is None and not any(Path(path).exists() for path in DRIVER_FILES):
        return False
    import torch

    return torch.cuda.is_available()


def _may_have_images(config: RunConfig) -> bool:
    """Whether an environment that Python steps may have images: those that run in Rust have none."""
    return not (config.env.id == NO_ENV or is_text(config.env.id) or uses_native(config.env))


def _has_images(config: RunConfig, source: EnvLike | None) -> bool:
    """Whether the observations of a run have images, by one environment of its kind."""
    env = wrapped_factory(config.env, source, training=True)()
    try:
        return bool(ObservationCodec.of(env.observation_space, config.env.id).images)
    finally:
        if env is not source:
            close_or_warn(env, config.env.id)
