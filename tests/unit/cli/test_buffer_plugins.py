"""Tests that runs learn from the replay buffers of plugins, in torch and in the native engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.bit_flipping import BitFlipping
from helpers.cli import Cli, assert_explained, only_run
from helpers.packages import EXAMPLE_POINTS, Install

from rlox.algorithms import DQN, SAC
from rlox.configs import make_run
from rlox.configs.arguments import arguments_of
from rlox.errors import ConfigError
from rlox.native import sources
from rlox.runs.algorithm import Algorithm
from rlox_cli.runs.run_folder import read_config

HEAD = """
from dataclasses import dataclass
from rlox.configs import PrioritizedConfig, ReplayConfig, UniformConfig, param
from rlox.plugins import BufferPlugin
from rlox.sources.sampling import UniformSampling

@dataclass(frozen=True)
class MineConfig(BASE):
    name: str = param("mine", "the buffer", choices=("mine",))

PLUGIN = BufferPlugin(MineConfig, SAMPLING)
"""
WRAPPED = """
class Rows:
    def __init__(self, rows):
        self.rows = rows
    def __len__(self):
        return len(self.rows)
    def __getattr__(self, name):
        return getattr(self.rows, name)

class Sampling(UniformSampling):
    def make_buffer(self, capacity, columns):
        return Rows(super().make_buffer(capacity, columns))
"""
OWN_DRAWS = """
class Sampling(UniformSampling):
    def sample(self, *args, **options):
        return super().sample(*args, **options)
"""
UNIFORM, PRIORITIZED = (f"rlox.sources.sampling:{name}Sampling" for name in ("Uniform", "Prioritized"))
every_engine = pytest.mark.parametrize("backend", ["torch", "native"])


def install_mine(install: Install, base: str, sampling: str | None, code: str = "") -> None:
    text = HEAD.replace("BASE", base).replace("SAMPLING", repr(sampling))
    install("mine", {"buffer.mine": "mine_buffer:PLUGIN"}, {"mine_buffer.py": text + code})


def trained(backend: str, steps: int = 240, **buffer: Any) -> Any:
    """Return a SAC that has learned from a buffer."""
    algo = {
        "name": "sac",
        "backend": backend,
        "net_arch": [8],
        "batch_size": 16,
        "learning_starts": 40,
        "n_step": 2,
    }
    data = {"algo": algo, "env": {"id": "Pendulum-v1"}, "buffer": {"capacity": 200, **buffer}, "seed": 5}
    algorithm = SAC.from_config(make_run({**data, "total_steps": steps}))
    algorithm.train(steps)
    return algorithm


def numbers(algorithm: Algorithm) -> bytes:
    """Return the bytes of the learner's state."""
    arrays: list[bytes] = []

    def visit(node: Any) -> None:
        for value in node.values() if isinstance(node, dict) else node:
            if isinstance(value, dict | list | tuple):
                visit(value)
            elif not isinstance(value, str):
                arrays.append(np.asarray(value).tobytes())

    visit(algorithm.learner.state())
    return b"".join(arrays)


