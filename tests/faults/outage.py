"""Compares real `rlox` runs whose logging servers fail with runs without these loggers.

`campaign` trains pairs of runs, with and without loggers, during one kind of outage for some minutes. It
reports the speed of each run, by the clock and by the CPU, and the time that its exit took. `sync_and_count`
sends the missing rows to working servers and counts the rows there.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from faults.dead_server import dead_server
from faults.mlflow_server import STORE, mlflow_server, rows_in_store
from faults.wandb_server import KEY, WandbServer
from rlox.loggers import METRICS, Row, read_rows

LOGGERS = ("wandb", "mlflow")
ONLINE = {
    "wandb": ("logger.wandb.mode=online",),
    "mlflow": ("logger.mlflow.tracking_uri='${oc.env:MLFLOW_TRACKING_URI}'",),
}
TRAINING = (
    "env=CartPole-v1", "tuned=null", "device=cpu", "eval.episodes=1", "log.every=2048",
)  # fmt: skip
PATIENCE = 600.0  # seconds for one command
LOOKS = 0.01  # seconds between checks of a run's progress
FEWEST = 2  # pairs, even in a short campaign


@dataclass(frozen=True)
class RunTimings:
    """The timings of a run that has ended."""

    steps_per_second: float  # by the clock
    # share of the main thread, which trains, in the CPU time of the run and its loggers
    share: float
    exit_seconds: float  # from the last training step to the end of the process
    stderr: str  # text on standard error


@dataclass(frozen=True)
class Pair:
    """A run with loggers in `folder`, and the run without them just before or after it."""

    folder: Path
    plain: RunTimings
    logged: RunTimings

    @property
    def by_clock(self) -> float:
        """The step rate with loggers, divided by the rate without."""
        return self.logged.steps_per_second / self.plain.steps_per_second

    @property
    def by_cpu(self) -> float:
        """The same ratio by CPU shares, on one core; other load on the machine does not change it."""
        return self.logged.share / self.plain.share


@dataclass(frozen=True)
class SyncedRows:
    """The rows of a run at the servers after `rlox sync`."""

    code: int
    rows: int
    n_missing: int
    n_duplicated: int


def command(cwd: Path, args: Sequence[str], wandb: str, mlflow: str, mark: str = "") -> subprocess.Popen[str]:
    """Start `rlox args` in a process with the addresses of its servers, and with a mark if one is given."""
    env = {
        **os.environ,
        "WANDB_BASE_URL": wandb,
        "WANDB_API_KEY": KEY,
        "MLFLOW_TRACKING_URI": mlflow,
        "RLOX_TEST_MARK": mark,
    }
    line = [sys.executable, "-m", "rlox_cli.main", *args]
    pipe = subprocess.PIPE
    return subprocess.Popen(line, cwd=cwd, env=env, text=True, stdout=pipe, stderr=pipe)


def with_loggers(loggers: Sequence[str]) -> list[str]:
    """Return the arguments of `rlox train` for these loggers, each with a server."""
    return [f"logger=[{','.join(loggers)}]", *(a for name in loggers for a in ONLINE.get(name, ()))]


def campaign(
    mode: str,
    minutes: float,
    loggers: Sequence[str],
    steps: int,
    folder: Path,
    core: int | None = None,
) -> list[Pair]:
    """Train pairs of runs of so many steps for some minutes, while the servers have this fault."""
    pairs: list[Pair] = []
    end = time.monotonic() + 60 * minutes
    with dead_server(mode) as url:
        while len(pairs) < FEWEST or time.monotonic() < end:
            name = f"{mode.replace(' ', '-')}-{len(pairs)}"
            kinds = {f"{name}-plain": [], name: with_loggers(loggers)}
            order = list(kinds) if len(pairs) % 2 else list(reversed(kinds))
            timings = {which: train_with(folder, which, steps, kinds[which], url, core) for which in order}
            pairs.append(Pair(folder / name, timings[f"{name}-plain"], timings[name]))
            print(f"{name}: {pairs[-1].plain} {pairs[-1].logged}", file=sys.stderr, flush=True)
    return pairs


def train_with(
    folder: Path, name: str, steps: int, args: Sequence[str], url: str, core: int | None
) -> RunTimings:
    """Train in `folder/name`, on one core if it is given."""
    place = [f"hydra.run.dir={name}", f"total_steps={steps}"]
    run = command(folder, ["train", *TRAINING, *place, *args], url, url)
    metrics = folder / name / METRICS
    if core is not None:
        os.sched_setaffinity(run.pid, {core})
    share = main_thread_share(run, metrics)
    ended = time.time()
    _, stderr = run.communicate(timeout=PATIENCE)
    assert run.returncode == 0, stderr
    rows = read_rows(metrics)
    last = next(row for row in reversed(rows) if "time/steps_per_second" in row)
    last_row_time = metrics.stat().st_mtime  # time of the last row, which the evaluation wrote
    exit_seconds = ended - last_row_time + rows[-1]["seconds"] - last["seconds"]
    return RunTimings(last["env_steps"] / last["seconds"], share, exit_seconds, stderr)


def main_thread_share(run: subprocess.Popen[str], metrics: Path) -> float:
    """Wait until a run has ended; return the main thread's share in the CPU time between its rows."""
    first = now = (0.0, 0.0)
    size = -1
    while run.poll() is None:
        with suppress(OSError):
            if metrics.stat().st_size > size:
                now = cpu_seconds(run.pid)
                first = now if size < 0 else first
                size = metrics.stat().st_size
        time.sleep(LOOKS)
    return (now[0] - first[0]) / (now[1] - first[1])


