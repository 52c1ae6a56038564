"""The cost of an outage of the loggers' servers for a run: step rate, exit, rows.

For each kind of outage, pairs of runs of `rlox train` with and without the loggers alternate for some
minutes. Then the servers work again, and `rlox sync` runs for each run. The step rate is measured by two
clocks. The wall-clock rate shows whether loggers make a run wait, but little more on a shared machine. The
rate by CPU shares is that of a training whose loggers use the same core.

    python benchmarks/reliability/logger_outage.py --core 0
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))  # the tests have the broken servers

from faults.dead_server import MODES  # noqa: E402
from faults.outage import LOGGERS, Pair, SyncedRows, campaign, healthy, sync_and_count  # noqa: E402
from faults.report import REPORT, add, dated  # noqa: E402

from rlox.statistics import bootstrap_ci  # noqa: E402

STEPS = 40_960
N_PARALLEL_SYNCS = 2  # parallel syncs
MIN_RATIO, MAX_EXIT_SECONDS = 0.98, 5.0  # lower limit for the interval's upper end; upper limit


def figures(pairs: Sequence[Pair], sent: Sequence[SyncedRows]) -> dict[str, Any]:
    """Return the counts of one kind of outage."""
    return {
        "pairs": len(pairs),
        "by clock": ratio([pair.by_clock for pair in pairs]),
        "by cpu": ratio([pair.by_cpu for pair in pairs]),
        "steps_per_second": round(float(np.mean([p.plain.steps_per_second for p in pairs]))),
        "longest_exit_s": round(max(p.logged.exit_seconds for p in pairs), 2),
        "longest_exit_without_s": round(max(p.plain.exit_seconds for p in pairs), 2),
        "synced": sum(not s.code for s in sent),
        "rows": sum(s.rows for s in sent),
        "rows missing": sum(s.n_missing for s in sent),
        "rows twice": sum(s.n_duplicated for s in sent),
    }


def ratio(ratios: Sequence[float]) -> dict[str, Any]:
    """Return the geometric mean of the ratios of pairs, with its interval."""
    logs = np.log(np.array(ratios))
    low, high = (round(math.exp(end), 4) for end in bootstrap_ci(logs))
    mean = round(math.exp(float(logs.mean())), 4)
    return {"ratio": mean, "ci95": [low, high], "pairs": [round(value, 4) for value in ratios]}


def broken_promises(counts: Mapping[str, Any]) -> list[str]:
    """Return the promises that these counts break."""
    ends = {clock_name: counts[clock_name]["ci95"][1] for clock_name in ("by clock", "by cpu")}
    checks = {
        **{f"the ratio {clock_name} is at most {end}": end < MIN_RATIO for clock_name, end in ends.items()},
        f"an exit took {counts['longest_exit_s']} s": counts["longest_exit_s"] > MAX_EXIT_SECONDS,
        "a sync is not complete": counts["synced"] != counts["pairs"],
        "a row is missing": counts["rows missing"] > 0,
        "a row is there twice": counts["rows twice"] > 0,
    }
    return [text for text, is_broken in checks.items() if is_broken]


def table(counts_by_mode: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a Markdown row for each kind of outage."""
    lines = [
        "| servers | pairs | step rate with / without loggers by CPU | by the clock | longest exit (without) "
        "| rows | missing | twice |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for mode, counts in counts_by_mode.items():
        ratios = (counts["by cpu"], counts["by clock"])
        cells = [
            mode,
            str(counts["pairs"]),
            *(f"{r['ratio']:.3f} [{r['ci95'][0]:.3f}, {r['ci95'][1]:.3f}]" for r in ratios),
            f"{counts['longest_exit_s']:.1f} s ({counts['longest_exit_without_s']:.1f} s)",
            str(counts["rows"]),
            str(counts["rows missing"]),
            str(counts["rows twice"]),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def measure(mode: str, args: argparse.Namespace) -> dict[str, Any]:
    """Measure one kind of outage; return its counts."""
    with tempfile.TemporaryDirectory() as folder_name:
        folder = Path(folder_name)
        pairs = campaign(mode, args.minutes, args.loggers, args.steps, folder, args.core)
        with healthy(folder) as (wandb, url, store):
            sync = partial(sync_and_count, loggers=args.loggers, wandb=wandb, url=url, store=store)
            with ThreadPoolExecutor(N_PARALLEL_SYNCS) as pool:
                sent = list(pool.map(sync, (pair.folder for pair in pairs)))
    about = {name: getattr(args, name) for name in ("minutes", "loggers", "steps", "core")}
    return dated({**about, **figures(pairs, sent)})


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=3.0, help="minutes of each outage")
    parser.add_argument("--modes", default=",".join(MODES), help="kinds of outage, comma-separated")
    parser.add_argument("--loggers", default=",".join(LOGGERS), help="loggers, comma-separated")
    parser.add_argument("--steps", type=int, default=STEPS, help="environment steps of each run")
    parser.add_argument("--core", type=int, help="core for each run and its loggers")
    parser.add_argument("--out", type=Path, default=REPORT, help="report file for the counts")
    args = parser.parse_args(argv)
    for name, known in (("modes", MODES), ("loggers", LOGGERS)):
        selected = getattr(args, name).split(",")
        if unknown := set(selected) - set(known):
            parser.error(f"--{name} {','.join(sorted(unknown))}: expected of {', '.join(known)}")
        setattr(args, name, selected)
    return args


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, write the report and print the table; return 1 if a promise is broken."""
    args = parse(argv)
    counts_by_mode = {}
    for mode in args.modes:
        counts_by_mode[mode] = measure(mode, args)
        add(args.out, f"logger outage, {mode}", counts_by_mode[mode])
    print(table(counts_by_mode))
    problems = [
        f"{mode}: {text}" for mode, counts in counts_by_mode.items() for text in broken_promises(counts)
    ]
    for line in problems:
        print(line, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
