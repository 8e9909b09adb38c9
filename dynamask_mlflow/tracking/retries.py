"""How long to wait for a tracking server that does not answer.

MLflow's own client tries for more than eight minutes, at every request. Here a request is given up after seconds, and
the whole is tried again until a time is up: a server that restarts is waited for, one that is gone is reported soon.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

SECONDS_VARIABLE = "DYNAMASK_UPLOAD_SECONDS"
_SECONDS, _PAUSE, _LONGEST_TRY = 30.0, 2.0, 25.0
_OURS = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
}
_PASSING = (408, 425, 429, 502, 503, 504)

Result = TypeVar("Result")


@contextmanager
def short_retries() -> Iterator[None]:
    """Let MLflow's client give up a request after about ten seconds, where the user has not set these variables."""
    ours = {name: value for name, value in _OURS.items() if name not in os.environ}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name in ours:
            os.environ.pop(name, None)


def patiently(work: Callable[[], Result], seconds: float | None = None) -> Result:
    """Do `work`, which can be repeated without harm, again and again until the server answers or the time is up."""
    limit = patience() if seconds is None else seconds
    failed_at: float | None = None
    with short_retries():
        while True:
            begin = time.monotonic()
            try:
                return work()
            except Exception as error:
                now = time.monotonic()
                failed_at = failed_at or now
                next_try = min(now - begin, _LONGEST_TRY)  # a server that hangs costs as much again
                if not is_lost(error) or now + _PAUSE + next_try > failed_at + limit:
                    raise
            time.sleep(_PAUSE)


def patience() -> float:
    """Seconds for which an upload is tried again: DYNAMASK_UPLOAD_SECONDS, or 30."""
    try:
        return max(0.0, min(float(os.environ.get(SECONDS_VARIABLE, _SECONDS)), 86400.0))
    except ValueError:
        return _SECONDS


def answers(tracking_uri: str) -> bool:
    """Whether there is a server at the address, whatever it says; true for stores without one."""
    import requests

    if not tracking_uri.startswith(("http://", "https://")):
        return True
    try:
        requests.get(f"{tracking_uri.rstrip('/')}/health", timeout=3)
    except requests.RequestException:
        return False
    return True


def is_lost(error: BaseException) -> bool:
    """Whether the server did not answer, or asked to come back, rather than said no."""
    import requests

    status = getattr(error, "get_http_status_code", lambda: None)()
    if status in _PASSING:
        return True
    cause: BaseException | None = error
    seen: set[int] = set()
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        if isinstance(cause, requests.ConnectionError | requests.Timeout | ConnectionError | TimeoutError):
            return True
        cause = cause.__cause__ or cause.__context__
    return False
