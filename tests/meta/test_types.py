"""Tests that a strict type checker reads the library's types in a user's program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """\
from rlox.algorithms import PPO
from rlox.callbacks import Callback
from rlox.errors import ConfigError


class Watching(Callback):
    def on_step(self, **kwargs: object) -> bool:
        return True


def learn(env: str) -> float:
    try:
        ppo = PPO.tuned(env, seed=1, callbacks=Watching())
    except ConfigError:
        ppo = PPO(env, n_steps=8, learning_rate="lin_1e-3", net_arch=[8], callbacks=Watching())
    ppo.train(64, progress=True)
    return ppo.evaluate(episodes=2).mean


print(learn("CartPole-v1") + 1.0)
"""
WRONG = {
    'PPO(env, seed="8")': "arg-type",
    "PPO(env, net_arch=[64, 64], gama=0.9)": "call-arg",
    'PPO(env, gae_lambda="0.9")': "arg-type",
    "ppo.train(callback=None)": "call-arg",
    "ppo.evaluate(episodes=2).meen": "attr-defined",
}


@pytest.mark.slow
def test_strict_mypy_accepts_a_users_program_and_finds_wrong_calls(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PROGRAM)
    lines = "\n".join(f"    {line}" for line in WRONG)
    text = f"from rlox.algorithms import PPO\n\n\ndef f(env: str) -> None:\n    ppo = PPO(env)\n{lines}\n"
    (tmp_path / "wrong.py").write_text(text)
    line = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "mine.py", "wrong.py"]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False)
    found = [[*row.split(":")[0:2], row.rpartition("[")[2]] for row in done.stdout.splitlines()]
    numbers = range(6, 6 + len(WRONG))
    expected = [["wrong.py", str(n), f"{code}]"] for n, code in zip(numbers, WRONG.values(), strict=True)]
    assert [row for row in found if row in expected] == expected, done.stdout
    assert [row for row in found if row[0] == "mine.py"] == []
