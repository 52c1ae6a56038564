"""A pretended Slurm: `sbatch`, `srun`, `sacct`, `scancel` and `scontrol` that run scripts on this machine.

`commands(folder)` writes them into a folder for the front of `PATH`. The scripts that are submitted really
run, `FAKE_SLURM_SLOTS` (2) at a time, detached from whoever submitted them, with Slurm's variables; states
are files in `folder/state`, and what they were is in `folder/log`.
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
    """Write the commands; the folder that is to be in `PATH`."""
    (folder / "state").mkdir(parents=True)
    for name in NAMES:
        path = folder / name
        path.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{__file__}" "$0" "$@"\n')
        path.chmod(0o755)
    return folder


class Cluster:
    """The states of its jobs, a file each: the state, and the process while there is one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def sbatch(self, script: str) -> None:
        """Run a script, or each task of its array: as it is now, for submitit moves its file at once."""
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
            for descriptor in (0, 1, 2):  # whoever submitted waits for their end
                os.dup2(nothing, descriptor)
            self.run(script, names)

    def run(self, script: str, names: list[str]) -> None:
        """Run the tasks, some at a time, until none is left."""
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
        """Run a task as Slurm would."""
        job, _, task = name.partition("_")
        env = {**os.environ, "SLURM_JOB_ID": job}
        if task:
            env |= {"SLURM_ARRAY_JOB_ID": job, "SLURM_ARRAY_TASK_ID": task}
        process = subprocess.Popen(["bash", script], env=env, start_new_session=True)
        self.write(name, f"RUNNING {process.pid}")
        return process

    def srun(self, *args: str) -> None:
        """The command behind the options, its output where they say."""
        arguments, job = list(args), os.environ["SLURM_JOB_ID"]
        if task := os.environ.get("SLURM_ARRAY_TASK_ID"):
            job = f"{job}_{task}"
        while arguments[0].startswith("--"):
            option = arguments.pop(0)
            if option in ("--output", "--error"):
                name = arguments.pop(0).replace("%A_%a", job).replace("%j", job).replace("%t", "0")
                # the task may begin before whoever submitted it has made the folder of its output
                Path(name).parent.mkdir(parents=True, exist_ok=True)
                file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
                os.dup2(file, 1 if option == "--output" else 2)
        self.step(job).write_text(str(os.getpid()))
        os.execvp(arguments[0], arguments)

    def sacct(self, *args: str) -> None:
        """The states of all jobs."""
        print("JobID|State|NodeList")
        for path in sorted(self.folder.iterdir()):
            print(f"{path.name}|{self.read(path.name)[0]}|here")

    def scancel(self, name: str, *options: str) -> None:
        """End a task, or let it never begin; or send what its script runs a signal, and not the script."""
        state, *script = self.read(name)
        if options and state != "PENDING":
            os.kill(int(self.step(name).read_text()), signal.Signals[options[-1]])
            return
        self.write(name, "CANCELLED")
        if script:
            with suppress(ProcessLookupError):
                os.killpg(int(script[0]), signal.SIGTERM)

    def scontrol(self, verb: str, name: str) -> None:
        """Have a task begin again once it has ended."""
        assert verb == "requeue"
        self.write(name, "REQUEUED")

    def step(self, name: str) -> Path:
        """The file with the process that the script of a task runs."""
        return self.folder.with_name(f".step-{name}")

    def read(self, name: str) -> list[str]:
        """The state of a task, and its process."""
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
