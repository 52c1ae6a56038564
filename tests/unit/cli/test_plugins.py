"""Tests that rlox finds plugins by name, imports only a named one, and lets none take an existing name."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
import yaml
from helpers.cli import TINY, Cli, assert_explained, only_run
from helpers.packages import EXAMPLE, EXAMPLE_POINTS, Install, write_package

from rlox import plugins
from rlox.algorithms import ALGORITHMS
from rlox.errors import ConfigError
from rlox.presets import preset_options
from rlox_cli.runs.run_folder import read_config

VPG = (
    "algo=vpg",
    "tuned=null",
    "total_steps=256",
    "algo.n_steps=32",
    "env.n_envs=4",
    "eval.episodes=3",
)
MARKED = "raise RuntimeError('imported')\n"  # an import of this module raises

ENVS = """
import gymnasium as gym
import numpy as np

class Coin(gym.Env):
    observation_space = gym.spaces.Box(-1.0, 1.0, (2,))
    action_space = gym.spaces.Discrete(2)
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}
    def step(self, action):
        return np.zeros(2, np.float32), float(action == 1), True, False, {}

class Doubled(gym.RewardWrapper):
    def __init__(self, env, factor=2.0):
        super().__init__(env)
        self.factor = factor
    def reward(self, reward):
        return self.factor * float(reward)

gym.register("Coin-v0", Coin)
"""


def test_an_algorithm_of_a_plugin_is_trained_resumed_evaluated_and_listed(
    cli: Cli, install: Install, tmp_path: Path
) -> None:
    install("rlox-example", EXAMPLE_POINTS)
    ended = cli("train", *VPG)
    assert ended.code == 0, ended.err
    run = only_run(tmp_path / "runs")
    assert read_config(run)["algo"]["name"] == "vpg"
    assert read_config(run)["buffer"]["name"] == "rollout"
    packages = json.loads((run / "provenance.json").read_text())["packages"]
    assert packages["rlox-example"] == "1.0"
    resumed = cli("resume", str(run), "total_steps=512")  # a plugin's name needs no trust
    assert resumed.code == 0, resumed.err
    assert "(exact)" in resumed.out
    assert cli("evaluate", str(run), "episodes=2").code == 0
    assert "512 steps" in cli("list", "runs").out
    shown = cli("train", "algo=vpg", "--help").out
    assert "  algo.vf_coef=0.5 " in shown
    assert "algo.ent_coef" not in shown  # the algorithm drops this key


def test_a_plugin_algorithm_trains_from_python_and_loads_from_a_checkpoint(
    install: Install, tmp_path: Path
) -> None:
    install("rlox-example", EXAMPLE_POINTS)
    vpg: Any = ALGORITHMS["vpg"]
    algorithm = vpg("CartPole-v1", n_envs=4, seed=0, n_steps=32)
    algorithm.train(256)
    algorithm.save(tmp_path / "saved")
    again = vpg.from_checkpoint(tmp_path / "saved")
    obs = [0.01, -0.02, 0.03, 0.04]
    assert again.clock.now == 256
    assert again.predict(obs) == algorithm.predict(obs)
    with pytest.raises(ConfigError, match="clip_eps"):
        vpg("CartPole-v1", clip_eps=0.1)


DERIVED = """
from dataclasses import dataclass
from typing import ClassVar
from rlox.configs import SACConfig, param
from rlox.plugins import AlgorithmPlugin

@dataclass(frozen=True)
class DerivedConfig(SACConfig):
    drops: ClassVar[dict] = DROPS
    name: str = param("sac_l2", "the algorithm", choices=("sac_l2",))
    mean_l2: float = param(0.5, "weight of the penalty")
    OWN

