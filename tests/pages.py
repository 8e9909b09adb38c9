"""A real browser for the pages, where there is one, and how a reader with a keyboard alone goes through them."""

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


# Everything that Tab should reach in the part that is open.
_REACHABLE = """() => [...document.querySelectorAll(
    'a[href], button, input, select, summary, [tabindex="0"]')].filter((node) => {
  if (node.disabled || node.tabIndex < 0 || !node.checkVisibility()) return false;
  return node.type !== 'radio' || node.checked;  // a group of radios is one stop
})"""
_NAME = "(node) => node.id || node.getAttribute('aria-label') || node.className || node.textContent"


def by_keyboard(page: Any) -> list[str]:
    """Go through the open part with Tab, use what has the focus, and name what cannot be reached or does not answer."""
    wrong = []
    reachable = page.evaluate_handle(_REACHABLE)
    total = page.evaluate("(nodes) => nodes.length", reachable)
    page.evaluate("(nodes) => nodes.forEach((node) => { node.dataset.unseen = '1'; })", reachable)
    page.evaluate("() => { document.activeElement?.blur(); window.scrollTo(0, 0); }")
    for _ in range(total + 2):
        page.keyboard.press("Tab")
        kind = page.evaluate(
            """() => {
              const node = document.activeElement;
              delete node.dataset.unseen;
              if (node.matches('.heat, .chart, .spark')) return 'figure';
              return node.matches('[role=grid]') ? 'grid' : node.type === 'range' ? 'range' : '';
            }"""
        )
        if kind == "figure":
            # the focus scrolls the figure into sight, and scrolling closes the tooltip
            page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
            page.keyboard.press("ArrowRight")
            if page.locator("#tip").is_hidden():
                wrong.append(
                    "says nothing to the arrow keys: " + page.evaluate(f"() => ({_NAME})(document.activeElement)")
                )
            page.keyboard.press("Escape")
        elif kind == "range":
            page.keyboard.press("ArrowLeft")
            page.keyboard.press("ArrowRight")
    unseen = page.evaluate(
        f"() => [...document.querySelectorAll('[data-unseen]')].filter((n) => n.isConnected).map({_NAME})"
    )
    return wrong + [f"not reached: {name}" for name in unseen]


def violations(page: Any, *rules: str) -> list[str]:
    """What axe-core finds wrong with the page as it stands; `rules` are all by default."""
    from axe_playwright_python.base import AXE_SCRIPT

    if not page.evaluate("typeof axe !== 'undefined'"):
        page.evaluate(AXE_SCRIPT)
    options: dict[str, Any] = {"resultTypes": ["violations"]}
    if rules:
        options["runOnly"] = list(rules)
    found = page.evaluate("(options) => axe.run(document, options)", options)
    return [f"{v['id']}: {node['html'][:120]}" for v in found["violations"] for node in v["nodes"][:3]]


def read_file(watch: Any, report: Path) -> list[str]:
    """Everything that is wrong with a report that was logged, read as `read_through` does."""
    page, complaints = watch(report.read_text(encoding="utf-8"), 1200)
    return read_through(page) + list(complaints)


def read_through(page: Any) -> list[str]:
    """Open every part, by keys, in light and dark; everything that is wrong with it."""
    wrong = []
    page.emulate_media(reduced_motion="reduce")  # colours that are on their way have no contrast of their own
    for tab in page.locator("[role=tab]").all():
        tab.focus()
        page.keyboard.press("Enter")
        name = tab.inner_text()
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        wrong += [f"{name}: {problem}" for problem in by_keyboard(page)]
        wrong += [f"{name}: {problem}" for problem in violations(page)]
        page.emulate_media(color_scheme="dark")
        wrong += [f"{name}, dark: {problem}" for problem in violations(page, "color-contrast")]
        page.emulate_media(color_scheme="light")
    return wrong
