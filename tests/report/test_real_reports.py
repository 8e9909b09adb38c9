"""Reports of real models by the engine as it is, read in a real browser: no complaint, all by keyboard, axe-core."""

from __future__ import annotations

from typing import Any

import pytest
from pages import read_through
from real_reports import REPORTS

from dynamask_mlflow.report import render_report

pytestmark = pytest.mark.browser
MOST_BYTES = 20_000_000


@pytest.mark.parametrize("name", list(REPORTS))
def test_a_report_is_read_by_keyboard_without_a_complaint_or_a_violation(watch: Any, name: str) -> None:
    html = render_report(REPORTS[name]())
    assert len(html.encode()) < MOST_BYTES
    page, complaints = watch(html, 1200)
    assert read_through(page) == []
    assert complaints == []
