"""Whether a server answers at all, asked before a process is started that imports the library for it."""

from __future__ import annotations

import os
import ssl
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import SplitResult, urlsplit

from rlox.errors import StorageError

__all__ = ["require_answer"]

TIMEOUT = 60.0  # seconds; a server may take 30 for a request
HEALTH_PATHS = {"wandb": "/healthz", "mlflow": "/health"}  # by logger: what its servers say of themselves


def require_answer(logger: str, address: str, timeout: float = TIMEOUT) -> None:
    """Raise `StorageError` where nothing answers at an address, or only to say that it fails (5xx).

    Every other answer, also a refusal, is left to the library of the logger: it knows keys, certificates and
    paths. So is a server behind a proxy, of which the library knows more, and one that speaks no HTTP.
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
        context.check_hostname = False  # nothing is sent that anybody may not read, and nothing is read
        context.verify_mode = ssl.CERT_NONE
        connection = HTTPSConnection(host, url.port, timeout=timeout, context=context)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


def _has_proxy() -> bool:
    """Whether the environment names one: `https_proxy`, `ALL_PROXY`, `WANDB_HTTPS_PROXY`, ..."""
    names = (name.lower() for name, value in os.environ.items() if value)
    return any(name.endswith("_proxy") and name != "no_proxy" for name in names)
