"""Write the scores of README's "It learns": the runs of finished sweeps go into
benchmarks/results/learning.json.

rlox sweep env=CartPole-v1 seed=0,1,2 hydra.sweep.dir=runs/sweeps/cartpole
python benchmarks/learning/readme_scores.py runs/sweeps/cartpole
python benchmarks/readme_tables.py

Each sweep has one environment. Its row replaces the row of that environment, or is added.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

OUT = Path(__file__).resolve().parents[1] / "results" / "learning.json"


class SweepError(Exception):
    """The runs of a sweep do not make one row of the table."""


def read_json(folder: Path, name: str) -> Any:
    """Read a JSON file of a run folder."""
    return json.loads((folder / name).read_text(encoding="utf-8"))


def read_run(folder: Path) -> dict[str, Any]:
    """Return the seed of a run and the returns of its final policy."""
    result, origin = read_json(folder, "result.json"), read_json(folder, "provenance.json")
    if result["status"] != "done":
        raise SweepError(f"{folder}: {result['status']}, expected a run that is done")
    return {
        "seed": result["seed"],
        "algo": result["algo"],
        "backend": origin["backend"]["name"],
        "env_steps": result["env_steps"],
        "returns": result["episodes"],
    }


def common_value(values: Sequence[Any], value_name: str, sweep: Path) -> Any:
    """Return the value that all have in common."""
    if any(value != values[0] for value in values):
        raise SweepError(f"{sweep}: the runs differ in their {value_name}: {values}")
    return values[0]


def read_task(sweep: Path) -> dict[str, Any]:
    """Return the row of one sweep, with the origin of its runs."""
    folders = sorted(path.parent for path in sweep.glob("*/result.json"))
    if not folders:
        raise SweepError(f"{sweep}: no run of it has ended")
    origins = [read_json(folder, "provenance.json") for folder in folders]
    configs: list[Any] = [OmegaConf.load(folder / "config.yaml") for folder in folders]
    git = common_value([origin["git"] for origin in origins], "commit", sweep)
    if git is None:
        raise SweepError(f"{sweep}: its runs name no commit; run the sweep inside the checkout")
    return {
        "env": common_value([config.env.id for config in configs], "environment", sweep),
        "total_steps": common_value([config.total_steps for config in configs], "total_steps", sweep),
        "command": common_value([origin["command"] for origin in origins], "command", sweep),
        "commit": {"id": git["sha"], "changed": git["dirty"]},
        "date": min(origin["started"] for origin in origins)[:10],
        "machine": common_value([origin["cpu"] for origin in origins], "machine", sweep),
        "versions": common_value(
            [{**o["packages"], "python": o["python"]} for o in origins], "versions", sweep
        ),
        "runs": sorted(map(read_run, folders), key=lambda run: int(run["seed"])),
    }


def update_tasks(sweeps: Sequence[Path], out: Path) -> None:
    """Write the rows of these sweeps into the file."""
    tasks = json.loads(out.read_text(encoding="utf-8"))["tasks"] if out.exists() else []
    lines = {task["env"]: task for task in tasks}
    lines |= {task["env"]: task for task in map(read_task, sweeps)}
    out.write_text(json.dumps({"tasks": list(lines.values())}, indent=1) + "\n", encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    """Add the given sweeps."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sweeps", nargs="+", type=Path, help="folders of finished sweeps")
    parser.add_argument("--out", type=Path, default=OUT)
    args = parser.parse_args(argv)
    try:
        update_tasks(args.sweeps, args.out)
    except (SweepError, OSError) as error:
        print(f"readme_scores: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
