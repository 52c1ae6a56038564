"""Check that a server answers before starting a process that imports its client library."""

from __future__ import annotations

import os
import ssl
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import SplitResult, urlsplit

from rlox.errors import StorageError

__all__ = ["require_answer"]

TIMEOUT = 60.0  # seconds; a server may take 30 for a request
HEALTH_PATHS = {"wandb": "/healthz", "mlflow": "/health"}  # health endpoint, by logger


def require_answer(logger: str, address: str, timeout: float = TIMEOUT) -> None:
    """Raise `StorageError` if no server answers at an address, or only with a server error (5xx).

    Any other answer, even a refusal, is left to the logger's library, which handles keys, certificates and
    paths. Servers behind a proxy and non-HTTP addresses are left to the library, too.
    """
    url = urlsplit(address)
    if url.scheme not in ("http", "https") or _has_proxy():
        return
    try:
        status = _http_status(url, url.path.rstrip("/") + HEALTH_PATHS[logger], timeout)
    except ssl.SSLError:
        return
    except OSError as error:
        raise StorageError(f"no answer from its server: {error}") from error
    except (HTTPException, ValueError):
        return
    if status >= 500:
        raise StorageError(f"its server answers with an error: {status}")


def _http_status(url: SplitResult, path: str, timeout: float) -> int:
    host = url.hostname or ""
    connection = HTTPConnection(host, url.port, timeout=timeout)
    if url.scheme == "https":
        context = ssl.create_default_context()
        context.check_hostname = False  # nothing secret is sent and no content is read
        context.verify_mode = ssl.CERT_NONE
        connection = HTTPSConnection(host, url.port, timeout=timeout, context=context)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


def _has_proxy() -> bool:
    """Whether the environment names a proxy: `https_proxy`, `ALL_PROXY`, `WANDB_HTTPS_PROXY`, ..."""
    names = (name.lower() for name, value in os.environ.items() if value)
    return any(name.endswith("_proxy") and name != "no_proxy" for name in names)