PLUGIN = AlgorithmPlugin(DerivedConfig, facade="derived_sac:Facade")
"""


@pytest.mark.parametrize(
    ("drops", "own", "rate"),
    [
        ("{}", "", 1e-3),
        ('{"learning_rate": "finds its own steps"}', "", 3e-4),
        ("{}", 'learning_rate: float = param(5e-4, "Adam step size")', 5e-4),
    ],
)
def test_a_plugin_inherits_the_presets_of_its_base_but_for_fields_of_its_own(
    cli: Cli, install: Install, drops: str, own: str, rate: float
) -> None:
    files = {"derived_sac.py": DERIVED.replace("DROPS", drops).replace("OWN", own)}
    install("derived-sac", {"algo.sac_l2": "derived_sac:PLUGIN"}, files)
    for tuned in ([], ["tuned=sac/Pendulum-v1"], ["tuned=sac/Pendulum-v1", "env.n_envs=1"]):
        shown = cli("train", "algo=sac_l2", "env=Pendulum-v1", *tuned, "--cfg", "job")
        assert shown.code == 0, shown.err
        made = yaml.safe_load(shown.out)
        assert made["total_steps"] == 20_000  # from SAC's preset
        assert float(made["algo"]["learning_rate"]) == rate
    assert preset_options("sac_l2", "Pendulum-v1", {}) == (
        {"n_envs": 1} | ({"learning_rate": 1e-3} if rate == 1e-3 else {}),
        20_000,
    )
    assert "sac/Pendulum-v1" in cli("train", "algo=sac_l2", "--help").out
    refused = cli("train", "algo=sac_l2", "tuned=td3/Pendulum-v1", "env=Pendulum-v1")
    assert "this preset is for td3, but the run has algo=sac_l2" in refused.err


def test_a_preset_of_the_base_is_refused_where_the_plugin_has_one_of_its_own(
    cli: Cli, install: Install, tmp_path: Path
) -> None:
    files = {"derived_sac.py": DERIVED.replace("DROPS", "{}").replace("OWN", "")}
    install("derived-sac", {"algo.sac_l2": "derived_sac:PLUGIN"}, files)
    preset = tmp_path / "conf" / "tuned" / "sac_l2" / "Pendulum-v1.yaml"
    preset.parent.mkdir(parents=True)
    preset.write_text("# @package _global_\ntotal_steps: 777\n")
    folder = str(preset.parents[2])
    command = ("train", "algo=sac_l2", "env=Pendulum-v1", "--config-dir", folder, "--cfg", "job")
    for tuned in ([], ["tuned=sac_l2/Pendulum-v1"]):
        assert yaml.safe_load(cli(*command, *tuned).out)["total_steps"] == 777
    refused = cli(*command, "tuned=sac/Pendulum-v1")
    assert refused.code == 2
    assert "choose tuned=sac_l2/Pendulum-v1, or tuned=null" in refused.err
    preset.unlink()
    assert yaml.safe_load(cli(*command, "tuned=sac/Pendulum-v1").out)["total_steps"] == 20_000


def test_a_plugin_takes_the_presets_of_its_nearest_base(cli: Cli, install: Install) -> None:
    text = DERIVED.replace("DROPS", "{}").replace("OWN", "").replace("SACConfig", "TQCConfig")
    install("derived-tqc", {"algo.sac_l2": "derived_sac:PLUGIN"}, {"derived_sac.py": text})
    made = [
        yaml.safe_load(cli("train", *command, "--cfg", "job").out)
        for command in (
            ("algo=tqc", "env=Pendulum-v1"),
            ("algo=sac_l2", "env=Pendulum-v1"),
            ("algo=sac_l2", "env=Pendulum-v1", "tuned=tqc/Pendulum-v1"),
        )
    ]
    shared = {key: made[0]["algo"][key] for key in ("train_freq", "gradient_steps", "use_sde", "net_arch")}
    for run in made[1:]:
        assert {key: run["algo"][key] for key in shared} == shared
        assert run["total_steps"] == made[0]["total_steps"]


def test_a_plugin_is_imported_when_it_is_named_and_never_else(cli: Cli, install: Install) -> None:
    points = {
        "algo.mine": "mine:A",
        "buffer.mine": "mine:B",
        "logger.mine": "mine:L",
        "env.Mine-v0": "mine",
        "wrapper.mine": "mine:W",
    }
    install("mine", points, {"mine.py": MARKED})
    for args in (
        ("list", "plugins"), ("list", "algo"), ("list", "env", "Mine"), ("list", "logger"),
        ("list", "buffer"), ("train", "--help"), ("train", "--cfg", "job"),
        ("train", *TINY, "dry_run=true", "logger=csv"),
        ("train", "algo=min"), ("train", "env=Mne-v0"), ("train", "buffer=min"),
    ):  # fmt: skip
        result = cli(*args)
        assert "imported" not in result.out + result.err, args
    assert "mine" not in sys.modules
    assert "  of mine 1.0: What mine is for.\n" in cli("list", "algo").out
    assert "Mine-v0  of mine 1.0: What mine is for." in cli("list", "env", "Mine").out
    assert "  of mine 1.0: What mine is for.\n" in cli("list", "buffer").out
    for group in ("algo", "buffer"):
        assert "did you mean 'mine'" in cli("train", f"{group}=min").err


@pytest.mark.parametrize(
    "named", ["algo=mine", "buffer=mine", "logger=mine", "env=Mine-v0", "env.wrappers=[mine]"]
)
def test_a_plugin_that_fails_on_import_is_named_with_its_error(
    cli: Cli, install: Install, tmp_path: Path, named: str
) -> None:
    points = {
        "algo.mine": "mine:A",
        "buffer.mine": "mine:B",
        "logger.mine": "mine:L",
        "env.Mine-v0": "mine",
        "wrapper.mine": "mine:W",
    }
    install("mine", points, {"mine.py": "\n" + MARKED})
    result = cli("train", named)
    assert_explained(result, "the plugin of mine 1.0 fails when it is imported", tmp_path)
    assert "RuntimeError: imported" in result.err and "line 2" in result.err
    assert result.err.count("\n") == 1


def test_a_plugin_without_a_package_it_needs_says_which(cli: Cli, install: Install, tmp_path: Path) -> None:
    install("mine", {"algo.mine": "mine:A"}, {"mine.py": "import no_such_package"})
    assert_explained(cli("train", "algo=mine"), "No module named 'no_such_package'", tmp_path)


@pytest.mark.parametrize(
    ("point", "text", "expected"),
    [
        ("algo.mine", "X = 3", "expected a rlox.plugins.AlgorithmPlugin"),
        ("logger.mine", "X = 3", "expected a rlox.plugins.LoggerPlugin"),
        ("buffer.mine", "X = 3", "expected a rlox.plugins.BufferPlugin"),
        (
            "buffer.mine",
            "from rlox.configs.loggers import CsvConfig as C\nfrom rlox.configs import param\n"
            "from dataclasses import dataclass\nfrom rlox.plugins import BufferPlugin\n"
            "@dataclass(frozen=True)\nclass D(C):\n    name: str = param('mine', '', choices=('mine',))\n"
            "X = BufferPlugin(D)",
            "expected config=a dataclass derived from rlox.configs.BufferConfig",
        ),
        (
            "algo.mine",
            "from rlox.configs import PPOConfig\nfrom rlox.plugins import AlgorithmPlugin\n"
            "X = AlgorithmPlugin(PPOConfig, 'mine:Y')",
            'the field name: str = param("mine"',
        ),
        ("env.mine", "X = 3", "a module that registers mine with Gymnasium"),
        ("wrapper.mine", "X = 3", "expected a class or a function"),
    ],
)
def test_rlox_train_refuses_a_plugin_object_of_another_kind(
    cli: Cli, install: Install, tmp_path: Path, point: str, text: str, expected: str
) -> None:
    install("mine", {point: "mine:X"}, {"mine.py": text})
    kind = point.partition(".")[0]
    key = "env.wrappers=[mine]" if kind == "wrapper" else f"{kind}=mine"
    assert_explained(cli("train", key), expected, tmp_path)


def test_a_plugin_cannot_replace_a_built_in_name_and_the_user_is_warned(cli: Cli, install: Install) -> None:
    points = {
        "algo.ppo": "mine:A", "buffer.rollout": "mine:B", "logger.csv": "mine:L", "env.CartPole-v1": "mine",
        "wrapper.flatten_observation": "mine:W", "colour.red": "mine",
    }  # fmt: skip
    install("mine", points, {"mine.py": MARKED})
    rows = [line.split("  ")[0] for line in cli("list", "plugins").out.splitlines() if "ignored" in line]
    assert [row.strip() for row in rows] == sorted(points)
    result = cli("train", *TINY, "logger=csv", "env.wrappers=[flatten_observation]", "dry_run=true")
    assert result.code == 0, result.err
    own = ("algo=ppo", "buffer=rollout", "logger=csv", "env=CartPole-v1", "wrapper=flatten_observation")
    for name in own:
        assert f"{name} is rlox's own; the plugin of mine 1.0 is ignored" in result.err
    assert "mine" not in sys.modules
    assert "mine 1.0" not in cli("list", "algo").out + cli("list", "buffer").out


def test_two_plugins_of_one_name_are_both_named_when_it_is_used(
    cli: Cli, install: Install, tmp_path: Path
) -> None:
    install("one", {"algo.vpg": "mine:A"}, {"mine.py": MARKED})
    install("rlox-example", EXAMPLE_POINTS)
    assert_explained(cli("train", *VPG), "one 1.0 and rlox-example 1.0 both offer", tmp_path)
    listed = [line for line in cli("list", "plugins").out.splitlines() if "algo.vpg" in line]
    assert len(listed) == 2 and all("ignored" in line for line in listed)
    assert cli("train", *TINY, "dry_run=true").code == 0


def test_an_environment_and_a_wrapper_of_a_plugin_are_used_by_their_names(
    cli: Cli, install: Install, tmp_path: Path
) -> None:
    install("coins", {"env.Coin-v0": "coins", "wrapper.doubled": "coins:Doubled"}, {"coins.py": ENVS})
    wrapped = "env.wrappers=[{name: doubled, factor: 3}]"
    try:
        ended = cli("train", *TINY, "env=Coin-v0", wrapped)
        assert ended.code == 0, ended.err
        run = only_run(tmp_path / "runs")
        result = json.loads((run / "result.json").read_text())
        assert set(result["episodes"]) <= {0.0, 3.0}
        resumed = cli("resume", str(run), "total_steps=512")
        assert resumed.code == 0, resumed.err
    finally:
        gym.registry.pop("Coin-v0", None)


def test_a_logger_of_a_plugin_has_each_row_once_also_after_resuming(
    cli: Cli, install: Install, tmp_path: Path
) -> None:
    install("rlox-example", EXAMPLE_POINTS)
    ended = cli("train", *TINY, "logger=sqlite", "logger.sqlite.file=m.db", "log.every=128")
    assert ended.code == 0, ended.err
    run = only_run(tmp_path / "runs")
    assert cli("resume", str(run), "total_steps=512").code == 0
    rows = sqlite3.connect(run / "m.db").execute("SELECT row FROM metrics ORDER BY n").fetchall()
    lines = (run / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(row) for (row,) in rows] == [json.loads(line) for line in lines]
    assert len(lines) >= 4


def test_a_preset_that_a_plugin_brings_is_applied(cli: Cli, install: Install) -> None:
    install("rlox-example", EXAMPLE_POINTS)
    out = cli("train", "algo=vpg", "--cfg", "job").out
    assert "total_steps: 50000" in out and "learning_rate: 0.003" in out
    assert "vpg/CartPole-v1" in cli("list", "tuned", "vpg").out


def test_files_of_two_plugins_or_of_rlox_are_not_mixed_up(cli: Cli, install: Install, tmp_path: Path) -> None:
    preset = "# @package _global_\nseed: {}\n"
    for number, name in enumerate(("one", "two"), 1):
        files = {
            f"{name}/conf/exp/mine.yaml": preset.format(number),
            f"{name}/conf/exp/of_{name}.yaml": preset.format(number),
            f"{name}/conf/exp/classic_control.yaml": preset.format(99),
            f"{name}/__init__.py": MARKED,
        }
        install(name, {f"conf.{name}": f"{name}.conf"}, files)
    assert_explained(cli("train", "exp=mine"), "exp/mine.yaml: one 1.0 and two 1.0 both have it", tmp_path)
    assert "\nseed: 2\n" in "\n" + cli("train", "exp=of_two", "--cfg", "job").out
    assert "seed: 99" not in cli("train", "exp=classic_control", "--cfg", "job").out


def test_a_package_in_the_current_folder_is_not_an_installed_plugin(
    cli: Cli, tmp_path: Path, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("other", {"algo.other": "other:A"})
    monkeypatch.syspath_prepend(tmp_path)
    write_package(tmp_path, "mine", {"algo.mine": "mine:A"}, {"mine.py": MARKED})
    assert plugins.plugin_names("algo") == ["other"]
    result = cli("train", "algo=mine")
    assert (result.code, "no such option" in result.err) == (2, True)


def test_a_run_of_a_plugin_that_is_gone_is_explained(
    cli: Cli, install: Install, trained: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(trained, run, symlinks=True)
    text = (run / "config.yaml").read_text().replace("name: ppo", "name: vpg")
    (run / "config.yaml").write_text(text)
    result = cli("resume", str(run), "total_steps=512")
    assert result.code == 2
    assert "algo.name='vpg' is not known" in result.err and "rlox list plugins" in result.err


def test_the_page_on_plugins_shows_the_example_letter_for_letter() -> None:
    page = (EXAMPLE.parents[1] / "docs" / "plugins.md").read_text("utf-8")
    shown = re.findall(r"^```(?:python|toml)\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    named = ("config.py", "vpg.py", "newest.py", "sqlite.py")
    files = [(EXAMPLE / "rlox_example" / name).read_text("utf-8") for name in named]
    points, *python = shown
    assert python == files
    assert points in (EXAMPLE / "pyproject.toml").read_text("utf-8")
    assert dict(re.findall(r'^"(.+)" = "(.+)"$', points, re.MULTILINE)) == EXAMPLE_POINTS
