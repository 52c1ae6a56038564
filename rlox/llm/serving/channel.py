"""HTTP requests to a server, with limits on time, retries and bytes, and descriptive errors."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from typing import Any

from rlox.errors import ConfigError, GenerationError, MissingExtraError
from rlox.extras import install_command

__all__ = ["Channel"]

RETRY_STATUSES = (408, 425, 429, 500, 502, 503, 504)  # statuses of errors that may be temporary
MAX_ERROR_TEXT = 300  # maximum number of characters of a server's reply in an error


class Channel:
    """A thread-safe JSON client for one server.

    Parameters
    ----------
    url : base address, such as `http://127.0.0.1:8000`
    timeout : seconds for a request, including the connection
    retries : retries of a request that failed, timed out or got a broken reply
    retry_delay : seconds before the first retry; doubled for each further one
    max_bytes : maximum bytes of a reply
    key : sent as a bearer token
    """

    def __init__(
        self,
        url: str,
        timeout: float = 120.0,
        retries: int = 2,
        retry_delay: float = 0.5,
        max_bytes: int = 64 << 20,
        key: str | None = None,
    ) -> None:
        try:
            import httpx
        except ImportError as error:
            raise MissingExtraError(f"generation servers need httpx: {install_command('llm')}") from error
        try:
            is_valid_url = httpx.URL(url).scheme in ("http", "https") and bool(httpx.URL(url).host)
        except httpx.InvalidURL:
            is_valid_url = False
        if not is_valid_url:
            raise ConfigError(f"url={url}: expected http:// or https:// and the server's address")
        if timeout <= 0 or retries < 0 or retry_delay < 0 or max_bytes < 1:
            raise ConfigError(
                f"timeout={timeout}, retries={retries}, retry_delay={retry_delay}, max_bytes={max_bytes}: "
                "expected timeout > 0, retries >= 0, retry_delay >= 0 and max_bytes >= 1"
            )
        self.url, self.timeout, self.retries, self.retry_delay, self.max_bytes = (
            url.rstrip("/"), timeout, retries, retry_delay, max_bytes,
        )  # fmt: skip
        self._httpx: Any = httpx
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        # ignore proxy variables of the environment, so that prompts go to the url only
        self._client = httpx.Client(headers=headers, trust_env=False)
        self.failures = 0  # failed requests that were retried
        self._lock = threading.Lock()

    def post(self, path: str, body: Mapping[str, Any], reads_reply: bool = True) -> Any:
        """Post a request and return the parsed reply; with `reads_reply=False` the reply is ignored.

        Raises `GenerationError` after the last retry, or without a retry if the error is permanent.
        """
        for attempt in range(self.retries + 1):
            try:
                return self._request(path, body, reads_reply)
            except _RequestError as error:
                if attempt == self.retries or not error.can_retry:
                    tries = f" (tried {attempt + 1} times)" if attempt else ""
                    raise GenerationError(f"{self.url}{path} {error}{tries}") from error
                with self._lock:
                    self.failures += 1
                time.sleep(self.retry_delay * 2**attempt)
        raise AssertionError("unreachable: the last try returns or raises")

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _request(self, path: str, body: Mapping[str, Any], reads_reply: bool) -> Any:
        httpx, deadline = self._httpx, time.monotonic() + self.timeout
        try:
            with self._client.stream("POST", self.url + path, json=body, timeout=self.timeout) as reply:
                data = self._read(reply, deadline)
        except httpx.TimeoutException as error:
            raise _RequestError(f"did not answer within {self.timeout:g} s", True) from error
        except httpx.HTTPError as error:
            raise _RequestError(f"cannot be reached: {str(error) or type(error).__name__}", True) from error
        if reply.status_code != 200:
            text = data.decode(errors="replace").strip()[:MAX_ERROR_TEXT]
            can_retry = reply.status_code in RETRY_STATUSES
            raise _RequestError(f"answers {reply.status_code}: {text or 'nothing'}", can_retry)
        if not reads_reply:
            return None
        try:
            return json.loads(data)
        except ValueError as error:
            excerpt = data[:MAX_ERROR_TEXT].decode(errors="replace")
            raise _RequestError(f"answers {len(data)} bytes that are no JSON: {excerpt}", True) from error

    def _read(self, reply: Any, deadline: float) -> bytes:
        """Read the whole reply, within the limits of bytes and time."""
        parts, size = [], 0
        for part in reply.iter_bytes():
            parts.append(part)
            size += len(part)
            if size > self.max_bytes:
                raise _RequestError(f"answers more than {self.max_bytes:,} bytes", False)
            if time.monotonic() > deadline:
                raise _RequestError(f"did not finish its answer within {self.timeout:g} s", True)
        return b"".join(parts)


class _RequestError(Exception):
    """A failed request; `can_retry` tells whether another try may succeed."""

    def __init__(self, text: str, can_retry: bool) -> None:
        super().__init__(text)
        self.can_retry = can_retry
