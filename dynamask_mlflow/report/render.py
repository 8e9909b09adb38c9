"""One self-contained page: template, style and scripts of the package, inlined around the data."""

from __future__ import annotations

import base64
import hashlib
import html
from functools import lru_cache
from importlib.resources import files

from dynamask_mlflow._printable import undirected
from dynamask_mlflow.report.data import ReportData
from dynamask_mlflow.report.encode import script_json
from dynamask_mlflow.report.payload import build_payload


@lru_cache(maxsize=1)
def _assets() -> tuple[str, str, str]:
    """Template, style and script: the bundle that `frontend/` builds."""
    folder = files("dynamask_mlflow.report") / "assets"
    template, style, script = (
        (folder / name).read_text(encoding="utf-8") for name in ("page.html", "report.css", "report.js")
    )
    return template, style, script


def _digest(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def render_report(data: ReportData) -> str:
    """A whole HTML page about the instances in `data`; it needs no network and no library.

    Names travel as JSON and enter the page as text nodes. As a second lock the page's own policy allows the
    one script and the one style sheet that were inlined here, by digest, and nothing else.

    Example:
        >>> from dynamask_mlflow.report import ReportData
        >>> names = {"title": "Masks", "model": "models:/icu/3", "created_at": "2026-03-05", "task": "classification"}
        >>> data = ReportData(**names, ids=["stay 1"], channel_names=["lactate"], times=[0, 1], masks=[[[0.0], [1.0]]])
        >>> page = render_report(data)
        >>> page[:15], "stay 1" in page
        ('<!doctype html>', True)
    """
    template, style, script = _assets()
    payload = build_payload(data)
    blobs = "\n".join(
        f'<script type="text/plain" id="blob-{name}">{text}</script>' for name, text in payload.blobs.items()
    )
    parts = {
        "policy": f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)}",
        "title": html.escape(undirected(data.title.encode("utf-8", "replace").decode())),
        "style": style,
        "blobs": blobs,
        "data": script_json(payload.values),
        "script": script,
    }
    page = template
    pieces = []
    for name, text in parts.items():  # in the order of the template: no part is searched for marks of another
        before, mark, page = page.partition("{{" + name + "}}")
        if not mark:
            raise RuntimeError(f"Expected the mark {name!r} in the page's template, but it is not there.")
        pieces += [before, text]
    return "".join([*pieces, page])
