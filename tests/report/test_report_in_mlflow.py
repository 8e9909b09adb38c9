"""The report where it lives: the artifact pane of a real MLflow server, in a real browser."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from icu_example import icu_report
from stores import new_store

from dynamask_mlflow.report import render_report

pytestmark = [pytest.mark.browser, pytest.mark.server, pytest.mark.slow]


def wait_for(url: str, server: subprocess.Popen[bytes], seconds: float = 120) -> None:
    for _ in range(int(seconds * 4)):
        if server.poll() is not None:
            raise RuntimeError(f"Expected a running server, but it ended with code {server.returncode}.")
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.25)
    raise RuntimeError(f"Expected an answer from {url} within {seconds} s, but got none.")


@pytest.fixture(scope="module")
def server(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real tracking server on sqlite with proxied artifacts; the browser comes first, to skip early."""
    home = tmp_path_factory.mktemp("mlflow")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "mlflow",
        "server",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--workers",
        "1",
    ]
    stores = [
        "--backend-store-uri",
        new_store(home),
        "--artifacts-destination",
        str(home / "files"),
    ]
    with (home / "log").open("wb") as log:
        process = subprocess.Popen([*command, *stores], cwd=home, stdout=log, stderr=log, start_new_session=True)
    try:
        wait_for(f"http://127.0.0.1:{port}/health", process)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=30)


def log_report(server: str, html: str, folder: Path) -> tuple[str, str]:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=server)
    experiment = client.create_experiment("icu")
    run = client.create_run(experiment)
    file = folder / "report.html"
    file.write_text(html, encoding="utf-8")
    client.log_artifact(run.info.run_id, str(file), "dynamask")
    client.set_terminated(run.info.run_id)
    return experiment, run.info.run_id


def test_report_is_browsed_inside_the_mlflow_ui(browser: Any, server: str, tmp_path: Path) -> None:
    data = icu_report(120)
    experiment, run = log_report(server, render_report(data), tmp_path)
    page = browser.new_page(viewport={"width": 1500, "height": 950})
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on(
        "console",
        lambda m: complaints.append(m.text) if m.type == "error" and m.location["url"].startswith("blob:") else None,
    )
    page.goto(f"{server}/#/experiments/{experiment}/runs/{run}/artifacts/dynamask/report.html")
    frame = page.frame_locator("iframe[src^='blob:']")
    frame.locator("h1").wait_for(timeout=60_000)
    assert frame.locator("h1").inner_text() == data.title
    page.screenshot(path=tmp_path / "overview.png")

    frame.locator("#tab-instances").click()
    frame.locator("select[aria-label='Sort by']").select_option("metric:entropy")
    first = frame.locator(".space .row").first
    assert data.ids[int(np.argmax(data.metrics["entropy"]))] in first.inner_text()
    frame.locator("select[aria-label='Show']").select_option("flipped=1")
    flipped = int(np.count_nonzero(data.metrics["flipped"]))
    assert frame.locator(".count").inner_text() == f"{flipped} of 120 instances"
    chosen = frame.locator(".space .row").nth(1)
    name = chosen.inner_text().split("\n")[0]
    chosen.click()
    assert frame.locator(".detail h2").first.inner_text() == name

    heat = frame.locator(".detail .heat")
    heat.locator(".overlay").wait_for()
    heat.scroll_into_view_if_needed()
    n = data.ids.index(name)
    leading = data.channel_names[int(np.asarray(data.masks)[n].sum(axis=0).argmax())]
    heat.hover(position={"x": heat.bounding_box()["width"] / 2, "y": 54})
    assert frame.locator("#tip").inner_text().startswith(f"{leading}, hour ")
    assert (
        "salient with probability 0." in frame.locator("#tip").inner_text()
        or "salient with probability 1." in frame.locator("#tip").inner_text()
    )
    page.screenshot(path=tmp_path / "instance.png")
    page.close()
    assert complaints == []