@pytest.fixture
def fused_calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list with an item for each call of the engine that steps, draws and learns."""
    calls: list[int] = []
    iteration = sources.ReplayIteration

    def counted(*args: Any, **options: Any) -> Any:
        calls.append(1)
        return iteration(*args, **options)

    monkeypatch.setattr(sources, "ReplayIteration", counted)
    return calls


@every_engine
def test_a_plugin_that_draws_newer_rows_more_often_trains_and_resumes_exactly(
    install: Install, tmp_path: Path, fused_calls: list[int], backend: str
) -> None:
    install("rlox-example", EXAMPLE_POINTS)
    newest = trained(backend, name="newest", candidates=8)
    assert fused_calls == []  # Rust would draw uniformly
    ages = newest.clock.env_steps - newest.source.replay_sampler.last_sample["indices"]
    assert ages.max() < 160  # all 16 rows are young: of 8 uniform draws the newest has a mean age of 22
    assert ages.mean() < 50
    half = trained(backend, 120, name="newest", candidates=8)
    half.save(tmp_path / "half")
    resumed = SAC.from_checkpoint(tmp_path / "half")
    resumed.train(240)
    assert numbers(resumed) == numbers(newest)
    assert numbers(newest) != numbers(trained(backend, name="uniform"))


@every_engine
@pytest.mark.parametrize(
    ("base", "sampling", "builtin"),
    [
        ("ReplayConfig", UNIFORM, "uniform"),
        ("UniformConfig", UNIFORM, "uniform"),
        ("PrioritizedConfig", PRIORITIZED, "prioritized"),
    ],
)
def test_a_built_in_buffer_registered_by_a_plugin_gives_the_same_numbers_in_the_same_calls(
    install: Install, fused_calls: list[int], backend: str, base: str, sampling: str, builtin: str
) -> None:
    install_mine(install, base, sampling)
    expected = numbers(trained(backend, name=builtin))
    n_calls = len(fused_calls)
    assert numbers(trained(backend, name="mine")) == expected
    assert len(fused_calls) == 2 * n_calls
    assert (n_calls > 0) == (backend == "native")


@every_engine
def test_a_buffer_class_of_a_plugin_is_used_through_its_methods(
    install: Install, fused_calls: list[int], backend: str
) -> None:
    install_mine(install, "ReplayConfig", "mine_buffer:Sampling", WRAPPED)
    algorithm = trained(backend, name="mine")
    assert type(algorithm.source.replay_sampler.buffer).__name__ == "Rows"
    assert fused_calls == []
    assert numbers(algorithm) == numbers(trained(backend, name="uniform"))


NEWEST_RUN = (
    "train",
    "algo=dqn",
    "buffer=newest",
    "tuned=null",
    "algo.learning_starts=64",
    "algo.net_arch=[8]",
)


def test_a_run_from_the_command_line_records_and_resumes_a_plugins_buffer(
    cli: Cli, install: Install, tmp_path: Path
) -> None:
    install("rlox-example", EXAMPLE_POINTS)
    keys = ("total_steps=256", "eval.episodes=1", "buffer.capacity=100", "buffer.candidates=3")
    ended = cli(*NEWEST_RUN, *keys)
    assert ended.code == 0, ended.err
    run = only_run(tmp_path / "runs")
    assert read_config(run)["buffer"] == {"name": "newest", "capacity": 100, "memory": None, "candidates": 3}
    resumed = cli("resume", str(run), "total_steps=320")
    assert (resumed.code, "(exact)" in resumed.out) == (0, True), resumed.err


SMALL = ("algo.learning_starts=16", "algo.net_arch=[8]")


def test_a_saved_run_with_the_buffer_of_a_plugin_that_is_not_installed_is_refused_by_its_name(
    cli: Cli, tmp_path: Path
) -> None:
    trained_run = cli("train", "algo=dqn", "tuned=null", "total_steps=64", "eval.episodes=1", *SMALL)
    assert trained_run.code == 0, trained_run.err
    run = only_run(tmp_path / "runs")
    text = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(text.replace("name: uniform", "name: absent\n  candidates: 3"))
    resumed = cli("resume", str(run), "total_steps=128")
    assert resumed.code == 2
    assert "buffer.name='absent' is not known, expected one of" in resumed.err
    assert "rlox list plugins" in resumed.err


def test_help_checks_and_sweeps_know_the_keys_of_a_plugins_buffer(
    cli: Cli, install: Install, tmp_path: Path
) -> None:
    install("rlox-example", EXAMPLE_POINTS)
    assert_explained(cli(*NEWEST_RUN, "buffer.candidates=0"), "buffer.candidates=0: expected", tmp_path)
    assert_explained(cli("train", "algo=dqn", "buffer.candidates=2"), "unknown key", tmp_path)
    assert "  buffer.candidates=2 " in cli(*NEWEST_RUN, "--help").out
    swept = cli("sweep", "algo=dqn", "buffer=uniform,newest", "tuned=null", "dry_run=true")
    assert (swept.code, swept.out.count("everything fits")) == (0, 2), swept.err


@pytest.mark.parametrize(("algo", "own"), [("ppo", "rollout"), ("rainbow", "prioritized")])
def test_an_algorithm_that_does_not_learn_from_uniform_refuses_a_plugins_buffer(
    cli: Cli, install: Install, tmp_path: Path, algo: str, own: str
) -> None:
    install("rlox-example", EXAMPLE_POINTS)
    result = cli("train", f"algo={algo}", "buffer=newest", "tuned=null")
    assert_explained(result, f"buffer=newest: {algo} learns from {own}", tmp_path)


RECENT = """
from dataclasses import dataclass
from typing import ClassVar
from rlox.configs import SACConfig, param
from rlox.plugins import AlgorithmPlugin

