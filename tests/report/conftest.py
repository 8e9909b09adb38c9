"""A real browser for the pages, where there is one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next((p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None)
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield chromium
        chromium.close()


class Watched:
    """A page that remembers everything it complained about."""

    def __init__(self, browser: Any, folder: Path, width: int = 660, scheme: str = "light") -> None:
        self.folder, self.complaints = folder, []
        self.page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.page.on("console", lambda m: self.complaints.append(m.text) if m.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", self._dialog)
        self.page.on("request", self._request)

    def _dialog(self, dialog: Any) -> None:
        self.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _request(self, request: Any) -> None:
        if not request.url.startswith(("file:", "blob:", "data:")):
            self.complaints.append(f"request: {request.url}")

    def open(self, html: str) -> Any:
        path = self.folder / "report.html"
        path.write_text(html, encoding="utf-8")
        self.page.goto(path.as_uri())
        return self.page


@pytest.fixture
def watch(browser: Any, tmp_path: Path) -> Iterator[Any]:
    """A function that opens a page of HTML and hands back (page, complaints)."""
    opened: list[Watched] = []

    def start(html: str, width: int = 660, scheme: str = "light") -> tuple[Any, list[str]]:
        watched = Watched(browser, tmp_path, width, scheme)
        opened.append(watched)
        return watched.open(html), watched.complaints

    yield start
    for watched in opened:
        watched.page.close()
