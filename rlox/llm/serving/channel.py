"""Requests to a server: with limits of time, tries and bytes, and errors that say what it did."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from typing import Any

from rlox.errors import ConfigError, GenerationError, MissingExtraError
from rlox.extras import install

__all__ = ["Channel"]

AGAIN = (408, 425, 429, 500, 502, 503, 504)  # of what may be different the next time
SHOWN = 300  # characters of what a server says


class Channel:
    """JSON to one server and back, from any thread.

    Parameters
    ----------
    url : `http://127.0.0.1:8000`
    timeout : seconds until a request is answered, connecting among them
    retries : how often a request is made again that failed, timed out or came back broken
    wait : seconds before the first of these, twice as many before each further one
    most : bytes of an answer at most
    key : sent as a bearer token
    """

    def __init__(
        self,
        url: str,
        timeout: float = 120.0,
        retries: int = 2,
        wait: float = 0.5,
        most: int = 64 << 20,
        key: str | None = None,
    ) -> None:
        try:
            import httpx
        except ImportError as error:
            raise MissingExtraError(f"generation servers need httpx: {install('llm')}") from error
        try:
            good = httpx.URL(url).scheme in ("http", "https") and bool(httpx.URL(url).host)
        except httpx.InvalidURL:
            good = False
        if not good:
            raise ConfigError(f"url={url}: expected http:// or https:// and the server's address")
        if timeout <= 0 or retries < 0 or wait < 0 or most < 1:
            raise ConfigError(
                f"timeout={timeout}, retries={retries}, wait={wait}, most={most}: expected a time above 0, "
                "retries and wait >= 0, and a byte at least"
            )
        self.url, self.timeout, self.retries, self.wait, self.most = (
            url.rstrip("/"), timeout, retries, wait, most,
        )  # fmt: skip
        self._httpx: Any = httpx
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        # no proxy of the environment: prompts go where the url says, and nowhere else
        self._client = httpx.Client(headers=headers, trust_env=False)
        self.failures = 0  # of requests that were made again
        self._lock = threading.Lock()

    def post(self, path: str, body: Mapping[str, Any], read: bool = True) -> Any:
        """What the server answers; `GenerationError` after the last try, or for what no try would change.

        With `read=False` that it does, whatever it says: None.
        """
        for attempt in range(self.retries + 1):
            try:
                return self._once(path, body, read)
            except _Broken as error:
                if attempt == self.retries or not error.again:
                    tries = f" (tried {attempt + 1} times)" if attempt else ""
                    raise GenerationError(f"{self.url}{path} {error}{tries}") from error
                with self._lock:
                    self.failures += 1
                time.sleep(self.wait * 2**attempt)
        raise AssertionError("unreachable: the last try returns or raises")

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _once(self, path: str, body: Mapping[str, Any], read: bool) -> Any:
        httpx, end = self._httpx, time.monotonic() + self.timeout
        try:
            with self._client.stream(
                "POST", self.url + path, json=body, timeout=self.timeout
            ) as reply:
                said = self._read(reply, end)
        except httpx.TimeoutException as error:
            raise _Broken(f"did not answer within {self.timeout:g} s", True) from error
        except httpx.HTTPError as error:
            raise _Broken(f"cannot be asked: {str(error) or type(error).__name__}", True) from error
        if reply.status_code != 200:
            text = said.decode(errors="replace").strip()[:SHOWN]
            again = reply.status_code in AGAIN
            raise _Broken(f"answers {reply.status_code}: {text or 'nothing'}", again)
        if not read:
            return None
        try:
            return json.loads(said)
        except ValueError as error:
            start = said[:SHOWN].decode(errors="replace")
            raise _Broken(f"answers {len(said)} bytes that are no JSON: {start}", True) from error

    def _read(self, reply: Any, end: float) -> bytes:
        """The whole answer, as long as it is not too long and does not come too slowly."""
        parts, size = [], 0
        for part in reply.iter_bytes():
            parts.append(part)
            size += len(part)
            if size > self.most:
                raise _Broken(f"answers more than {self.most:,} bytes", False)
            if time.monotonic() > end:
                raise _Broken(f"did not answer whole within {self.timeout:g} s", True)
        return b"".join(parts)


class _Broken(Exception):
    """What became of one request, and whether another one may do better."""

    def __init__(self, text: str, again: bool) -> None:
        super().__init__(text)
        self.again = again
