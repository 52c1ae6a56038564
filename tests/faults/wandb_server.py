"""Imitates a W&B server in this process, as far as a run needs one, and keeps the received data.

It speaks the protocol of W&B's client: GraphQL for runs and locations of files, lines of `file_stream` for
rows.
"""

from __future__ import annotations

import gzip
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "local-" + "0" * 40  # as long as a W&B key


class WandbServer:
    """Runs by id: rows by their place in the run's history, configuration, summary, names of files."""

    def __init__(self, rewinds: bool = True) -> None:
        self.rewinds = rewinds
        self.queries: list[str] = []  # names of the GraphQL operations, in order
        self.runs: dict[str, dict[str, Any]] = {}
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _body(self) -> bytes:
                if self.headers.get("Transfer-Encoding") == "chunked":
                    body = b""
                    while size := int(self.rfile.readline(), 16):
                        body += self.rfile.read(size)
                        self.rfile.readline()
                    self.rfile.readline()
                else:
                    body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                gzipped = self.headers.get("Content-Encoding") == "gzip"
                return gzip.decompress(body) if gzipped else body

            def _answer(self, data: Any) -> None:
                body = json.dumps(data).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self) -> None:
                body = self._body()
                if self.path == "/graphql":
                    self._answer({"data": server.query(**json.loads(body))})
                else:
                    self._answer(server.stream(self.path, json.loads(body)))

            def do_PUT(self) -> None:
                _, _, run, name = self.path.split("/", 3)
                server.runs[run]["files"][name] = self._body()
                self._answer({})

            def do_GET(self) -> None:
                self._answer({})

            def log_message(self, *args: Any) -> None:
                """Log nothing."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    @contextmanager
    def serving(self) -> Iterator[WandbServer]:
        """Serve in a thread until the block ends."""
        thread = threading.Thread(target=self._http.serve_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._http.shutdown()
            self._http.server_close()
            thread.join()

    def rows(self, run: str) -> list[dict[str, Any]]:
        """Return the rows of a run, in order."""
        history = self.runs[run]["history"]
        assert sorted(history) == list(range(len(history)))
        return [history[i] for i in range(len(history))]

    def query(self, query: str, variables: dict[str, Any] | None = None, **rest: Any) -> Any:
        """Answer a GraphQL query."""
        operation = re.search(r"(?:query|mutation) (\w+)", query)
        name, values = operation[1] if operation else query, variables or {}
        self.queries.append(name)
        if name == "Viewer":
            return {"viewer": {"entity": "me", "username": "me", "teams": {"edges": []}}}
        if name == "RunResumeStatus":
            return {"model": self._resume(values["name"])}
        if name == "UpsertBucket":
            return {"upsertBucket": self._upsert(values)}
        if name == "RewindRun":
            return self._rewind(values)
        if name == "CreateRunFiles":
            return {"createRunFiles": self._places(values)}
        return {}

    def stream(self, path: str, data: dict[str, Any]) -> dict[str, Any]:
        """Store lines of a run's files; a row is a line of its history."""
        run = self.runs[path.split("/")[-2]]
        for name, part in data.get("files", {}).items():
            if name == "wandb-history.jsonl":
                for number, line in enumerate(part["content"], part["offset"]):
                    run["history"][number] = json.loads(line)
            elif name == "wandb-summary.json":
                run["summary"] = json.loads(part["content"][-1])
        run["complete"] = data.get("complete", run["complete"])
        return {}

    def _bucket(self, run: str) -> dict[str, Any]:
        run_record = self.runs[run]
        return {
            "id": run,
            "name": run,
            "displayName": run_record["displayName"],
            "description": None,
            "config": json.dumps(run_record["config"]),
            "sweepName": None,
            "historyLineCount": len(run_record["history"]),
            "project": {
                "id": "p",
                "name": run_record["project"],
                "entity": {"id": "e", "name": "me"},
            },
        }

    def _upsert(self, variables: dict[str, Any]) -> dict[str, Any]:
        new = variables["name"] not in self.runs
        if new:
            self.runs[variables["name"]] = {
                "history": {}, "config": {}, "summary": {}, "files": {}, "complete": False,
                "project": variables["project"], "displayName": variables["displayName"], "tags": None,
                "group": None,
            }  # fmt: skip
        run_record = self.runs[variables["name"]]
        run_record["tags"] = variables.get("tags") or run_record["tags"]
        run_record["group"] = variables.get("groupName") or run_record["group"]
        if variables.get("config"):
            run_record["config"] = json.loads(variables["config"])
        return {"bucket": self._bucket(variables["name"]), "inserted": new}

    def _resume(self, run: str) -> dict[str, Any]:
        if run not in self.runs:
            return {"entity": {"id": "e", "name": "me"}, "bucket": None}
        run_record = self.runs[run]
        tail = [json.dumps(row) for row in list(run_record["history"].values())[-1:]]
        bucket = {
            **self._bucket(run),
            "summaryMetrics": json.dumps(run_record["summary"]),
            "logLineCount": 0,
            "eventsLineCount": 0,
            "historyTail": json.dumps(tail),
            "eventsTail": "[]",
            "notes": None,
            "tags": run_record["tags"] or [],
            "wandbConfig": json.dumps({"t": 1}),
        }
        return {"entity": {"id": "e", "name": "me"}, "bucket": bucket}

    def _rewind(self, variables: dict[str, Any]) -> dict[str, Any]:
        if not self.rewinds:
            return {"rewindRun": None}
        run_record = self.runs[variables["runName"]]
        assert variables["metricName"] == "_step"
        kept_rows = {
            n: row for n, row in run_record["history"].items() if row["_step"] <= variables["metricValue"]
        }
        run_record["history"] = kept_rows
        return {"rewindRun": {"rewoundRun": self._bucket(variables["runName"])}}

    def _places(self, variables: dict[str, Any]) -> dict[str, Any]:
        run = variables["run"]
        files = [
            {"name": name, "uploadUrl": f"{self.url}/storage/{run}/{name}"} for name in variables["files"]
        ]
        return {"runID": run, "uploadHeaders": [], "files": files}
