"""How large a report is and how long it takes to open: `python -m benchmarks.report_open REPORT.html`.

Needs playwright and Chromium. The time is from the request to two frames after the first part was drawn, the median of
five openings in a browser that is warm.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import time
from pathlib import Path
from typing import Any

OPENINGS = 5
_DRAWN = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


def opening_seconds(page: Any, address: str) -> float:
    """Seconds until the first part of the page is drawn."""
    page.goto("about:blank")
    begin = time.perf_counter()
    page.goto(address)
    page.locator("[role=tabpanel]:not([hidden]) h2").first.wait_for()
    page.evaluate(_DRAWN)
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=Path)
    report = parser.parse_args().report
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        address = report.resolve().as_uri()
        opening_seconds(page, address)
        seconds = statistics.median(opening_seconds(page, address) for _ in range(OPENINGS))
        browser.close()
    print(f"{report.stat().st_size / 2**20:.1f} MB, open after {seconds:.2f} s")


if __name__ == "__main__":
    main()
