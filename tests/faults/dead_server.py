"""Servers that refuse, fail, hang, answer slowly or have no address."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

MODES = ("refuses", "500", "hangs", "slow", "no such name")
ANSWER = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
HEALTHY_REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@contextmanager
def dead_server(mode: str, slow: float = 30.0, healthy: bool = False) -> Iterator[str]:
    """Yield the address of a server with this fault; it runs until the block ends.

    In the mode `slow` it answers after `slow` seconds. With `healthy` it answers `GET /health` with success,
    and only that.
    """
    if mode == "no such name":
        yield "http://nowhere.invalid:80"
        return
    with closing(socket.socket()) as listening:
        listening.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        if mode != "refuses":
            listening.listen(64)
            args = (listening, mode, slow, healthy)
            threading.Thread(target=_serve, args=args, daemon=True).start()
        yield url


def marked_processes(mark: str) -> list[int]:
    """Return the running processes that have this text in their environment."""
    process_ids = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            alive = place.joinpath("stat").read_text().rpartition(")")[2].split()[0] != "Z"
            if alive and mark.encode() in (place / "environ").read_bytes():
                process_ids.append(int(place.name))
    return [pid for pid in process_ids if pid != os.getpid()]


def _serve(listening: socket.socket, mode: str, slow: float, healthy: bool) -> None:
    connections = []  # without a reference Python would close a connection
    while True:
        try:
            connection, _ = listening.accept()
        except OSError:
            return
        connections.append(connection)
        args = (connection, mode, slow, healthy)
        threading.Thread(target=_answer, args=args, daemon=True).start()


def _answer(connection: socket.socket, mode: str, slow: float, healthy: bool) -> None:
    with suppress(OSError), connection:
        request = connection.recv(65536)
        if healthy and request.startswith(b"GET /health"):
            connection.sendall(HEALTHY_REPLY)
            return
        if mode == "hangs":
            threading.Event().wait()
        time.sleep(slow if mode == "slow" else 0.0)
        connection.sendall(ANSWER)
