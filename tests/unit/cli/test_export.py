"""Tests of `rlox export`."""

from __future__ import annotations

import builtins
import json
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from helpers.cli import TINY, Cli, only_run
from safetensors import safe_open

from rlox.algorithms.ppo import PPO
from rlox.export import build_exported_policy, safetensors_bytes
from rlox.extras import install_command


def test_the_policy_of_a_run_is_written_into_its_folder(cli: Cli, trained: Path) -> None:
    result = cli("export", str(trained))
    assert result.code == 0, result.err
    folder = trained / "export"
    assert result.out == (
        "ppo on CartPole-v1, checkpoint step-000000000256\n"
        f"  file    {folder / 'policy.safetensors'}\n"
        f"  file    {folder / 'policy.json'}\n"
    )
    about = json.loads((folder / "policy.json").read_text())
    written = (folder / "policy.safetensors").read_bytes()
    assert about["sha256"] == {"policy.safetensors": sha256(written).hexdigest()}
    assert (about["checkpoint"], about["env"]) == ("step-000000000256", "CartPole-v1")
    with safe_open(folder / "policy.safetensors", "numpy") as held:
        told = json.loads(held.metadata()["rlox"])
    assert about == {**told, "sha256": about["sha256"]}


def test_rlox_export_writes_the_policy_of_the_named_checkpoint_to_the_out_folder(
    cli: Cli, tmp_path: Path
) -> None:
    assert cli("train", *TINY, "run_root=runs", "checkpoint.every=128").code == 0
    run = only_run(tmp_path / "runs")
    first = "step-000000000128"
    result = cli("export", f"run={run}", f"checkpoint={first}", "out=a/b = [c]")
    assert result.code == 0, result.err
    loaded = PPO.from_checkpoint(run / "checkpoints" / first, replay=False)
    with closing(loaded) as algorithm:
        told = {"checkpoint": first, "rlox": "0.1.0"}
        expected = safetensors_bytes(build_exported_policy(algorithm, told))
    assert (tmp_path / "a/b = [c]/policy.safetensors").read_bytes() == expected
    assert cli("export", f"run={run}", "out=last").code == 0
    assert (tmp_path / "last/policy.safetensors").read_bytes() != expected
    assert not (run / "export").exists()


def test_rlox_export_writes_an_onnx_policy_and_its_numerical_difference(cli: Cli, trained: Path) -> None:
    pytest.importorskip("onnx", reason="needs the extra onnx")
    pytest.importorskip("onnxruntime", reason="needs the extra onnx")
    assert cli("export", str(trained), "format=all").code == 0
    about = json.loads((trained / "export/policy.json").read_text())
    assert 0 <= about["onnx_difference"] <= 1e-5
    assert set(about["sha256"]) == {"policy.safetensors", "policy.onnx"}
    result = cli("export", str(trained), "format=onnx", "out=alone")
    assert sorted(p.name for p in Path("alone").iterdir()) == ["policy.json", "policy.onnx"]
    assert "policy.onnx" in result.out


def test_rlox_export_without_onnx_names_the_command_that_installs_it(
    cli: Cli, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **options: Any) -> Any:
        if name.startswith("onnx"):
            raise ModuleNotFoundError(f"No module named {name!r}")
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    result = cli("export", str(trained), "format=all")
    assert result.code == 2
    assert install_command("onnx") in result.err
    assert len(result.err.strip().splitlines()) == 1
    assert not (trained / "export").exists()


def test_rlox_export_refuses_a_recurrent_policy_and_writes_nothing(cli: Cli, tmp_path: Path) -> None:
    recurrent = [option for option in TINY if "batch_size" not in option]
    assert cli("train", "algo=recurrent_ppo", *recurrent, "run_root=runs").code == 0
    run = only_run(tmp_path / "runs")
    result = cli("export", str(run))
    assert result.code == 2
    assert "the policy has a memory, expected one network of linear layers" in result.err
    assert not (run / "export").exists()


def test_a_run_whose_folder_names_code_has_to_be_trusted(cli: Cli, trained: Path) -> None:
    config = trained / "config.yaml"
    config.write_text(config.read_text().replace("id: CartPole-v1", "id: my_own:Env-v0"))
    result = cli("export", str(trained))
    assert result.code == 2
    assert "my_own" in result.err
    assert result.err.endswith(f"if it is yours: rlox export {trained} trust=true\n")
