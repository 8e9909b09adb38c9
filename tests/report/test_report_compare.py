"""Two evaluations on one page, matched by their instances."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dynamask_mlflow.evaluation.compare import Evaluated, compare_evaluations, moved_channels
from dynamask_mlflow.masks.result import Masks
from dynamask_mlflow.report import render_report

N, T, D = 12, 5, 3


def evaluated(label: str, channel: int, ids: list[str], risk: float) -> Evaluated:
    """Masks that hold one channel, with a little of the others."""
    cells = np.random.default_rng(channel).uniform(0, 0.2, (len(ids), T, D)).astype(np.float32)
    cells[:, 2, channel] = 0.9
    area = np.full(len(ids), 1 / (T * D))
    masks = Masks(cells, cells, np.array([0.1]), np.zeros((len(ids), 1)), area)
    risks = np.full(len(ids), risk)
    return Evaluated(label, masks, ids, ["a", "b", "c"], range(T), risks, "classification")


def test_instances_are_matched_by_id_and_differences_are_told() -> None:
    one = evaluated("version 1", 0, [f"i{k}" for k in range(N)], 0.2)
    two = evaluated("version 2", 1, [f"i{k}" for k in reversed(range(2, N + 2))], 0.7)
    data = compare_evaluations(one, two, "2026-01-01")
    assert list(data.ids) == [f"i{k}" for k in range(2, N)]
    np.testing.assert_allclose(np.asarray(data.metrics["difference"]), 0.5)
    assert np.asarray(data.metrics["overlap"]).max() == 0
    assert data.compared is not None
    assert {0, 1} <= set(data.compared.moved_channels)
    assert data.compared.rows["Instances on other sides of the threshold"] == N - 2
    same = compare_evaluations(one, one, "2026-01-01")
    assert np.asarray(same.metrics["agreement"]).min() == 1
    assert same.compared is not None
    assert same.compared.moved_channels == []


def test_chance_moves_no_channel() -> None:
    rng = np.random.default_rng(0)
    found = [moved_channels(rng.dirichlet(np.ones(10), 40), rng.dirichlet(np.ones(10), 40)) for _ in range(10)]
    assert sum(bool(channels) for channels in found) <= 3


def test_runs_that_cannot_be_compared_are_refused() -> None:
    one = evaluated("a", 0, ["x"], 0.2)
    with pytest.raises(ValueError, match="Expected instances that both runs have explained"):
        compare_evaluations(one, evaluated("b", 0, ["y"], 0.2), "")
    other = Evaluated("b", one.masks, ["x"], ["a", "b", "d"], range(T), one.predictions, "classification")
    with pytest.raises(ValueError, match="Expected two evaluations with the same channel_names"):
        compare_evaluations(one, other, "")


@pytest.mark.browser
def test_the_page_shows_both(watch: Any) -> None:
    ids = [f"i{k}" for k in range(N)]
    data = compare_evaluations(evaluated("version 1", 0, ids, 0.2), evaluated("version 2", 1, ids, 0.7), "2026-01-01")
    page, complaints = watch(render_report(data), 1200)
    assert page.locator("#panel-compare .headline p").first.inner_text().startswith("version 2 looks differently")
    page.click("#tab-instances")
    assert "Version 2 says 70.0\u00a0%." in page.locator(".detail .sentence").inner_text()
    page.select_option("select[aria-label='Which answer is explained']", label="version 2")
    assert "Version 1 says 20.0\u00a0%." in page.locator(".detail .sentence").inner_text()
    assert page.locator(".detail .said strong").inner_text() == "70.0\u00a0%"
    page.click("#tab-compare")
    with page.expect_download() as download:
        page.locator(".card", has_text="Side by side").get_by_role("button", name="Save the figure").click()
    assert Path(download.value.path()).read_bytes().startswith(b"\x89PNG")
    assert complaints == []
