"""Weights & Biases: one file in the run folder, or a server (`WANDB_BASE_URL`)."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from rlox.loggers.base import Row, RunInfo, SinkBrokenError
from rlox.loggers.remote import SyncRecord, first_rows, read_result

__all__ = ["WandbSink"]

REQUEST_TIMEOUT = 60.0  # seconds per request and run start; the follower retries
FINISH_TIMEOUT = 240.0  # seconds until all data is at the server
NAME = "wandb"
LIVE_FOLDER = "live"  # folder in wandb/ of an open run; leftovers of a kill are removed
UNNEEDED_FOLDERS = ("logs", "tmp")


class WandbSink:
    """Writes one W&B run, also after a resume; `_step` is the row's number, the x-axis the row's `unit`.

    Offline there is one file under `wandb/`, with all rows. W&B cannot append to a file, so a new file
    replaces it if rows are added or removed later. The file is complete once the run has ended; after a kill
    it is incomplete until `rlox sync` or a resume. Online the server reports how many rows it has. Rows are
    removed by W&B's rewind; if the server refuses it, they stay, and the new rows come after them.
    """

    def __init__(self, run_dir: Path, run_info: RunInfo) -> None:
        os.environ["WANDB_ERROR_REPORTING"] = "false"
        os.environ["WANDB_SILENT"] = "true"
        self._wandb = import_module("wandb")
        self._run_dir, self._run_info = run_dir, run_info
        self._sync_record = SyncRecord(run_dir, NAME, "run")
        self._wandb_dir = run_dir / "wandb"
        self._live_dir = self._wandb_dir / LIVE_FOLDER
        for place in ("WANDB_CACHE_DIR", "WANDB_DATA_DIR"):  # not the user's folders
            os.environ[place] = str(self._live_dir)
        self._run: Any = None
        self._n_rows = 0  # rows that the run has, or will have once it is started

    def open(self, rows: int) -> int:
        """Continue the run; return how many of the first `rows` rows it has."""
        self._sync_record.ensure_id(new_id=uuid.uuid4().hex[:8])
        if self._is_online:
            return self._open_online(rows)
        if self._run is not None and self._n_rows == rows:
            return rows
        self._close_run()
        self._n_rows = rows if self._is_complete(rows) else 0
        if not self._n_rows:
            self._discard_files()
        return self._n_rows

    def write(self, rows: Sequence[Row]) -> None:
        """Log the next rows; offline, a complete file is rewritten first."""
        self._ensure_run()
        self._log(rows)

    def finish(self) -> None:
        """Send the result and changed files, and wait until everything is stored."""
        files = self._sync_record.unsent(bool(self._run_info.logger_config["checkpoints"]))
        if self._run is None and not files and (self._is_online or self._is_complete(self._n_rows)):
            return
        self._ensure_run()
        result = read_result(self._run_dir)
        scores = {f"result/{k}": v for k, v in result.items() if isinstance(v, (int, float, str))}
        self._run.summary.update(scores)
        for name, path in files.items():
            if path.is_dir():
                self._send_checkpoint(name, path)
            else:
                self._run.save(str(path), base_path=str(self._run_dir), policy="now")
        self._run.finish(exit_code=1 if result.get("status") == "failed" else 0)
        self._run = None
        self._sync_record.note_sent(files)
        if self._is_online:
            self._mark_synced()
        else:
            self._keep_finished_run()
        shutil.rmtree(self._live_dir, ignore_errors=True)

    def close(self) -> None:
        """Close a run that has not ended."""
        self._close_run()
        shutil.rmtree(self._live_dir, ignore_errors=True)

    def abandon(self) -> None:
        """Do nothing: the caller ends the process."""

    @property
    def _is_online(self) -> bool:
        return bool(self._run_info.logger_config["mode"] == "online")

    def _open_online(self, rows: int) -> int:
        """Ask the server how many rows it has, remove those beyond `rows`, and return how many are left."""
        self._close_run()
        self._start()
        shift = int(self._sync_record.data.get("shift", 0))
        n_remote = int(self._run.starting_step) - shift
        if n_remote > rows:
            self._rewind(rows, shift, n_remote)
            n_remote = rows
        self._n_rows = max(n_remote, 0)
        return self._n_rows

    def _rewind(self, rows: int, shift: int, n_remote: int) -> None:
        """Rewind to `rows` rows; if the server refuses, the next `open` appends after all existing rows."""
        last = rows + shift - 1
        self._close_run()
        if last >= 0:
            try:
                self._start(resume_from=f"{self._sync_record.data['id']}?_step={last}")
                return
            except SinkBrokenError as error:
                if "rewind" not in str(error):
                    raise
        self._sync_record.save(shift=shift + n_remote - rows)
        raise SinkBrokenError(
            f"W&B cannot remove rows here: {n_remote - rows} rows are there twice, the new rows last"
        )

    def _ensure_run(self) -> None:
        """Start a run if none is open; offline the kept rows are logged again, online the server has them."""
        if self._run is None:
            self._start()
            if not self._is_online:
                earlier_rows, self._n_rows = first_rows(self._run_dir, self._n_rows), 0
                self._log(earlier_rows)

    def _start(self, resume_from: str | None = None) -> None:
        is_online = self._is_online
        if not is_online:
            self._discard_files()
        shutil.rmtree(self._live_dir, ignore_errors=True)  # the folder may contain settings from elsewhere
        self._live_dir.mkdir(parents=True)
        options: dict[str, Any] = {"resume_from": resume_from} if resume_from else {}
        if is_online and not resume_from:
            options = {"resume": "allow"}
        try:
            self._run = self._init(options)
        except Exception as error:  # W&B's service keeps a failed run: a new process is needed
            raise SinkBrokenError(f"{type(error).__name__}: {error}") from error
        self._run.define_metric(self._run_info.unit)
        self._run.define_metric("*", step_metric=self._run_info.unit)

    def _init(self, options: Mapping[str, Any]) -> Any:
        logger_config = self._run_info.logger_config
        return self._wandb.init(
            id=None if "resume_from" in options else self._sync_record.data["id"],
            mode=logger_config["mode"],
            dir=str(self._live_dir),
            project=logger_config["project"],
            entity=logger_config["entity"],
            group=logger_config["group"],
            name=self._run_info.name,
            tags=list(self._run_info.tags),
            config=dict(self._run_info.config),
            allow_val_change=True,
            settings=self._settings(),
            **options,
        )

    def _settings(self) -> Any:
        """Return settings that restrict W&B to the given data: no console, machine data, code or links."""
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
            init_timeout=REQUEST_TIMEOUT,
            finish_timeout=FINISH_TIMEOUT,
            finish_timeout_raises=True,
            x_graphql_timeout_seconds=REQUEST_TIMEOUT,
            x_file_stream_timeout_seconds=REQUEST_TIMEOUT,
            x_file_transfer_timeout_seconds=REQUEST_TIMEOUT,
        )

    def _log(self, rows: Sequence[Row]) -> None:
        shift = int(self._sync_record.data.get("shift", 0)) if self._is_online else 0
        for row in rows:
            values: Mapping[str, Any] = {k: v for k, v in row.items() if v is not None}
            self._run.log(dict(values), step=self._n_rows + shift, commit=True)
            self._n_rows += 1

    def _send_checkpoint(self, name: str, path: Path) -> None:
        artifact = self._wandb.Artifact(
            f"{self._sync_record.data['id']}-{Path(name).name}", "model", metadata={"step": path.name}
        )
        artifact.add_dir(str(path))
        self._run.log_artifact(artifact, aliases=[Path(name).name])

    def _close_run(self) -> None:
        """Finish the open run as it is."""
        run, self._run = self._run, None
        if run is not None:
            run.finish(exit_code=0)

    def _keep_finished_run(self) -> None:
        """Move the finished run out of the folder of open runs."""
        for path in self._live_dir.glob("wandb/offline-run-*"):
            for name in UNNEEDED_FOLDERS:
                shutil.rmtree(path / name, ignore_errors=True)
            path.rename(self._wandb_dir / path.name)
        self._sync_record.save(file=self._file_sizes(), rows=self._n_rows)

    def _files(self) -> list[Path]:
        return sorted(self._wandb_dir.glob("offline-run-*/run-*.wandb"))

    def _file_sizes(self) -> list[Any]:
        return [[path.name, path.stat().st_size] for path in self._files()]

    def _is_complete(self, rows: int) -> bool:
        """Whether the file is unchanged since it was complete, with `rows` rows."""
        data = self._sync_record.data
        return bool(data.get("file")) and data["file"] == self._file_sizes() and data["rows"] == rows

    def _discard_files(self) -> None:
        """Remove the files of earlier sessions, whose rows are written again."""
        self._sync_record.save(file=[], rows=0, sent={})
        for path in self._wandb_dir.glob("offline-run-*"):
            shutil.rmtree(path, ignore_errors=True)

    def _mark_synced(self) -> None:
        """Mark offline files as synced for `wandb sync`, since the server has their data."""
        for path in self._files():
            path.with_name(f"{path.name}.synced").touch()
