"""Fingerprints of runs: two runs are the same if everything but their timings is equal."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from rlox.algorithms import ALGORITHMS
from rlox.runs.checkpoint import newest_checkpoint, read_checkpoint
from rlox.sources.store import InMemoryStore

_ARRAYS = ("weights.safetensors", "optimizer.safetensors", "state.safetensors")


def fingerprint(run: Path) -> dict[str, Any]:
    """Return digests by name, so that a difference names its place; equal runs give equal dictionaries."""
    final = newest_checkpoint(run)
    assert final is not None, f"{run} has no checkpoint"
    state = json.loads((final / "state.json").read_bytes())
    session = state["state"].pop("session", {})
    state["session"] = {k: v for k, v in session.items() if k not in ("seconds", "timings")}
    state["config"].pop("run_root")
    manifest = json.loads((final / "manifest.json").read_bytes())
    root = run / "checkpoints"
    return {
        "replay": _rows(final) if manifest["replay"] else None,
        "clock": manifest["clock"],
        **{name: _digest((final / name).read_bytes()) for name in _ARRAYS},
        "state.json": _digest(json.dumps(state, sort_keys=True).encode()),
        "metrics.jsonl": _digest("\n".join(metrics(run)).encode()),
        "metric rows": len(metrics(run)),
        "episodes.jsonl": _digest((run / "episodes.jsonl").read_bytes()),
        "links": {n: str((root / n).readlink()) for n in ("last", "best") if (root / n).exists()},
        "folders": sorted(p.name for p in root.iterdir()),
    }


def metrics(run: Path) -> list[str]:
    """Return the rows of `metrics.jsonl` without `seconds` and `time/*`; a damaged line is an error."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_bytes().splitlines()]
    timed = [{k: v for k, v in r.items() if k != "seconds" and "time/" not in k} for r in rows]
    return [json.dumps(row) for row in timed]


def difference(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Return the names in which two fingerprints differ."""
    return sorted(k for k in one.keys() | other.keys() if one.get(k) != other.get(k))


def _rows(checkpoint: Path) -> str:
    """Return a digest of every byte of the buffer, including priorities and draws."""
    name = read_checkpoint(checkpoint).config["algo"]["name"]
    source = ALGORITHMS[name].from_checkpoint(checkpoint).source
    rows = source.save(InMemoryStore())["buffer"]["rows"]
    return _digest(b"".join(f"{k} ".encode() + np.asarray(v).tobytes() for k, v in rows.items()))


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()
