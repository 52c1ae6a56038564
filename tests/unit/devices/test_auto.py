"""Tests that `device=auto` selects CUDA if it is there and makes the run faster, else silently the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from helpers.fake_device import DEVICE, SyncRecorder, install_fake_device
from helpers.observation_probes import EYE
from helpers.small_ppo import SMALL_PPO

from rlox.algorithms import PPO
from rlox.configs import RunConfig, make_run
from rlox.training import device
from rlox.training.device import CPU, Device, is_cuda_available, select_device

WHY = "and CUDA is available (device=cpu: the CPU)"


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that the machine has CUDA."""
    monkeypatch.setattr(device, "is_cuda_available", lambda: True)
    monkeypatch.setattr(device, "require_device", lambda name: name)


def run(algo: dict[str, Any], env: str = "CartPole-v1", **rest: Any) -> RunConfig:
    return make_run({"algo": algo, "env": {"id": env}, **rest})


GAINS = [
    (run({"name": "ppo"}), ""),
    (run({"name": "sac"}, "Pendulum-v1"), ""),
    (run({"name": "ppo", "net_arch": [1023]}), ""),
    (run({"name": "ppo", "net_arch": [64, 1024]}), "layers 1,024 wide"),
    (run({"name": "sac", "critic_net_arch": [2048]}, "Pendulum-v1"), "layers 2,048 wide"),
    (run({"name": "ppo", "net_arch": [2048], "backend": "native"}), ""),
    (run({"name": "ppo", "policy": "somewhere:Policy", "net_arch": [2048]}), ""),
    (run({"name": "dqn"}, EYE), "images to encode"),
    (run({"name": "sft"}, "text", task="arithmetic"), ""),  # a tiny model
    (run({"name": "sft"}, "text", task="arithmetic", model="there"), "a language model"),
]


@pytest.mark.usefixtures("cuda")
@pytest.mark.parametrize(("config", "gains"), GAINS)
def test_device_auto_selects_cuda_where_it_is_faster_and_gives_the_reason(
    config: RunConfig, gains: str
) -> None:
    expected = Device("cuda", f"{gains}, {WHY}") if gains else Device("cpu")
    assert select_device(config) == expected


@pytest.mark.parametrize("config", [config for config, gains in GAINS if gains])
def test_device_auto_selects_the_cpu_silently_without_cuda(
    config: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "is_cuda_available", lambda: False)
    assert select_device(config) == Device(CPU)
    assert select_device(config).message == ""


@pytest.mark.usefixtures("cuda")
def test_a_policy_of_ones_own_stays_where_it_is() -> None:
    assert select_device(run({"name": "ppo", "net_arch": [2048]}), user_policy=object()) == Device(CPU)


def test_is_cuda_available_imports_no_torch_without_a_driver(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(device, "torch_if_imported", lambda: None)
    monkeypatch.setattr(device, "DRIVER_FILES", (str(tmp_path / "none"),))
    assert is_cuda_available() is False


@pytest.mark.usefixtures("cuda")
def test_cuda_that_cannot_be_used_leaves_the_cpu_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(name: str) -> str:
        raise device.ConfigError(f"device={name} is not available here: out of memory")

    monkeypatch.setattr(device, "require_device", full)
    found = select_device(run({"name": "ppo", "net_arch": [2048]}))
    assert found == Device(CPU, "device=cuda is not available here: out of memory")


def test_a_run_goes_on_where_auto_had_put_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = {**SMALL_PPO, "net_arch": (8,), "backend": "torch"}
    with monkeypatch.context() as patch:
        install_fake_device(patch)
        patch.setattr(device, "is_cuda_available", lambda: True)
        patch.setattr(device, "LARGE_WIDTH", 8)
        with SyncRecorder():
            large = PPO("CartPole-v1", seed=0, **options)
            assert large.device == Device(str(DEVICE), f"layers 8 wide, {WHY}")
            assert next(large.policy.parameters()).device == DEVICE
            large.save(tmp_path / "large")
        large.close()
    again = PPO.from_checkpoint(tmp_path / "large")  # as on a machine without the device
    missing = f"the run began on {DEVICE}, which is not available here (results differ by rounding)"
    assert again.device == Device(CPU, missing, str(DEVICE))
    (told,) = caplog.records
    assert (told.levelname, told.getMessage()) == ("WARNING", f"device=auto takes cpu: {missing}")
    again.save(tmp_path / "on_the_cpu")
    again.close()
    with monkeypatch.context() as patch:
        install_fake_device(patch)
        patch.setattr(device, "is_cuda_available", lambda: True)
        with SyncRecorder():
            back = PPO.from_checkpoint(tmp_path / "on_the_cpu")
            assert back.device == Device(str(DEVICE), "as when the run began")
            assert next(back.policy.parameters()).device == DEVICE
        back.close()
    small = PPO("CartPole-v1", seed=0, **options)
    small.save(tmp_path / "small")
    small.close()
    monkeypatch.setattr(device, "is_cuda_available", lambda: True)
    monkeypatch.setattr(device, "LARGE_WIDTH", 8)
    kept = PPO.from_checkpoint(tmp_path / "small")
    assert kept.device == Device(CPU)
    kept.close()


@pytest.mark.usefixtures("cuda")
def test_select_device_inspects_a_given_environment_and_leaves_it_open() -> None:
    env = gym.make(EYE)
    found = select_device(run({"name": "dqn"}, "<Eye>"), source=env)
    assert found.reason == f"images to encode, {WHY}"
    env.reset(seed=0)
