"""A sweep worker that trains nothing: seed 3 dies, seed 4 waits for a signal, the others succeed.

A script that runs instead of `rlox_cli/sweeps/start_worker.py` and uses the same protocol. If `FAKE_GATE`
names a file, each job waits in its middle until the file exists.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any


def send_event(event: str, **content: Any) -> None:
    print(json.dumps({"event": event, **content}), flush=True)


def snapshot(now: int) -> dict[str, Any]:
    return {
        "unit": "env_steps",
        "now": now,
        "total": 100,
        "return_mean": 12.5,
        "steps_per_second": 50.0,
        "seconds": 1.0,
        "seconds_left": 1.0,
    }


def run_job(order: dict[str, Any], gate: str | None) -> None:
    print("not an event", flush=True)
    print("a word aside", file=sys.stderr, flush=True)
    seed = next(o.split("=")[1] for o in order["overrides"] if o.startswith("seed="))
    send_event("said", about="begun", text="it trains")
    for now in (10, 60):
        send_event("progress", snapshot=snapshot(now))
    while gate is not None and not Path(gate).exists():
        time.sleep(0.01)
    if seed == "3":
        os.kill(os.getpid(), signal.SIGKILL)
    if seed == "4":
        code = 128 + json.loads(sys.stdin.readline())["stop"]
        send_event("ended", outcome=outcome(order, "killed", code), last=True)
        sys.exit(code)
    send_event("ended", outcome=outcome(order, "done", 0), last=False)


def outcome(order: dict[str, Any], status: str, code: int) -> dict[str, Any]:
    event = {"status": status, "code": code, "message": "", "folder": None}
    return event | {"job": f"{order['job']}_", "identity": str(order["job"])}


def main() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
    sys.stdin.readline()  # the greeting
    while "job" in (order := json.loads(sys.stdin.readline() or "{}")):
        run_job(order, os.environ.get("FAKE_GATE"))


if __name__ == "__main__":
    main()