@dataclass(frozen=True)
class RecentConfig(SACConfig):
    buffers: ClassVar[tuple[str, ...]] = BUFFERS
    name: str = param("recent", "the algorithm", choices=("recent",))

PLUGIN = AlgorithmPlugin(RecentConfig, facade="recent:Facade")
"""


@pytest.mark.parametrize("buffers", [("newest",), ("newest", "uniform")])
def test_a_plugins_algorithm_may_have_a_plugins_buffer_as_its_default(
    cli: Cli, install: Install, buffers: tuple[str, ...]
) -> None:
    install("rlox-example", EXAMPLE_POINTS)
    files = {"recent.py": RECENT.replace("BUFFERS", repr(buffers))}
    install("recent", {"algo.recent": "recent:PLUGIN"}, files)
    shown = cli("train", "algo=recent", "env=Pendulum-v1", "--cfg", "job")
    assert (shown.code, "candidates: 2" in shown.out) == (0, len(buffers) == 1), shown.err
    run = make_run({"algo": {"name": "recent"}, "env": {"id": "Pendulum-v1"}})
    assert (run.buffer.name, "candidates" in arguments_of(type(run.algo))) == ("newest", True)


def test_python_gives_a_plugins_buffer_by_its_name(install: Install) -> None:
    install("rlox-example", EXAMPLE_POINTS)
    algorithm: Any = SAC("Pendulum-v1", buffer="newest", buffer_size=50, net_arch=(8,))
    assert algorithm.config.buffer.candidates == 2
    with pytest.raises(ConfigError, match="buffer=newest has no alpha, which belongs to buffer=prioritized"):
        SAC("Pendulum-v1", buffer="newest", alpha=0.5)


@pytest.mark.parametrize(
    ("sampling", "expected"),
    [
        (None, 'expected sampling="module:Class", because its config is a ReplayConfig'),
        ("mine_buffer:MineConfig", "of a subclass of rlox.sources.sampling.UniformSampling"),
        ("mine_buffer:Missing", "fails when it is imported: AttributeError"),
    ],
)
def test_a_replay_buffer_without_a_sampling_class_is_an_error_that_names_the_package(
    cli: Cli, install: Install, sampling: str | None, expected: str
) -> None:
    install_mine(install, "ReplayConfig", sampling)
    result = cli("train", "algo=sac", "env=Pendulum-v1", "buffer=mine", "total_steps=256", "tuned=null")
    assert (result.code, result.err.count("\n")) == (2, 1), result.err
    assert expected in result.err and "mine 1.0" in result.err


@pytest.mark.parametrize("draws", ["as UniformSampling does", "in its own way"])
def test_hindsight_needs_a_buffer_that_draws_as_uniform_does(install: Install, draws: str) -> None:
    own = draws == "in its own way"
    install_mine(install, "UniformConfig", "mine_buffer:Sampling" if own else UNIFORM, OWN_DRAWS * own)
    options: Any = {"net_arch": (8,), "learning_starts": 0, "batch_size": 16, "hindsight": "future"}
    if own:
        with pytest.raises(ConfigError, match=r"^buffer.hindsight: buffer=mine draws transitions in its own"):
            DQN(BitFlipping, buffer="mine", **options)
    else:
        DQN(BitFlipping, buffer="mine", **options).train(40)
