"""Imitates Slurm: `sbatch`, `srun`, `sacct`, `scancel` and `scontrol` run scripts on this machine.

`commands(folder)` writes them into a folder for the front of `PATH`. The cluster really runs the submitted
scripts, `FAKE_SLURM_SLOTS` (2) at a time, with Slurm's variables and detached from the submitting process.
States are files in `folder/state`; `folder/log` has all states in order.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

NAMES = ("sbatch", "srun", "sacct", "scancel", "scontrol")


def commands(folder: Path) -> Path:
    """Write the commands and return the folder to put into `PATH`."""
    (folder / "state").mkdir(parents=True)
    for name in NAMES:
        path = folder / name
        path.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{__file__}" "$0" "$@"\n')
        path.chmod(0o755)
    return folder


class Cluster:
    """The states of its jobs, one file each: the state, and the process id while the job runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def sbatch(self, script: str) -> None:
        """Run a script, or each task of its array, from a copy, because submitit moves its file at once."""
        text = Path(script).read_text()
        number = str(1000 + len(list(self.folder.iterdir())))
        script = str(self.folder.with_name(f".script-{number}"))
        Path(script).write_text(text)
        array = re.search(r"#SBATCH --array=0-(\d+)", text)
        names = [f"{number}_{n}" for n in range(int(array[1]) + 1)] if array else [number]
        for name in names:
            self.write(name, "PENDING")
        print(f"Submitted batch job {number}", flush=True)
        if os.fork() == 0:
            os.setsid()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})
            nothing = os.open(os.devnull, os.O_RDWR)
            for descriptor in (0, 1, 2):  # the submitting process waits until these are closed
                os.dup2(nothing, descriptor)
            self.run(script, names)

    def run(self, script: str, names: list[str]) -> None:
        """Run the tasks, some at a time, until all have ended."""
        waiting, busy = list(names), dict[str, subprocess.Popen[bytes]]()
        while waiting or busy:
            while waiting and len(busy) < int(os.environ.get("FAKE_SLURM_SLOTS", "2")):
                name = waiting.pop(0)
                if self.read(name)[0] == "PENDING":
                    busy[name] = self.begin(script, name)
            for name, process in list(busy.items()):
                if process.poll() is None:
                    continue
                del busy[name]
                if self.read(name)[0] == "REQUEUED":
                    self.write(name, "PENDING")
                    waiting.append(name)
                elif self.read(name)[0] == "RUNNING":
                    self.write(name, "COMPLETED" if process.returncode == 0 else "FAILED")
            time.sleep(0.05)

    def begin(self, script: str, name: str) -> subprocess.Popen[bytes]:
        """Start a task with Slurm's variables."""
        job, _, task = name.partition("_")
        env = {**os.environ, "SLURM_JOB_ID": job}
        if task:
            env |= {"SLURM_ARRAY_JOB_ID": job, "SLURM_ARRAY_TASK_ID": task}
        process = subprocess.Popen(["bash", script], env=env, start_new_session=True)
        self.write(name, f"RUNNING {process.pid}")
        return process

    def srun(self, *args: str) -> None:
        """Run the command after the options, with its output in the files that the options name."""
        arguments, job = list(args), os.environ["SLURM_JOB_ID"]
        if task := os.environ.get("SLURM_ARRAY_TASK_ID"):
            job = f"{job}_{task}"
        while arguments[0].startswith("--"):
            option = arguments.pop(0)
            if option in ("--output", "--error"):
                name = arguments.pop(0).replace("%A_%a", job).replace("%j", job).replace("%t", "0")
                # The task may begin before the submitting process has made the folder of its output.
                Path(name).parent.mkdir(parents=True, exist_ok=True)
                file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
                os.dup2(file, 1 if option == "--output" else 2)
        self.step(job).write_text(str(os.getpid()))
        os.execvp(arguments[0], arguments)

    def sacct(self, *args: str) -> None:
        """Print the states of all jobs."""
        print("JobID|State|NodeList")
        for path in sorted(self.folder.iterdir()):
            print(f"{path.name}|{self.read(path.name)[0]}|here")

    def scancel(self, name: str, *options: str) -> None:
        """Cancel a running or waiting task; or, with options, signal its script's child process only."""
        state, *script = self.read(name)
        if options and state != "PENDING":
            os.kill(int(self.step(name).read_text()), signal.Signals[options[-1]])
            return
        self.write(name, "CANCELLED")
        if script:
            with suppress(ProcessLookupError):
                os.killpg(int(script[0]), signal.SIGTERM)

    def scontrol(self, verb: str, name: str) -> None:
        """Make a task run again after it has ended."""
        assert verb == "requeue"
        self.write(name, "REQUEUED")

    def step(self, name: str) -> Path:
        """Return the file with the id of the process that the script of a task runs."""
        return self.folder.with_name(f".step-{name}")

    def read(self, name: str) -> list[str]:
        """Return the state of a task and its process id."""
        return (self.folder / name).read_text().split()

    def write(self, name: str, text: str) -> None:
        """Replace the state of a task."""
        fresh = self.folder.with_name(f".{name}")
        fresh.write_text(text)
        fresh.replace(self.folder / name)
        with self.folder.with_name("log").open("a") as log:
            log.write(f"{name} {text}\n")


if __name__ == "__main__":
    called = Path(sys.argv[1])
    getattr(Cluster(called.parent / "state"), called.name)(*sys.argv[2:])
