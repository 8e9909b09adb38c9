"""Pictures of a report, by a real browser: python docs/images/make_report_images.py REPORT.html [INSTANCE]

The report is the one that `make demo` logs. Each picture answers one of the questions of docs/report.md.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import Page, sync_playwright

FOLDER = Path(__file__).parent
CARDS = {
    "report-why": ".detail > .card:nth-of-type(1), .detail > .card:nth-of-type(2)",
    "report-change": ".detail > .card:has(.slider output):has(.chart)",
    "report-trust": ".detail > .card:has(.checks)",
    "report-relies": "#panel-overview > .stack > .card:has(.heat)",
}


def picture(page: Page, name: str, selector: str) -> None:
    boxes = [found.bounding_box() for found in page.locator(selector).all()]
    known = [box for box in boxes if box]
    left, top = min(box["x"] for box in known), min(box["y"] for box in known)
    right = max(box["x"] + box["width"] for box in known)
    bottom = max(box["y"] + box["height"] for box in known)
    area = {"x": left - 8, "y": top - 8, "width": right - left + 16, "height": bottom - top + 16}
    page.screenshot(path=FOLDER / f"{name}.png", clip=area, full_page=True)


def main(report: str, instance: str | None = None) -> None:
    address = Path(report).resolve().as_uri()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(f"{address}#part=overview")
        page.wait_for_timeout(500)
        picture(page, "report-relies", CARDS["report-relies"])
        page.goto("about:blank")
        page.goto(f"{address}#part=instances" + (f"&id={quote(instance)}" if instance else ""))
        page.wait_for_timeout(500)
        page.screenshot(path=FOLDER / "report-instance.png")
        for name in ("report-why", "report-change", "report-trust"):
            if page.locator(CARDS[name]).count():
                picture(page, name, CARDS[name])
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
