"""Keeps in `old/DATE` one example of everything that the present code writes to a user's disk.

Later versions must read them: `tests/reliability/test_old_versions.py` opens every folder there.
"""

from __future__ import annotations

import json
import platform
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import golden.files as golden
from golden.files import HERE
from golden.making import about_here, record

COMMANDS = "commands.json"
"""The name of the file that records how a folder of `old` was made: arguments of `rlox` by their output."""
_TINY = ("tuned=null", "eval.episodes=2", "checkpoint.keep=1")
_NET = "algo.net_arch=[8]"
_ROLLOUT = ("algo.n_steps=32", "env.n_envs=4", "total_steps=256", _NET)
_STEPS = ("eval.every=128", "checkpoint.every=128", "log.every=64")
_PPO = ("algo=ppo", "env=CartPole-v1", *_ROLLOUT, "algo.batch_size=64", "algo.n_epochs=1")
_REPLAY = ("algo.learning_starts=64", "algo.batch_size=16", "buffer.capacity=200")
_UPDATES = ("total_steps=64", "eval.every=32", "checkpoint.every=32", "log.every=16")
_PROMPTS = ("total_steps=16", "eval.every=8", "checkpoint.every=8", "log.every=4")
_DATASET = "tests/golden/datasets/CartPole-v1"
RUNS: Mapping[str, tuple[str, ...]] = {
    "ppo_torch": (*_PPO, *_STEPS, "algo.backend=torch"),
    "ppo_native": (*_PPO, *_STEPS, "algo.backend=native", "env.normalize_obs=true"),
    "dqn_native": (
        "algo=dqn", "env=CartPole-v1", "total_steps=256", *_STEPS, *_REPLAY, _NET,
        "algo.backend=native",
    ),
    "bc": ("algo=bc", "env=CartPole-v1", f"buffer.path={_DATASET}", *_UPDATES, _NET),
    "grpo": ("algo=grpo", "env=text", "task=copy", "model=tests/golden/runs/llama",
             "algo.batch_size=4", *_PROMPTS),
}  # fmt: skip
"""A run of each family: rollouts in torch and in Rust, replay, a dataset, text."""
_SMALL = ("env=CartPole-v1", "total_steps=128", "algo.n_steps=16", _NET, *_TINY)
SWEEP = ("algo=a2c", "seed=0,1", *_SMALL, "hydra.sweep.dir=sweep")
SEARCH = ("search=ppo", "search.n_trials=3", "search.n_startup_trials=2", *_SMALL,
          "algo.batch_size=32", "algo.n_epochs=1", "eval.every=64", "hydra.sweep.dir=search")  # fmt: skip
EVERYTHING: Mapping[str, tuple[str, ...]] = {
    **{
        f"runs/{name}": ("train", *arguments, *_TINY, f"hydra.run.dir=runs/{name}")
        for name, arguments in RUNS.items()
    },
    "sweep": ("sweep", *SWEEP),
    "search": ("sweep", *SEARCH),
    "policy": ("export", "runs/ppo_native", "out=policy"),
    "report": ("report", "sweep", "out=report", "formats=[]"),
}
NOT_KEPT = ("*.png", "report.html")
"""Pictures, and a page of several megabytes that no command reads."""


def keep(name: str | None = None, commands: Mapping[str, tuple[str, ...]] = EVERYTHING) -> int:
    """Run the commands in an empty folder and keep their output in `old/NAME`, by default today's date."""
    name = name or datetime.now(UTC).date().isoformat()
    target = HERE / "old" / name
    if target.exists():
        print(f"{target} is there: what a version wrote is never written again", file=sys.stderr)
        return 1
    with TemporaryDirectory() as made:
        folder = Path(made).resolve()
        (folder / "tests").mkdir()
        (folder / "tests" / "golden").symlink_to(HERE)
        for what, line in commands.items():
            print(what, file=sys.stderr, flush=True)
            subprocess.run([sys.executable, "-P", "-m", "rlox", *line], cwd=folder, check=True)
        (folder / "tests" / "golden").unlink()
        (folder / "tests").rmdir()
        for picture in (p for pattern in NOT_KEPT for p in folder.rglob(pattern)):
            picture.unlink()
        for empty in sorted((p for p in folder.rglob("*") if p.is_dir()), reverse=True):
            if not any(empty.iterdir()):  # git does not keep empty folders
                empty.rmdir()
        _without_paths(folder)
        (folder / COMMANDS).write_text(json.dumps(commands, indent=1) + "\n", encoding="utf-8")
        shutil.copytree(folder, target, symlinks=True)
    index = golden.load_index()
    key = record(index, about_here())
    below = target.relative_to(HERE).as_posix()
    index["files"] |= {
        f"{below}/{file}": golden.entry(f"{below}/{file}", key) for file in golden.golden_files(target)
    }
    golden.save_index(index)
    return 0


def _without_paths(folder: Path) -> None:
    """Replace the working directory by `.` and the kernel's full name by the system's name.

    Raises `RuntimeError` if a file still names a folder of this machine.
    """
    private = {str(folder): ".", platform.platform(): platform.system()}
    for file in (p for p in folder.rglob("*") if p.suffix in (".json", ".yaml")):
        text = file.read_text(encoding="utf-8")
        for found, general in private.items():
            text = text.replace(found, general)
        file.write_text(text, encoding="utf-8")
    for study in folder.rglob("*.db"):
        with closing(sqlite3.connect(study, isolation_level=None)) as database:
            told = "UPDATE trial_user_attributes SET value_json = replace(value_json, ?, '.')"
            database.execute(told, (str(folder),))
            database.execute("VACUUM")  # so no free page keeps the replaced text
    for file in (p for p in folder.rglob("*") if p.is_file()):
        for path in (str(folder), str(HERE.parents[1]), sys.prefix):
            if path.encode() in file.read_bytes():
                raise RuntimeError(f"{file.relative_to(folder)} names {path}")
