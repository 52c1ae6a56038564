"""Weights & Biases: one file in the run folder, or the server that the environment names."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from rlox.loggers.base import Row, Spent, Told
from rlox.loggers.remote import Record, first_rows, result_of

__all__ = ["WandbSink"]

TIMEOUT = 60.0  # seconds for a request, and for a run to begin; the follower tries again by itself
FINISH = 240.0  # seconds until what was handed over is at the server
NAME = "wandb"
LIVE = "live"  # folder in wandb/ of a run that goes on; what a kill left there is removed
USELESS = ("logs", "tmp")


class WandbSink:
    """One W&B run, also of a run that is resumed; `_step` is the row's number, the axis the row's `unit`.

    Offline there is one file under `wandb/`, with all rows: W&B cannot go on with a file, so a new one takes
    its place where rows are added or taken back later. It is whole once the run has ended; of a run that was
    killed it is short until `rlox sync` or going on with the run. Online the server says how many rows it
    has. Rows are taken back by W&B's rewind; where the server refuses that, they stay, and the rows that
    took their place come after them.
    """

    def __init__(self, folder: Path, told: Told) -> None:
        os.environ["WANDB_ERROR_REPORTING"] = "false"
        os.environ["WANDB_SILENT"] = "true"
        self._wandb = import_module("wandb")
        self._folder, self._told = folder, told
        self._record = Record(folder, NAME, "run")
        self._home = folder / "wandb"
        self._live = self._home / LIVE
        for place in ("WANDB_CACHE_DIR", "WANDB_DATA_DIR"):  # not those of the user
            os.environ[place] = str(self._live)
        self._run: Any = None
        self._held = 0  # rows that the run has, or will have once it is begun

    def open(self, rows: int) -> int:
        """Go on with the run; how many of the first `rows` rows it has."""
        self._record.id(new=uuid.uuid4().hex[:8])
        if self._online:
            return self._open_online(rows)
        if self._run is not None and self._held == rows:
            return rows
        self._drop()
        self._held = rows if self._whole(rows) else 0
        if not self._held:
            self._forget()
        return self._held

    def write(self, rows: Sequence[Row]) -> None:
        """Log the next rows; offline, a file that was whole is written anew first."""
        self._begin()
        self._log(rows)

    def finish(self) -> None:
        """Send what has changed besides rows, and wait until all is there."""
        files = self._record.unsent(bool(self._told.own["checkpoints"]))
        if self._run is None and not files and (self._online or self._whole(self._held)):
            return
        self._begin()
        result = result_of(self._folder)
        scores = {f"result/{k}": v for k, v in result.items() if isinstance(v, (int, float, str))}
        self._run.summary.update(scores)
        for name, path in files.items():
            if path.is_dir():
                self._send_checkpoint(name, path)
            else:
                self._run.save(str(path), base_path=str(self._folder), policy="now")
        self._run.finish(exit_code=1 if result.get("status") == "failed" else 0)
        self._run = None
        self._record.note_sent(files)
        if self._online:
            self._mark_synced()
        else:
            self._keep_file()
        shutil.rmtree(self._live, ignore_errors=True)

    def close(self) -> None:
        """Let go of a run that did not come to its end."""
        self._drop()
        shutil.rmtree(self._live, ignore_errors=True)

    def abandon(self) -> None:
        """Whoever runs this ends the process."""

    @property
    def _online(self) -> bool:
        return bool(self._told.own["mode"] == "online")

    def _open_online(self, rows: int) -> int:
        """Ask the server how many rows it has, and have it take back what is beyond."""
        self._drop()
        self._start()
        shift = int(self._record.data.get("shift", 0))
        there = int(self._run.starting_step) - shift
        if there > rows:
            self._rewind(rows, shift, there)
            there = rows
        self._held = max(there, 0)
        return self._held

    def _rewind(self, rows: int, shift: int, there: int) -> None:
        """Go back to `rows` rows; where the server does not, the next `open` goes on behind all there are."""
        last = rows + shift - 1
        self._drop()
        if last >= 0:
            try:
                self._start(resume_from=f"{self._record.data['id']}?_step={last}")
                return
            except Spent as error:
                if "rewind" not in str(error):
                    raise
        self._record.save(shift=shift + there - rows)
        raise Spent(
            f"W&B takes no rows back here: {there - rows} are there twice, the new ones behind"
        )

    def _begin(self) -> None:
        """Have a run that has the rows held: of one that is online it is the server's, which has them."""
        if self._run is None:
            self._start()
            if not self._online:
                before, self._held = first_rows(self._folder, self._held), 0
                self._log(before)

    def _start(self, resume_from: str | None = None) -> None:
        online = self._online
        if not online:
            self._forget()
        shutil.rmtree(self._live, ignore_errors=True)  # perhaps with settings, of a stranger
        self._live.mkdir(parents=True)
        how: dict[str, Any] = {"resume_from": resume_from} if resume_from else {}
        if online and not resume_from:
            how = {"resume": "allow"}
        try:
            self._run = self._init(how)
        except Exception as error:  # its service holds on to a run that it could not begin
            raise Spent(f"{type(error).__name__}: {error}") from error
        self._run.define_metric(self._told.unit)
        self._run.define_metric("*", step_metric=self._told.unit)

    def _init(self, how: Mapping[str, Any]) -> Any:
        own = self._told.own
        return self._wandb.init(
            id=None if "resume_from" in how else self._record.data["id"],
            mode=own["mode"],
            dir=str(self._live),
            project=own["project"],
            entity=own["entity"],
            group=own["group"],
            name=self._told.name,
            tags=list(self._told.tags),
            config=dict(self._told.config),
            allow_val_change=True,
            settings=self._settings(),
            **how,
        )

    def _settings(self) -> Any:
        """What keeps W&B to what it is given: no console, no machine, no code, no links."""
        return self._wandb.Settings(
            silent=True,
            console="off",
            symlink=False,
            save_code=False,
            disable_git=True,
            disable_code=True,
            disable_job_creation=True,
            x_disable_stats=True,
            x_disable_meta=True,
            x_disable_machine_info=True,
            x_save_requirements=False,
            init_timeout=TIMEOUT,
            finish_timeout=FINISH,
            finish_timeout_raises=True,
            x_graphql_timeout_seconds=TIMEOUT,
            x_file_stream_timeout_seconds=TIMEOUT,
            x_file_transfer_timeout_seconds=TIMEOUT,
        )

    def _log(self, rows: Sequence[Row]) -> None:
        shift = int(self._record.data.get("shift", 0)) if self._online else 0
        for row in rows:
            told: Mapping[str, Any] = {k: v for k, v in row.items() if v is not None}
            self._run.log(dict(told), step=self._held + shift, commit=True)
            self._held += 1

    def _send_checkpoint(self, name: str, path: Path) -> None:
        artifact = self._wandb.Artifact(
            f"{self._record.data['id']}-{Path(name).name}", "model", metadata={"step": path.name}
        )
        artifact.add_dir(str(path))
        self._run.log_artifact(artifact, aliases=[Path(name).name])

    def _drop(self) -> None:
        """Leave the run that is open as it is."""
        run, self._run = self._run, None
        if run is not None:
            run.finish(exit_code=0)

    def _keep_file(self) -> None:
        """Move the run that has ended out of the folder of those that go on."""
        for path in self._live.glob("wandb/offline-run-*"):
            for name in USELESS:
                shutil.rmtree(path / name, ignore_errors=True)
            path.rename(self._home / path.name)
        self._record.save(file=self._print(), rows=self._held)

    def _files(self) -> list[Path]:
        return sorted(self._home.glob("offline-run-*/run-*.wandb"))

    def _print(self) -> list[Any]:
        return [[path.name, path.stat().st_size] for path in self._files()]

    def _whole(self, rows: int) -> bool:
        """Whether the file is as it was when it was whole, with that many rows."""
        data = self._record.data
        return bool(data.get("file")) and data["file"] == self._print() and data["rows"] == rows

    def _forget(self) -> None:
        """Remove the files of earlier sessions, whose rows are written again."""
        self._record.save(file=[], rows=0, sent={})
        for path in self._home.glob("offline-run-*"):
            shutil.rmtree(path, ignore_errors=True)

    def _mark_synced(self) -> None:
        """Tell `wandb sync` that the server has what the offline files have."""
        for path in self._files():
            path.with_name(f"{path.name}.synced").touch()