def cpu_seconds(pid: int) -> tuple[float, float]:
    """Return the CPU seconds of the main thread, and of the process with its descendants, ended or not."""
    stats = {int(p.name): fields for p in Path("/proc").glob("[0-9]*") if (fields := stat_of(p))}
    family, ticks = [pid], 0
    for member in family:
        family += [child for child, (parent, *_) in stats.items() if parent == member]
        ticks += sum(stats.get(member, [0])[1:])
    main = stat_of(Path(f"/proc/{pid}/task/{pid}"))
    second = os.sysconf("SC_CLK_TCK")
    return sum(main[1:3]) / second, ticks / second


def stat_of(place: Path) -> list[int]:
    """Return parent and ticks (user, system, then those of ended children); empty for an ended process."""
    with suppress(OSError):
        fields = (place / "stat").read_text().rpartition(")")[2].split()
        return [int(field) for field in (fields[1], *fields[11:15])]
    return []


@contextmanager
def healthy(home: Path) -> Iterator[tuple[WandbServer, str, Path]]:
    """Yield working servers: the W&B server, MLflow's address and its store."""
    with WandbServer().serving() as wandb, mlflow_server(home) as mlflow:
        yield wandb, mlflow, home / STORE


def sync_and_count(
    run: Path, loggers: Sequence[str], wandb: WandbServer, url: str, store: Path
) -> SyncedRows:
    """Run `rlox sync` for a run and count its rows at the servers."""
    sync = command(run.parent, ["sync", run.name], wandb.url, url)
    sync.communicate(timeout=PATIENCE)
    rows_by_server: dict[str, list[tuple[int, float]]] = {}
    if "wandb" in loggers:
        ids = [i for i, run_record in wandb.runs.items() if run_record["displayName"] == run.name]
        rows_by_server["wandb"] = [point(row) for i in ids for row in wandb.rows(i)]
    if "mlflow" in loggers:
        rows_by_server["mlflow"] = rows_in_store(store, run.name)
    rows = Counter(map(point, read_rows(run / METRICS)))
    n_missing = sum((rows - Counter(points)).total() for points in rows_by_server.values())
    n_duplicated = sum((Counter(points) - rows).total() for points in rows_by_server.values())
    return SyncedRows(sync.returncode, rows.total(), n_missing, n_duplicated)


def point(row: Row) -> tuple[int, float]:
    """Return the step and seconds that identify a row in its run."""
    return int(row["env_steps"] or 0), float(row["seconds"] or 0.0)
