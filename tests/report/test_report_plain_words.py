"""What a reader is told about unusual answers: the other class, nothing to explain, few instances."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from real_reports import LastValues, Recurrent, compared, report, series
from report_shapes import small

from dynamask_mlflow.report import Contributions, Paired, render_report

pytestmark = pytest.mark.browser


def first_card(page: Any, name: str) -> str:
    page.click("#tab-instances")
    page.get_by_role("row").filter(has=page.get_by_text(name, exact=True)).first.click()
    page.locator(".detail h2").filter(has_text=name).first.wait_for()
    return " ".join(page.locator(".detail .card").first.inner_text().replace("\N{NO-BREAK SPACE}", " ").split())


def test_the_probability_of_the_first_class_is_shown_where_that_is_explained(watch: Any) -> None:
    data = report(LastValues(), series(4, 20, 3), target="class:0")
    page, complaints = watch(render_report(data), 1300)
    survival = np.asarray(data.predictions)[0, 0]
    words = first_card(page, "0")
    assert words.startswith(f"{100 * survival:.1f} % Probability of survival")
    assert "threshold" not in words  # which is of the risk of the second class
    assert f"mean {100 * np.asarray(data.predictions)[:, 0].mean():.1f} %" in words
    assert complaints == []


def test_an_answer_that_nothing_moved_has_no_bars_of_nothing(watch: Any) -> None:
    data = report(LastValues(), series(2, 20, 3), data={"lengths": np.array([8, 20])})
    page, complaints = watch(render_report(data), 1300)
    words = first_card(page, "0")
    assert "Its mask is empty" in words
    assert "Starting from" not in words
    card = page.locator(".detail .card", has_text="What raises it, what lowers it")
    assert "No measurement raised or lowered this answer" in card.inner_text()
    assert card.locator(".contribution").count() == 0
    page.click("#tab-overview")
    assert "nan" not in page.locator("#panel-overview").inner_text()
    assert complaints == []


def test_few_instances_are_not_held_against_the_masks(watch: Any) -> None:
    data = report(LastValues(), series(3, 20, 3))
    page, _ = watch(render_report(data), 1300)
    page.click("#tab-overview")
    tiles = page.locator(".tiles")
    assert "too few instances to be compared with chance" in tiles.inner_text()
    assert "not shown to be better" not in tiles.inner_text()
    assert "[\N{EN DASH}, \N{EN DASH}]" not in tiles.inner_text()
    assert tiles.locator(".badge.bad").count() == 0
    unknown = Paired(shift=0.2, low=np.nan, high=np.nan, instances=3, controls={"random": (0.1, 0.4)})
    lost = small(np.ones((3, 4, 2)), metrics={"ce": np.ones(3)}, paired={"ce": unknown})
    page, _ = watch(render_report(lost), 1300)
    page.click("#tab-overview")
    assert page.locator(".tiles .badge.bad").count() == 1


def test_what_a_compared_model_says_has_its_name(watch: Any) -> None:
    page, complaints = watch(render_report(compared()), 1300)
    assert page.locator("#tab-overview").count() == 0  # its numbers would be of one of the two
    words = first_card(page, "3")
    assert "Risk of class 1, version 1" in words
    assert "version 1 " in page.locator(".chart.answer").get_attribute("aria-label")
    assert complaints == []


def test_the_bars_say_where_they_start_and_what_they_leave_out(watch: Any) -> None:
    cells = np.zeros((4, 12, 2))
    cells[:, 8, 0] = 0.2
    answers = np.full(4, -1.8)
    found = Contributions(
        cells=cells,
        answer=answers,
        reference=answers - 0.2,
        logit=True,
        unit="log-odds",
        target="the risk of death",
        against="with every channel held level",
        held_level=True,
    )
    risks = 1 / (1 + np.exp(-answers))
    for mean, said in ((0.4, True), (0.125, False)):
        data = small(np.abs(cells), predictions=risks, contributions=found, population=mean, time_unit="hour")
        page, _ = watch(render_report(data), 1300)
        assert "Starting from 11.9 %, the model's answer with every channel held level" in first_card(page, "i0")
        note = page.locator(".detail .card", has_text="What raises it, what lowers it").locator(".note").inner_text()
        assert ("not at the mean of 40.0" in note) is said


def test_a_part_of_the_page_is_one_click_away(watch: Any) -> None:
    data = report(
        Recurrent(6, 2),
        series(6, 24, 6),
        data={"targets": np.arange(6) % 2},
        log_inputs=True,
        change_since=12,
        change_padding="carry",
    )
    page, complaints = watch(render_report(data), 1300)
    words = first_card(page, "0")
    assert "Since hour 11 from" in words
    assert "Trust" in words
    titles = {
        "Why": "What raises it, what lowers it",
        "What changed": "What changed since?",
        "Where and when": "Where and when",
        "Measurements": "The measurements themselves",
        "Trust": "Can this mask be trusted?",
        "Numbers": "In numbers",
    }
    for name, title in titles.items():
        page.get_by_role("navigation", name="Parts of this instance").get_by_role("button", name=name).click()
        assert page.evaluate("document.activeElement.textContent") == title
    assert complaints == []


def test_of_an_answer_at_every_step_the_explained_one_is_told(watch: Any) -> None:
    data = report(Recurrent(3, 1, each_step=True), series(2, 12, 3), "regression", target="step:11")
    page, complaints = watch(render_report(data), 1300)
    value = float(np.asarray(data.predictions).reshape(2, 12)[0, 11])
    said = first_card(page, "0").replace("\N{MINUS SIGN}", "-")
    assert f"The value at hour 11: {value:.3f}." in said
    assert complaints == []
