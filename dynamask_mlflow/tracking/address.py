"""The address of a tracking server without its credentials, which MLflow would print with links to runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote, urlsplit, urlunsplit


@contextmanager
def signed_in(tracking_uri: str) -> Iterator[str]:
    """The address to use in the block: user and password of an http URI go into MLflow's variables meanwhile."""
    if not tracking_uri.startswith(("http://", "https://")) or "@" not in urlsplit(tracking_uri).netloc:
        yield tracking_uri
        return
    parts = urlsplit(tracking_uri)
    user, _, password = parts.netloc.rpartition("@")[0].partition(":")
    ours = {"MLFLOW_TRACKING_USERNAME": unquote(user), "MLFLOW_TRACKING_PASSWORD": unquote(password)}
    before = {name: os.environ.get(name) for name in ours}
    os.environ.update(ours)
    try:
        yield urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
