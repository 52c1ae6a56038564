"""The measurements as Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from rlox_cli.bench.gate import FASTER, NEW, NOISY, SLOWER, UNPROVEN, BaselineVerdict
from rlox_cli.bench.intervals import Ratio
from rlox_cli.bench.record import Baseline, BenchRecord, CaseMeasurements

UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


def duration(seconds: float) -> str:
    """Format seconds with three significant digits and a unit."""
    scale, unit = next(((s, u) for s, u in UNITS if seconds >= s), UNITS[-1])
    value = seconds / scale
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:.{digits}f} {unit}"


def render(record: BenchRecord, verdicts: Sequence[BaselineVerdict], baseline: Baseline | None) -> str:
    """Render the table, the machine it was measured on, and what became slower."""
    by_name = {verdict.name: verdict for verdict in verdicts}
    heads = ["case", "time", "ratio to the fastest peer", "to the yardstick", "noise"]
    heads += ["instructions"] * any(case.instructions for case in record.measured_cases)
    heads += ["against the baseline"] * bool(verdicts)
    rows = [_row(case, by_name.get(case.name), heads) for case in record.measured_cases]
    lines = [f"### rlox bench suite={record.suite}", "", *_aligned([heads, *rows]), ""]
    return "\n".join([*lines, *_notes(record, baseline), *_outcome_lines(verdicts, record, baseline)])


def _row(case: CaseMeasurements, verdict: BaselineVerdict | None, heads: Sequence[str]) -> list[str]:
    estimate, fastest_peer = case.estimate("cpu"), case.fastest()
    cells = {
        "case": case.name,
        "time": duration(statistics.median(case.seconds)),
        "ratio to the fastest peer": "-" if fastest_peer is None else _ratio_text(*fastest_peer),
        "to the yardstick": f"{estimate.ratio:.3g} [{estimate.low:.3g}, {estimate.high:.3g}]",
        "noise": f"{100 * estimate.relative_error:.1f}%",
        "instructions": f"{case.instructions:,.0f}" if case.instructions else "-",
        "against the baseline": "" if verdict is None else _verdict_cell(verdict),
    }
    return [cells[head] for head in heads]


def _ratio_text(peer: str, ratio: Ratio) -> str:
    return f"{ratio.value:.3g}x [{ratio.low:.3g}, {ratio.high:.3g}] {peer}"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a Markdown table whose source is readable, with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "| " + " | ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    return [lines[0], "|" + "|".join("-" * (w + 2) for w in widths) + "|", *lines[1:]]


def _verdict_cell(verdict: BaselineVerdict) -> str:
    if verdict.state == NEW:
        return "not in it"
    if verdict.state == NOISY:
        return f"too noisy to say (±{100 * verdict.tolerance:.0f}%)"
    label = {SLOWER: "SLOWER ", FASTER: "faster "}.get(verdict.state, "")
    note = ", with the same instructions" if verdict.state == UNPROVEN else ""
    return f"{label}{verdict.time_ratio:.2f}x (±{100 * verdict.tolerance:.0f}%){note}"


def _notes(record: BenchRecord, baseline: Baseline | None) -> list[str]:
    """Return notes on how to read the table, and on what is missing in it."""
    machine = record.machine
    notes = [
        f"{machine.get('cpu')}, {machine.get('cores')} cores, load {machine.get('load')} at the start; "
        + ", ".join(f"{name} {version}" for name, version in record.versions.items())
        + ".",
        "Higher is better for the ratio to a peer (its time over ours, 95% interval), lower for that to the "
        "yardstick (our CPU time over its).",
    ]
    if record.absent:
        notes.append(f"Not installed, and so not measured: {', '.join(record.absent)}.")
    if baseline:
        differs = [
            f"{item}: {old}, now {new}" for item, old, new in _differences(baseline, record) if old != new
        ]
        notes.append(f"Baseline of {baseline.date}.")
        if differs:
            notes.append(
                f"It differs in {'; '.join(differs)}. Ratios depend on that: measure a baseline here."
            )
    return notes


def _differences(baseline: Baseline, record: BenchRecord) -> Iterable[tuple[str, object, object]]:
    for key in ("cpu", "blas"):
        yield key, baseline.machine.get(key), record.machine.get(key)
    for package in ("python", "numpy", "torch"):
        yield package, baseline.versions.get(package), record.versions.get(package)


def _outcome_lines(
    verdicts: Sequence[BaselineVerdict], record: BenchRecord, baseline: Baseline | None
) -> Iterable[str]:
    """Yield a sentence for each case that became slower."""
    if baseline is None:
        return
    slower = [v for v in verdicts if v.state == SLOWER]
    noisy = sum(v.state == NOISY for v in verdicts)
    yield ""
    for verdict in slower:
        yield f"**slower**: {verdict.name}: {_verdict_sentence(verdict)}"
    if not slower:
        yield f"Nothing became slower: {len(verdicts)} cases" + (
            f", of which {noisy} are too noisy to say." if noisy else "."
        )
    missing = sorted(baseline.passes.keys() - record.cases.keys())
    if missing:
        yield f"In the baseline and not measured here: {len(missing)} cases, the first {missing[0]}."


def _verdict_sentence(verdict: BaselineVerdict) -> str:
    clock = "CPU time" if verdict.clock == "cpu" else "wall time"
    text = (
        f"{clock} {verdict.old:.3g} -> {verdict.new:.3g} yardsticks, {verdict.time_ratio:.2f}x, "
        f"tolerance {1 + verdict.tolerance:.2f}x"
    )
    if verdict.instructions is None:
        return f"{text}; instructions were not counted in both"
    then, now = verdict.instructions
    return f"{text}; instructions {then:,.0f} -> {now:,.0f}, {now / then:.2f}x"
