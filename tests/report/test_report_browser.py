"""The page by itself, in a real browser: what a reader can do with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from icu_example import icu_report, with_drift, with_methods
from report_shapes import every_shape, small

from dynamask_mlflow.report import Curves, MethodResult, render_report

pytestmark = pytest.mark.browser
HOSTILE = "</script><img src=x onerror=alert(1)><!--"


def rows(page: Any, selector: str = ".space .row") -> list[str]:
    return [text.split("\n")[0] for text in page.locator(selector).all_inner_texts()]


def wide_enough(page: Any) -> bool:
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return bool(page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [660, 1500])
def test_every_part_opens_without_a_complaint(watch: Any, width: int, scheme: str) -> None:
    page, complaints = watch(render_report(with_methods(with_drift(icu_report(40)))), width, scheme)
    for part in ("overview", "instances", "methods", "guide", "drift"):
        page.click(f"#tab-{part}")
        assert page.locator(f"#panel-{part} h2").count() > 0
        assert wide_enough(page), f"{part} is wider than the window"
    assert complaints == []
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, background[4:-1].split(","))) < 200) == (scheme == "dark")


def test_sorting_and_filtering_the_list(watch: Any) -> None:
    data = icu_report(200)
    page, complaints = watch(render_report(data))
    page.click("#tab-instances")
    area = np.asarray(data.metrics["area"])
    page.select_option("select[aria-label='Sort by']", "metric:area")
    assert rows(page)[0] == data.ids[int(np.argmax(area))]
    assert page.locator("[aria-sort='descending']").inner_text().startswith("Area")
    page.click("button[aria-label='Reverse the order']")
    assert rows(page)[0] == data.ids[int(np.argmin(area))]

    page.select_option("select[aria-label='Show']", "flipped=1")
    flipped = int(np.count_nonzero(data.metrics["flipped"]))
    assert page.locator(".count").inner_text() == f"{flipped} of 200 instances"
    page.select_option("select[aria-label='Show']", "")
    page.fill("input[type=search]", data.ids[7])
    assert rows(page) == [data.ids[7]]
    page.fill("input[type=search]", "nobody")
    assert page.get_by_text("No instance fits these filters.").is_visible()
    assert complaints == []


def test_the_list_offers_what_divides_it_with_counts(watch: Any) -> None:
    n = 30
    constant = np.arange(n) < 4
    data = icu_report(n)
    metrics = {**data.metrics, "constant_prediction": constant, "dead_gradient": np.zeros(n, dtype=bool)}
    page, complaints = watch(render_report(icu_report(n, metrics=metrics)))
    page.click("#tab-instances")
    offered = page.locator("select[aria-label='Show'] option").all_inner_texts()
    died = int(np.count_nonzero(np.asarray(data.targets)))
    risky = int(np.count_nonzero(np.asarray(data.predictions) >= 0.5))
    assert {f"Predicted death ({risky})", f"Actually death ({died})", "Nothing to explain: yes (4)"} <= set(offered)
    assert not any(text.startswith("No gradient") for text in offered)  # nobody has it: nothing to choose
    page.select_option("select[aria-label='Show']", "constant_prediction=1")
    assert sorted(rows(page)) == sorted(data.ids[:4])
    page.select_option("select[aria-label='Show']", "before:death")
    assert page.locator(".count").inner_text() == f"{risky} of {n} instances"
    assert complaints == []


def test_values_are_offered_by_their_highest_and_lowest_fifth(watch: Any) -> None:
    page, complaints = watch(render_report(small(np.zeros((20, 3, 2)), "regression", predictions=np.arange(20.0))))
    page.click("#tab-instances")
    offered = page.locator("select[aria-label='Show'] option").all_inner_texts()
    assert offered[1:] == ["Predicted highest, from 15 (5)", "Predicted lowest, up to 3 (4)"]
    page.select_option("select[aria-label='Show']", "before~low")
    assert rows(page) == ["i0", "i1", "i2", "i3"]
    assert complaints == []


def test_padding_and_filled_in_cells_differ_in_looks_and_words(watch: Any) -> None:
    observed = np.ones((1, 8, 2), dtype=bool)
    observed[0, 3, 0] = False
    masks = np.zeros((1, 8, 2))
    masks[0, 0, 0] = 1
    page, complaints = watch(render_report(small(masks, lengths=[6], observed=observed)))
    page.click("#tab-instances")
    heat = page.locator(".detail .heat")
    heat.locator(".overlay").wait_for()
    heat.focus()
    told = []
    for _ in range(8):
        page.keyboard.press("ArrowRight")
        told.append(page.locator("#tip").inner_text().split("\n")[1])
    nothing = "salient with probability 0.00"
    assert told[2:4] == [nothing, "not measured, filled in"]
    assert told[5:] == [nothing, *["after the end of this series"] * 2]
    assert page.get_by_text("Hatched: after the end of this series.").count() == 1
    assert page.locator(".who .badge").last.inner_text() == "steps 0 to 5"
    assert complaints == []
    share = """(node, [t0, t1]) => {
      const g = JSON.parse(node.dataset.plot), ratio = window.devicePixelRatio || 1;
      const pen = node.querySelector("canvas").getContext("2d");
      const at = [g.left + t0 * g.across, g.top, (t1 - t0) * g.across, g.down].map((v) => Math.round(v * ratio));
      const data = pen.getImageData(...at).data;
      return data.filter((v, i) => i % 4 === 3 && v > 0).length / (data.length / 4);
    }"""
    measured, filled_in, padded = (heat.evaluate(share, span) for span in ([2, 3], [3, 4], [6, 8]))
    assert measured > 0.9
    assert 0 < filled_in < 0.2
    assert 0.03 < padded < 0.5


def test_what_was_filled_in_is_dashed_in_the_series_and_coloured_where_it_is_salient(watch: Any) -> None:
    observed = np.ones((1, 8, 2), dtype=bool)
    observed[0, 3:6, 0] = False
    masks = np.zeros((1, 8, 2))
    masks[0, 2:5, 0] = 1
    page, complaints = watch(render_report(small(masks, inputs=np.ones((1, 8, 2)), observed=observed)))
    page.click("#tab-instances")
    spark = page.locator(".spark").first
    spark.locator("circle").first.wait_for()
    assert spark.locator("circle").count() == 5
    stretches = {look: spark.locator(f"path.line{look}").get_attribute("d") for look in (".filled", ":not(.filled)")}
    assert [path.count("M") for path in stretches.values()] == [3, 4]
    dashes = spark.locator("path.filled").evaluate("node => getComputedStyle(node).strokeDasharray")
    assert dashes != "none"
    page.locator(".detail .heat").focus()
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    told = page.locator("#tip").inner_text()
    assert "filled in, not measured" in told
    assert "salient with probability 1.00" in told
    assert complaints == []


def test_a_thousand_instances_draw_only_the_rows_in_sight(watch: Any) -> None:
    html = render_report(icu_report(1000))
    assert len(html.encode()) < 20_000_000
    page, complaints = watch(html)
    page.click("#tab-instances")
    assert page.locator(".space .row").count() < 40
    page.locator("[role=grid]").focus()
    page.keyboard.press("End")
    assert page.locator("[aria-selected='true'][role=row]").get_attribute("aria-rowindex") == "1001"
    assert complaints == []


def test_picking_an_instance_shows_its_prediction(watch: Any) -> None:
    data = icu_report(20)
    page, _ = watch(render_report(data))
    page.click("#tab-instances")
    page.select_option("select[aria-label='Sort by']", "id")
    page.get_by_role("row", name=data.ids[4]).click()
    assert page.locator(".detail h2").first.inner_text() == data.ids[4]
    assert (
        page.locator(".said strong").inner_text() == f"{100 * np.asarray(data.predictions)[4]:.1f}\N{NO-BREAK SPACE}%"
    )
    page.get_by_role("button", name="Next").click()
    assert page.locator(".detail h2").first.inner_text() == data.ids[5]


def test_a_cell_tells_its_value_to_the_mouse_and_to_the_keyboard(watch: Any) -> None:
    masks = np.zeros((1, 4, 3))
    masks[0, 2, 1] = 0.8
    times = ["00:00", "06:00", "12:00", "18:00"]
    data = small(masks, channel_names=["x", "y", "z"], times=times, time_unit="time")
    page, complaints = watch(render_report(data))
    page.click("#tab-instances")
    heat = page.locator(".detail .heat")
    heat.locator(".overlay").wait_for()
    heat.focus()
    for key in (
        "ArrowRight",
        "ArrowRight",
        "ArrowRight",
    ):  # the first key enters the map at the leading channel
        page.keyboard.press(key)
    assert page.locator("#tip").inner_text().split("\n") == ["y, time 12:00", "salient with probability 0.80"]
    page.keyboard.press("Escape")
    assert page.locator("#tip").is_hidden()

    geometry = heat.evaluate("node => ({...JSON.parse(node.dataset.plot), place: null})")
    box = heat.bounding_box()
    page.mouse.move(
        box["x"] + geometry["left"] + 2.5 * geometry["across"],
        box["y"] + geometry["top"] + geometry["down"] / 2,
    )
    assert page.locator("#tip").inner_text().startswith("y, time 12:00")
    assert page.locator(".detail .readout").inner_text() == "y, time 12:00 · salient with probability 0.80"
    assert complaints == []


def test_the_reader_can_choose_an_area(watch: Any) -> None:
    page, _ = watch(render_report(icu_report(5)))
    page.click("#tab-instances")
    page.get_by_text("Choose an area").click()
    page.locator(".slider input").fill("50")
    assert page.locator(".slider output").inner_text() == "25\N{NO-BREAK SPACE}% of the cells"


def test_a_click_on_the_overview_lists_the_instances_that_the_channel_leads(watch: Any) -> None:
    data = icu_report(60)
    page, _ = watch(render_report(data))
    page.click("#tab-overview")
    heat = page.locator("#panel-overview .heat")
    heat.locator(".overlay").wait_for()
    heat.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    top = int(np.argmax(np.asarray(data.masks).sum(axis=(0, 1))))
    led = np.asarray(data.masks).sum(axis=1).argmax(axis=1) == top
    assert page.locator(".count").inner_text().startswith(f"{np.count_nonzero(led)} of 60")


def test_hostile_names_stay_text(watch: Any) -> None:
    text = dict.fromkeys(["title", "model", "created_at", "time_unit", "method"], HOSTILE)
    lists = {key: [HOSTILE] for key in ["notes", "warnings"]}
    words = {key: {HOSTILE: HOSTILE} for key in ["settings", "explanations"]}
    hostile = icu_report(
        6,
        **text,
        **lists,
        **words,
        ids=[f"{HOSTILE}{i}" for i in range(6)],
        channel_names=[HOSTILE] * 32,
        times=[HOSTILE] * 48,
        class_names=[HOSTILE, "ok"],
        summary={HOSTILE: 1.0},
        metrics={HOSTILE: np.arange(6.0), "flipped": np.arange(6) > 2},
    )
    page, complaints = watch(render_report(with_methods(with_drift(hostile))))
    for part in ("overview", "instances", "methods", "guide", "drift"):
        page.click(f"#tab-{part}")
    assert page.locator("h1").inner_text() == HOSTILE
    assert page.locator("img").count() == 0
    assert complaints == []


@pytest.mark.parametrize("name", list(every_shape()))
def test_every_shape_of_data_is_drawn_without_a_complaint(watch: Any, name: str) -> None:
    page, complaints = watch(render_report(every_shape()[name]))
    for tab in page.locator("[role=tab]").all():
        tab.click()
        assert wide_enough(page)
    assert complaints == []


def test_print_shows_every_part_in_light_colours(watch: Any) -> None:
    page, complaints = watch(render_report(icu_report(5)), scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert all(panel.is_visible() for panel in page.locator("[role=tabpanel]").all())
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(26, 32, 51)"
    assert complaints == []


def test_methods_measured_at_different_areas_share_one_figure(watch: Any) -> None:
    curves = {
        "one": Curves(areas=[0.1, 0.3], values={"ce": [1, 2]}),
        "two": Curves(areas=[0.2, 0.4], values={"ce": [2, 3]}),
    }
    data = icu_report(3, comparison={k: MethodResult(metrics={"ce": 1.0}, curves=v) for k, v in curves.items()})
    page, complaints = watch(render_report(data))
    page.click("#tab-methods")
    chart = page.locator("#panel-methods .chart")
    chart.locator("path.line").first.wait_for(state="attached")
    assert chart.locator("path.line").count() == 2
    chart.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.locator("#tip").inner_text().split("\n")[1:] == ["two: 2"]
    assert complaints == []
