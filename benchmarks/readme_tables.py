"""Write README's tables and counts from committed results, between its `<!-- figures: NAME -->` comments.

python benchmarks/readme_tables.py            # rewrites README.md
python benchmarks/readme_tables.py --check    # exit 1 if README.md differs

| block | committed results |
|---|---|
| learning | benchmarks/results/learning.json (benchmarks/learning/readme_scores.py writes it) |
| resume | benchmarks/reliability/report.json |
| ppo | benchmarks/results/ppo_training.json |
| training | benchmarks/results/training.json |
| primitives | benchmarks/results/all.json |
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
RESULTS = Path("benchmarks") / "results"
BLOCK = re.compile(r"(<!-- figures: (\w+) -->\n)(.*?)(<!-- end of figures -->)", re.DOTALL)

# A row of the primitives' table: its text, then the case's work, its sizes and rlox's systems.
PRIMITIVES: tuple[tuple[str, tuple[tuple[str, Sequence[str], Sequence[str]], ...]], ...] = (
    (
        "`compute_gae`, 128 / 2,048 / 32,768 steps, float64",
        (("GAE of one trajectory, float64", ("128", "2,048", "32,768"), ("rlox",)),),
    ),
    (
        "GAE of 256 environments x 2,048 steps, float32: time-major / env-major",
        (
            (
                "GAE of 256 environments, float32",
                ("256 x 2,048",),
                ("rlox time-major, into", "rlox env-major"),
            ),
        ),
    ),
    (
        "`compute_vtrace`, 2,048 steps",
        (("V-trace of one trajectory, float32", ("2,048",), ("rlox",)),),
    ),
    (
        "`VecEnv.step_all`, CartPole, 2,048 environments: float64 / float32",
        (("one step of n x CartPole-v1", ("2,048",), ("rlox", "rlox f32")),),
    ),
    (
        "`compute_batch_group_advantages`, 16x4 / 256x16 / 1,024x32",
        (("group advantages, float64", ("16 x 4", "256 x 16", "1,024 x 32"), ("rlox",)),),
    ),
    (
        "k3 token KL, float32, 1x128 / 1x8,192 / 32x2,048",
        (("k3 token KL, float32", ("1 x 128", "1 x 8,192", "32 x 2,048"), ("rlox",)),),
    ),
    (
        "`ReplayBuffer.push`, one transition, obs 4 / 2 x 28,224 float32 / uint8",
        (
            ("push of one transition, obs 4", ("1",), ("rlox",)),
            ("push of one transition, 2 x 28,224 float32", ("unrelated",), ("rlox",)),
            ("push of one transition, 2 x 28,224 uint8", ("unrelated",), ("rlox",)),
        ),
    ),
    (
        "`ReplayBuffer.sample`, 32 / 256 / 1,024 rows, obs 4",
        (("sample, obs 4", ("32", "256", "1,024"), ("rlox",)),),
    ),
    ("the same, obs 17", (("sample, obs 17", ("32", "256", "1,024"), ("rlox",)),)),
    (
        "the same, 32 / 256 rows of 2 x 28,224 float32, into given arrays",
        (("sample of 28,224 float32", ("32", "256"), ("rlox into",)),),
    ),
    (
        "`PrioritizedReplayBuffer`, sample and update of 256",
        (("prioritized sample and update, capacity 100,000", ("256",), ("rlox",)),),
    ),
)

# A row of the training table: its text, then the works and sizes of the ratios in its cells.
TRAINING = (
    ("PPO, CartPole-v1", "PPO on CartPole-v1", ("4,096 steps",)),
    ("A2C, CartPole-v1", "A2C on CartPole-v1", ("10,000 steps",)),
    (
        "DQN, CartPole-v1, 256x256; batches of 256",
        "DQN on CartPole-v1",
        ("4,096 steps", "2,048 steps, batch 256"),
    ),
    *(
        (
            f"{algo}, Pendulum-v1, 64x64; 256x256",
            f"{algo} on Pendulum-v1",
            (
                "1,376 steps, net 64x64, batch 256, 1 envs",
                "416 steps, net 256x256, batch 256, 1 envs",
            ),
        )
        for algo in ("SAC", "TD3")
    ),
)
TRAINING_SYSTEMS = ("rlox", "rlox, Gymnasium", "native")
PARTS = {
    "total": "total",
    "collection": "collect",
    "update": "update",
    "evaluation, 50 episodes": "evaluate",
}
NATIVE_PREFIX = "Native "
TEXT_ALGORITHMS = ("SFT", "GRPO", "RLOO", "DPO", "OnlineDPO")


def read(path: Path, root: Path = ROOT) -> Any:
    """Read a committed JSON file."""
    return json.loads((root / path).read_text(encoding="utf-8"))


def format_ratio(ratio: float) -> str:
    """Format a ratio; below 2 it has two decimals, so that a loss is not rounded to 1.0x."""
    return f"{ratio:.2f}x" if ratio < 2 else f"{ratio:.1f}x"


def format_seconds(value: float) -> str:
    """Format a duration in seconds."""
    return f"{value:.2f} s" if value < 1 else f"{value:.1f} s"


def commit_text(commit: dict[str, Any]) -> str:
    """Return a commit as text, with a note if it was recorded by hand or has local changes."""
    changed = " with local changes" if commit.get("changed") else ""
    recorded = " (recorded)" if "by hand" in commit else ""
    return f"{commit['id'][:8]}{recorded}{changed}"


def report_origin(report: dict[str, Any]) -> str:
    """Return the date, the machine and the commit of a results file."""
    return f"commit {commit_text(report['commit'])}, {report['date'][:10]}, {report['machine']['cpu']}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [f"| {' | '.join(line)} |" for line in (head, *rows)]
    return "\n".join([lines[0], f"|{'---|' * len(head)}", *lines[1:]])


def learning(root: Path = ROOT) -> str:
    """Return the scores of the tuned presets, with the commit of each row."""
    rows, notes = [], []
    for task in read(RESULTS / "learning.json", root)["tasks"]:
        scores = [fmean(run["returns"]) if "returns" in run else run["score"] for run in task["runs"]]
        commit_and_date = f"{commit_text(task['commit'])}, {task['date']}"
        if any("returns" not in run for run in task["runs"]):
            notes.append(
                f"The runs of {task['env']} are not committed: its scores were written into this page at "
                f"{task['commit']['id'][:8]}, when updates were torch's."
            )
        rows.append(
            [
                task["env"],
                f"{task['total_steps']:,}",
                ", ".join(f"{score:.1f}" for score in scores),
                f"{fmean(scores):.1f}",
                commit_and_date,
            ]
        )
    page = table(["env", "steps", "seeds 0, 1, 2", "mean", "commit, date"], rows)
    notes_text = "".join(f"\n\n{note}" for note in notes)
    return (
        f"{page}{notes_text}\n\nEvery return and the machine: "
        "[benchmarks/results/learning.json](benchmarks/results/learning.json)."
    )


def resume(root: Path = ROOT) -> str:
    """Return how often runs of each kind were killed and resumed."""
    report = read(Path("benchmarks") / "reliability" / "report.json", root)
    prefix = "exact resume: "
    reports_by_kind = {k.removeprefix(prefix): v for k, v in report.items() if k.startswith(prefix)}
    runs, kills, mismatches = (
        sum(kind_report[count_name] for kind_report in reports_by_kind.values())
        for count_name in ("runs", "kills", "mismatches")
    )
    n_in_disk_calls = sum(
        "call" in kill_place
        for kind_report in reports_by_kind.values()
        for run in kind_report["where"].values()
        for kill_place in run
    )
    native = [name.removeprefix(NATIVE_PREFIX) for name in reports_by_kind if name.startswith(NATIVE_PREFIX)]
    text = [name for name in TEXT_ALGORITHMS if name in reports_by_kind]
    torch = [name for name in reports_by_kind if name not in text and not name.startswith(NATIVE_PREFIX)]
    of_torch = f"{len(torch)} with updates in torch ({'; '.join(torch)})"
    of_native = f"{len(native)} in Rust ({'; '.join(native)})" if native else ""
    of_text = f"{len(text)} of language models ({'; '.join(text)})" if text else ""
    kinds = ", ".join(filter(None, (of_torch, of_native, of_text)))
    saves = report["kills while saving"]
    commits = sorted(
        {
            (kind_report["date"], commit_text(kind_report["commit"]))
            for kind_report in reports_by_kind.values()
        }
    )
    sentences = [
        f"{runs} runs of {len(reports_by_kind)} kinds, {kinds}, were killed {kills} times with SIGKILL, "
        f"{n_in_disk_calls} of them inside a disk call, and resumed.",
        "Weights, optimizer, state (every row and priority of a buffer), metrics and episodes were compared "
        f"with those of runs never stopped, all but seconds: {mismatches} differed.",
        f"{saves['kills']} kills while every update was saved left {saves['unreadable']} unreadable "
        "checkpoints.",
        f"Commits: {', '.join(f'{commit}, {date}' for date, commit in commits)}; of the kills while saving "
        f"{commit_text(saves['commit'])}, {saves['date']}.",
    ]
    return " ".join(sentences)


def ppo(root: Path = ROOT) -> str:
    """Return the seconds of whole training runs beside Stable-Baselines3."""
    report = read(RESULTS / "ppo_training.json", root)
    runs, ratios = report["runs"], report["ratio_to_sb3"]
    lows = {min(run["score"] for run in system_runs) for system_runs in runs.values()}
    highs = {max(run["score"] for run in system_runs) for system_runs in runs.values()}
    low, high = min(lows), max(highs)
    scores = f"all score {low:.1f}" if low == high else f"they score {low:.1f} to {high:.1f}"
    rows = [
        [
            label,
            format_seconds(median(run[part] for run in runs["sb3"])),
            *(
                f"{format_seconds(median(run[part] for run in runs[name]))}: "
                f"{format_ratio(ratios[name][part])}"
                for name in ("rlox", "native")
            ),
        ]
        for label, part in PARTS.items()
    ]
    peer = f"Stable-Baselines3 {report['versions']['stable-baselines3']}"
    return (
        f"PPO on {report['env']}, {report['steps']:,} steps, rl-zoo3 hyperparameters, one thread each, "
        f"{len(runs['sb3'])} runs of each by turns; {scores}. Medians, and the median of each run's ratio "
        f"to its neighbour ({report_origin(report)}). Seconds depend on the machine, ratios less.\n\n"
        + table(["", peer, "rlox in torch", "rlox in Rust"], rows)
    )


def find_case(report: dict[str, Any], work: str, size: str) -> dict[str, Any] | None:
    """Return the case of a results file."""
    cases = (c for c in report["cases"] if (c["work"], c["size"]) == (work, size))
    return next(cases, None)


def training(root: Path = ROOT) -> str:
    """Return the CPU seconds of five algorithms beside Stable-Baselines3."""
    report = read(RESULTS / "training.json", root)
    rows = []
    for label, work, sizes in TRAINING:
        cases = [find_case(report, f"{work}: training", size) for size in sizes]
        if None in cases:
            raise KeyError(f"training.json lacks one of {sizes} of {work}: training")
        ratios = [{c["ours"]: c["ratio"] for c in case["comparisons"]} for case in cases]
        goals = [
            next(v["minimum"] for v in case["verdicts"] if v["goal"] and v["ours"] == "native")
            for case in cases
        ]
        cells = [
            "; ".join(format_ratio(ratios_of_size[name]) for ratios_of_size in ratios)
            for name in TRAINING_SYSTEMS
        ]
        rows.append([label, *cells, "; ".join(f"{goal:g}x" for goal in goals)])
    head = ["", "rlox in torch", "with Gymnasium's environments", "rlox in Rust", "goal in Rust"]
    return (
        "Training of five algorithms in CPU seconds of one run, how many times as long Stable-Baselines3 "
        f"{report['versions']['stable-baselines3']} takes ([table]({RESULTS / 'training.md'}); "
        f"{report['protocol']['repeats']} rounds; {report_origin(report)}):\n\n" + table(head, rows)
    )


def cell(case: dict[str, Any], system: str) -> tuple[str, str]:
    """Return the ratio to the fastest peer, and the name of that peer."""
    fastest = next(c for c in case["comparisons"] if c["ours"] == system and c["fastest"])
    goals = [v for v in case["verdicts"] if v["ours"] == system and v["goal"] and not v["met"]]
    missed_text = "".join(f" (goal {v['minimum']:g}x {v['against']}, missed)" for v in goals)
    slower_text = " (slower)" if fastest["high"] < 1 else ""
    return f"{format_ratio(fastest['ratio'])}{slower_text}{missed_text}", fastest["peer"]


def primitives(root: Path = ROOT) -> str:
    """Return the ratios of the primitives to the fastest peer."""
    report, rows = read(RESULTS / "all.json", root), []
    for label, parts in PRIMITIVES:
        cells, peers = [], []
        for work, sizes, systems in parts:
            for size in sizes:
                case = find_case(report, work, size)
                if case is None:
                    raise SystemExit(f"{RESULTS / 'all.json'} does not have {work}, {size}")
                for system in systems:
                    ratio, peer = cell(case, system)
                    cells.append(ratio)
                    peers.append(peer)
        peer_names = peers[:1] if len(set(peers)) == 1 else peers
        rows.append([label, " / ".join(cells), " / ".join(peer_names)])
    return (
        f"One thread of a shared 2-core machine ([all]({RESULTS / 'all.md'}): {report_origin(report)}; "
        "[memory of buffers](benchmarks/results/buffer_memory.md)); speed-up over the fastest "
        "peer of each row:\n\n" + table(["work", "ratio", "fastest peer"], rows)
    )


BLOCKS: dict[str, Callable[[Path], str]] = {
    "learning": learning,
    "resume": resume,
    "ppo": ppo,
    "training": training,
    "primitives": primitives,
}


def rewrite_blocks(text: str, root: Path = ROOT) -> str:
    """Return the page with every block rewritten; `SystemExit` if a block is missing or unknown."""
    block_names = [match[2] for match in BLOCK.finditer(text)]
    if sorted(block_names) != sorted(BLOCKS):
        raise SystemExit(f"README.md has the blocks {block_names}, expected {list(BLOCKS)}, each once")
    return BLOCK.sub(lambda m: f"{m[1]}{BLOCKS[m[2]](root)}\n{m[4]}", text)


def main(argv: Sequence[str] | None = None) -> int:
    """Rewrite the page, or check whether it differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if README.md differs")
    args = parser.parse_args(argv)
    text = README.read_text(encoding="utf-8")
    new_text = rewrite_blocks(text)
    if args.check:
        print("README.md is up to date" if new_text == text else "README.md differs from the results")
        return int(new_text != text)
    README.write_text(new_text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
