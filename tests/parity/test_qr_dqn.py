"""Tests the page's list of defaults in which QR-DQN differs from sb3-contrib's, with the keys to match."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

from parity.table import PAGE
from rlox.configs import make_run, to_plain
from rlox.configs.buffers import DEFAULT_CAPACITY

# Defaults of sb3-contrib 2.9.2's QRDQN, by rlox's names; None: gradients are not clipped.
THEIRS = {
    "learning_rate": 5e-5, "learning_starts": 100, "batch_size": 32, "tau": 1.0, "gamma": 0.99,
    "train_freq": 4, "gradient_steps": 1, "n_step": 1, "target_update_interval": 10_000,
    "exploration_fraction": 0.005, "exploration_initial_eps": 1.0, "exploration_final_eps": 0.01,
    "max_grad_norm": None, "adam_eps": 0.01 / 32, "n_quantiles": 200, "net_arch": [64, 64],
}  # fmt: skip


def shown() -> dict[str, tuple[str, str]]:
    """Return, for each key in the table, the value to set and rlox's own default."""
    section = PAGE.read_text("utf-8").split("### QR-DQN")[1].split("\n### ")[0]
    rows = re.findall(r"^\|.*\| ([^|]*) \| `algo\.(\w+)=(\S+)`.*\|$", section, re.M)
    return {name: (value, here) for here, name, value in rows}


def number(text: str) -> float | None:
    return None if text == "null" else float(text)


def ours(**algo: Any) -> dict[str, Any]:
    tree = {"algo": {"name": "dqn", "distribution": "quantile", **algo}}
    return {name: value for name, value in to_plain(make_run(tree).algo).items() if name in THEIRS}


def test_the_keys_on_the_page_make_the_defaults_those_of_sb3_contrib() -> None:
    made = ours(**{name: number(value) for name, (value, _) in shown().items()})
    assert made == {**THEIRS, "adam_eps": pytest.approx(THEIRS["adam_eps"])}


def test_the_page_has_all_defaults_that_differ_and_what_they_are_here() -> None:
    mine = ours()
    assert {name for name in THEIRS if mine[name] != THEIRS[name]} == set(shown())
    for name, (_, here) in shown().items():
        assert number(here.split()[0]) == mine[name]


def test_the_listed_sb3_contrib_defaults_equal_the_installed_ones() -> None:
    """Runs if sb3-contrib is installed, with the extra `peers`."""
    contrib = pytest.importorskip("sb3_contrib")
    assert contrib.__version__ == "2.9.2"
    given = inspect.signature(contrib.QRDQN.__init__).parameters
    named = {"n_step": "n_steps"}
    direct = {name: given[named.get(name, name)].default for name in THEIRS if named.get(name, name) in given}
    assert direct == {name: THEIRS[name] for name in direct}
    model = contrib.QRDQN("MlpPolicy", "CartPole-v1", device="cpu", buffer_size=10)
    assert set(THEIRS) - set(direct) == {"adam_eps", "n_quantiles", "net_arch"}
    assert model.policy.optimizer.param_groups[0]["eps"] == THEIRS["adam_eps"]
    assert (model.n_quantiles, model.policy.net_arch) == (THEIRS["n_quantiles"], THEIRS["net_arch"])
    assert given["buffer_size"].default == DEFAULT_CAPACITY
