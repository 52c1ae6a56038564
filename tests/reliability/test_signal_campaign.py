"""Tests 300 signals at random moments: no data is lost, no traceback appears, every code is right."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import nullcontext
from hashlib import blake2b
from pathlib import Path

import pytest
from faults.campaign import PHASES, SIGNALS, SignalPlan, SignalResult, campaign, summary
from faults.report import record
from helpers.selection import FULL

ROOT = Path(__file__).resolve().parents[2]
SEED = 20_261
COUNT = int(os.environ.get("RLOX_SIGNALS", "300")) if FULL else 0
KEPT = ROOT / ".cache" / "signal_campaign.jsonl"


@pytest.fixture(autouse=True)
def heard() -> Iterator[None]:
    """Handle Ctrl-C, which a shell's background processes and their children ignore."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def made_with() -> str:
    """Return a digest of the tested code."""
    digest = blake2b(digest_size=8)
    for folder in ("rlox", "rlox_cli", "tests/faults"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".so"):
                digest.update(path.read_bytes())
    return digest.hexdigest()


def test_the_plan_sends_every_signal_in_every_phase_equally_often() -> None:
    shots = [SignalPlan.of(SEED, number) for number in range(21 * 5)]
    assert shots == [SignalPlan.of(SEED, number) for number in range(21 * 5)]
    planned = [(shot.phase, shot.sent) for shot in shots]
    assert all(planned.count((phase, sent)) == 5 for phase in PHASES for sent in SIGNALS)
    assert len({shot.after for shot in shots}) == len(shots)


def test_a_campaign_that_was_interrupted_goes_on_and_other_code_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fired: list[int] = []

    def fire(shot: SignalPlan, *args: object) -> SignalResult:
        fired.append(shot.number)
        rest = ("", 130, "done", [], 0.1, "", 0.0, "", False)
        return SignalResult(shot.number, shot.phase, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr("faults.campaign.run_plan", fire)
    monkeypatch.setattr("faults.campaign._references", lambda folder: None)
    monkeypatch.setattr("faults.campaign.ChildServer", nullcontext)
    for turn, (count, code) in enumerate([(2, "a"), (4, "a"), (4, "a"), (2, "b")]):
        place = tmp_path / str(turn)
        place.mkdir()
        hits = campaign(count, SEED, code, tmp_path / "kept.jsonl", place, 1)
        assert [hit.number for hit in hits] == list(range(count))
    assert fired == [0, 1, 2, 3, 0, 1]


@pytest.mark.skipif(not FULL, reason="300 signals, half an hour; set RLOX_FULL=1")
@pytest.mark.timeout(3600)
def test_signals_at_random_moments_lose_nothing(tmp_path: Path) -> None:
    hits = campaign(COUNT, SEED, made_with(), KEPT, tmp_path, os.cpu_count() or 1)
    counts = summary(hits)
    record("signal campaign", counts)
    assert [hit for hit in hits if hit.faults] == []
    assert counts["sent"] == COUNT
