"""The choice of `device=auto`: CUDA, if available, for runs that gain from it; else the CPU.

Small networks on vectors are faster on the CPU, where GPU calls would take longer than the computation
(docs/algorithms.md, On a GPU). So only runs that would use CUDA query torch for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlox.configs import RunConfig
from rlox.configs.env import is_text
from rlox.configs.offline import NO_ENV
from rlox.configs.text import TINY, TextAlgorithmConfig
from rlox.devices import torch_if_imported
from rlox.envs.failures import close_or_warn
from rlox.envs.make import EnvLike, uses_native, wrapped_factory
from rlox.envs.parts_codec import codec_of
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
LARGE_WIDTH = 1024  # hidden layers at least this wide make a network large
# Device files of GPU drivers (NVIDIA, WSL, AMD): without any of them there is no need to import torch.
DRIVER_FILES = ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")


@dataclass(frozen=True)
class Device:
    """The device of the networks, and why `auto` chose it.

    `reason` is empty for the CPU and for a requested device.
    """

    name: str
    reason: str = ""
    saved_name: str = ""  # the choice of `auto` when the run began, if not available now

    @property
    def message(self) -> str:
        """The choice in words; empty for a requested device."""
        return f"\n  device  {self.name}: {self.reason}" if self.reason else ""

    @property
    def name_to_save(self) -> str:
        """The device to resume on if available; empty for the CPU and for a requested device."""
        return self.saved_name or (self.name if self.reason and self.name != CPU else "")


def select_device(
    config: RunConfig, source: EnvLike | None = None, user_policy: Any = None, saved_name: str | None = None
) -> Device:
    """Return the device of a run; raise `ConfigError` if the requested one is not available.

    `source` is an environment in place of the configured one, `user_policy` a policy or model in place of the
    configured one, `saved_name` the choice of `auto` when the run began.
    """
    if config.device != AUTO:
        return Device(require_device(config.device))
    if saved_name is not None:
        if saved_name == CPU:
            return Device(CPU)
        if is_cuda_available():
            return Device(saved_name, "as when the run began")
        fallback_reason = (
            f"the run began on {saved_name}, which is not available here (results differ by rounding)"
        )
        log.warning("device=auto takes %s: %s", CPU, fallback_reason)
        return Device(CPU, fallback_reason, saved_name)
    if user_policy is not None:  # the user's policy stays where it is
        return Device(CPU)
    return resolve_auto_device(config, lambda: _has_images(config, source))


def saved_device(state: Mapping[str, Any]) -> str:
    """Return the saved choice of `auto`; the CPU, the only choice of earlier versions, is not saved."""
    return str(state.get("device", CPU))


def resolve_auto_device(config: RunConfig, has_images: Callable[[], bool]) -> Device:
    """Return the choice of `auto` for a new run; `has_images` says if its observations contain images."""
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
        return Device(require_device(CUDA), f"{reason}, and CUDA is available (device=cpu: the CPU)")
    except ConfigError as error:  # its memory may be full
        return Device(CPU, str(error))


def is_cuda_available() -> bool:
    """Whether torch can use CUDA here; torch is imported only if there is a driver."""
    if torch_if_imported() is None and not any(Path(path).exists() for path in DRIVER_FILES):
        return False
    import torch

    return torch.cuda.is_available()


def _may_have_images(config: RunConfig) -> bool:
    """Whether observations may contain images: environments in Python may, those in Rust do not."""
    return not (config.env.id == NO_ENV or is_text(config.env.id) or uses_native(config.env))


def _has_images(config: RunConfig, source: EnvLike | None) -> bool:
    """Whether a run's observations contain images, by making one of its environments."""
    env = wrapped_factory(config.env, source, training=True)()
    try:
        return bool(codec_of(env.observation_space, config.env.id).images)
    finally:
        if env is not source:
            close_or_warn(env, config.env.id)
