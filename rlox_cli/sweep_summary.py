"""`summary.csv` and `summary.md` of a sweep, rebuilt from the job folders."""

from __future__ import annotations

import csv
import io
import json
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rlox_cli.exit_codes import OK
from rlox_cli.run_folder import read_status, write_text

COLUMNS = (
    "job",
    "status",
    "algo",
    "env",
    "seed",
    "env_steps",
    "score",
    "score_iqm",
    "score_ci95_low",
    "score_ci95_high",
    "seconds",
    "reason",
)
GROUP_COLUMNS = ("algo", "env", "seeds", "mean", "std", "lowest", "highest")


def write(folder: Path, outcomes: Sequence[Mapping[str, Any]]) -> str:
    """Write both summaries and return the text for the terminal."""
    rows = [_row(path) for path in job_folders(folder)]
    rows += [_refused(outcome) for outcome in outcomes if outcome["folder"] is None]
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, COLUMNS)
    writer.writeheader()
    writer.writerows(rows)
    write_text(folder / "summary.csv", buffer.getvalue())
    table = "\n".join(_table(COLUMNS, rows))
    groups = "\n".join(_table(GROUP_COLUMNS, _groups(rows)))
    write_text(folder / "summary.md", f"# {folder.name}\n\n{groups}\n\n## Jobs\n\n{table}\n")
    return _closing(folder, rows, outcomes)


def job_folders(folder: Path) -> list[Path]:
    """The job folders of a sweep, by job number; attempts that were set aside are left out."""
    found = [p.parent for p in folder.glob("*_*/status.json") if ".attempt" not in p.parent.name]
    return sorted(found, key=lambda p: (_number(p), p.name))


def state(folder: Path) -> str:
    """How the job in a folder ended, or `running`."""
    return str(read_status(folder)["status"])


def _groups(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    scores: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in rows:
        if row["status"] == "done" and row["score"] not in ("", None):
            scores[row["algo"], row["env"]].append(row["score"])
    return [
        {
            "algo": algo,
            "env": env,
            "seeds": len(values),
            "mean": statistics.fmean(values),
            "std": statistics.stdev(values) if len(values) > 1 else "",
            "lowest": min(values),
            "highest": max(values),
        }
        for (algo, env), values in sorted(scores.items())
    ]


def _row(path: Path) -> dict[str, Any]:
    status = read_status(path)
    row: dict[str, Any] = dict.fromkeys(COLUMNS, "")
    row |= {"job": path.name, "status": status["status"], "reason": status["reason"]}
    row["env_steps"] = status["step"]
    result = path / "result.json"
    if result.exists():
        data = json.loads(result.read_text())
        row |= {k: data[k] for k in ("algo", "env", "seed", "env_steps", "score", "score_iqm")}
        row["score_ci95_low"], row["score_ci95_high"] = data["score_ci95"] or ("", "")
        row["seconds"] = data["seconds"]["total"]
    return row


def _refused(outcome: Mapping[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(COLUMNS, "")
    reason = str(outcome["message"]).splitlines()[0] if outcome["message"] else ""
    status = "failed" if outcome["code"] != OK else outcome["status"]
    return row | {"job": outcome["job"], "status": status, "reason": reason}


def _table(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> list[str]:
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    return lines + [f"| {' | '.join(_cell(row[c]) for c in columns)} |" for row in rows]


def _cell(value: Any) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else "" if value is None else str(value)
    return text.replace("|", "\\|").replace("\n", " ")


def _closing(
    folder: Path, rows: Sequence[Mapping[str, Any]], outcomes: Sequence[Mapping[str, Any]]
) -> str:
    failed = [row for row in rows if row["status"] != "done"]
    skipped = sum(outcome["status"] == "skipped" for outcome in outcomes)
    lines = [
        f"{len(rows) - len(failed)} of {len(rows)} jobs done"
        + f", {skipped} of them before" * bool(skipped)
    ]
    for group in _groups(rows):
        spread = f" ± {group['std']:.1f}" if group["std"] != "" else ""
        seeds = f"{group['seeds']} run{'s' * (group['seeds'] != 1)}"
        lines.append(f"  {group['algo']} on {group['env']}: {group['mean']:.1f}{spread} ({seeds})")
    lines += [f"  {row['status']}: {row['job']}: {row['reason']}" for row in failed]
    return "\n".join([*lines, f"summary  {folder / 'summary.md'}"])


def _number(path: Path) -> int:
    head = path.name.split("_")[0]
    return int(head) if head.isdigit() else -1
