"""What changed since: the answer over the stay, and what moved it between two times."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from report_shapes import small

from dynamask_mlflow.report import Course, render_report

pytestmark = pytest.mark.browser


def test_the_reader_sets_two_times_and_is_told_what_moved_the_answer(watch: Any) -> None:
    moves = np.zeros((1, 4, 2))
    moves[0, 1, 0], moves[0, 2, 1], moves[0, 3, 0] = 1.0, -0.5, 2.0
    course = Course(
        steps=[2, 4, 6, 8], answers=[[0.1, 0.3, 0.2, 0.6]], moves=moves, elapsed=np.zeros((1, 4)), unit="log-odds"
    )
    names = {"channel_names": ["Lactate", "GCS"], "times": range(1, 9), "time_unit": "hour"}
    page, complaints = watch(render_report(small(np.zeros((1, 8, 2)), predictions=[0.6], course=course, **names)))
    page.click("#tab-instances")
    words = page.locator(".card", has_text="What changed since?").locator(".sentence")
    assert (
        "From hour 6 to hour 8 it went from 20.0\u00a0% to 60.0\u00a0%, raised most by Lactate." in words.inner_text()
    )
    page.get_by_role("slider", name="From").fill("0")
    assert "From hour 2 to hour 8" in words.inner_text()
    bars = page.locator("[aria-label='What moved it'] .contribution").all_inner_texts()
    assert [" ".join(bar.split()) for bar in bars] == [
        "Lactate mostly hours 7\N{EN DASH}8 +3.00 log-odds",
        "GCS mostly hours 5\N{EN DASH}6 \N{MINUS SIGN}0.50 log-odds",
    ]
    page.get_by_role("slider", name="To").focus()
    page.keyboard.press("ArrowLeft")
    assert "From hour 2 to hour 6 it went from 10.0\u00a0% to 20.0\u00a0%" in words.inner_text()
    assert complaints == []
