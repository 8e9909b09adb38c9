"""What a reader does with the page beyond looking: find, compare, take along, and read with a screen reader."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from icu_example import icu_report, with_drift, with_methods
from pages import read_through
from report_shapes import small

from dynamask_mlflow.report import Contributions, TargetView, render_report

pytestmark = pytest.mark.browser


def drawn(page: Any) -> None:
    """Figures are drawn when the browser tells them their size, a frame after they are put into the page."""
    page.locator(".detail .heat .overlay").first.wait_for(state="attached")
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def open_instances(page: Any) -> None:
    page.click("#tab-instances")
    page.locator(".detail .heat .overlay").first.wait_for()


def signed_report(n: int = 4, steps: int = 6, **fields: Any) -> Any:
    """Two channels: the first raises the answer by 1, the second lowers it by .25."""
    cells = np.zeros((n, steps, 2))
    cells[:, 2, 0], cells[:, 3, 1] = 1.0, -0.25
    found = Contributions(
        cells=cells,
        answer=np.zeros(n),
        reference=np.full(n, -0.75),
        logit=True,
        unit="log-odds",
        target="the risk of death",
    )
    return small(
        np.abs(cells),
        channel_names=["K", "GCS"],
        channel_labels=["Potassium (lab)", "Glasgow coma scale"],
        units=["mmol/L", ""],
        times=range(1, steps + 1),
        time_unit="hour",
        predictions=np.full(n, 0.5),
        contributions=found,
        population=0.2,
        threshold=0.5,
        **fields,
    )


def test_the_patient_comes_first(watch: Any) -> None:
    page, complaints = watch(render_report(signed_report()))
    open_instances(page)
    sentence = page.locator(".sentence").inner_text()
    assert sentence == "Above the threshold of 50\u00a0%; the mean of 4 instances is 20.0\u00a0%."
    assert page.locator(".said").inner_text().split() == ["50.0", "%", "Risk", "of", "death"]
    reasons = [" ".join(line.split()) for line in page.locator(".reasons div").all_inner_texts()]
    assert reasons == [
        "Starting from 32.1 %, the model's answer to its baselines",
        "Raised by Potassium (lab) (hour 3)",
        "Lowered by Glasgow coma scale (mostly hour 4)",
        "Would lower it leaving out Potassium (lab): the model would say ≈ 26.9 %",
    ]
    assert page.locator("h3.up + [role=list] strong").all_inner_texts() == ["Potassium (lab)"]
    assert page.locator("h3.down + [role=list] strong").all_inner_texts() == ["Glasgow coma scale"]
    row = page.locator(".contribution").first
    label = row.get_attribute("aria-label")
    assert label.startswith("Potassium (lab), mmol/L: raises by 1; hour 3")
    assert "≈ 26.9\u00a0% without" in label  # the risk at log-odds of 0 - 1
    assert complaints == []


def test_a_link_opens_the_same_instance_and_view(watch: Any) -> None:
    page, complaints = watch(render_report(signed_report(ids=["a", "b & <c>", "d", "e"])))
    open_instances(page)
    page.get_by_role("row", name="b & <c>").click()
    page.get_by_text("Strength", exact=True).click()
    address = page.evaluate("location.href")
    page.goto("about:blank")
    page.goto(address)
    assert page.locator(".detail h2").first.inner_text() == "b & <c>"
    assert page.get_by_role("radio", name="Strength").is_checked()
    page.get_by_role("button", name="Copy link").click()
    assert page.locator(".copied").input_value() == address
    assert complaints == []


def test_filters_take_the_detail_pane_along_and_search_knows_channels(watch: Any) -> None:
    data = icu_report(40)
    page, complaints = watch(render_report(data))
    open_instances(page)
    page.fill("input[aria-label=Find]", data.ids[7])
    assert page.locator(".detail h2").first.inner_text() == data.ids[7]
    page.fill("input[aria-label=Find]", "lactate")
    led = np.asarray(data.masks).sum(axis=1).argmax(axis=1) == list(data.channel_names).index("Lactate")
    assert page.locator(".count").inner_text().startswith(f"{np.count_nonzero(led)} of 40")
    assert page.locator(".detail h2").first.inner_text() in np.asarray(data.ids)[led]
    page.fill("input[aria-label='Find a channel']", "platelets")
    page.locator(".detail .heat[data-rows='1']").first.wait_for()
    assert complaints == []


def saved(page: Any, button: Any) -> str:
    with page.expect_download() as download:
        button.click()
    return Path(download.value.path()).read_text(encoding="utf-8-sig")


def test_table_mask_and_figures_can_be_taken_along(watch: Any) -> None:
    data = icu_report(12)
    page, complaints = watch(render_report(data), 1300)
    page.click("#tab-overview")
    with page.expect_download() as download:
        page.locator("#panel-overview .card").first.get_by_role("button", name="Save the figure").click()
    assert Path(download.value.path()).read_bytes().startswith(b"\x89PNG")
    chart = page.locator("#panel-overview .figures .card").first
    picture = saved(page, chart.get_by_role("button", name="Save the figure"))
    assert picture.startswith("<svg")
    assert "class=" not in picture
    open_instances(page)
    rows = list(csv.DictReader(io.StringIO(saved(page, page.get_by_role("button", name="CSV", exact=True)))))
    assert {row["id"] for row in rows} == set(data.ids)
    first = rows[0]["id"]
    cells = list(csv.DictReader(io.StringIO(saved(page, page.get_by_role("button", name="Mask as CSV")))))
    assert len(cells) == 48 * 32
    place = list(data.ids).index(first)
    found = np.array([float(cell["mask"]) for cell in cells]).reshape(48, 32)
    assert np.abs(found - np.asarray(data.masks)[place]).max() <= 0.5 / 255 + 1e-6
    signed = np.array([float(cell["contribution"]) for cell in cells]).reshape(48, 32)
    true = np.asarray(data.contributions.cells)[place]  # type: ignore[union-attr]
    assert np.abs(signed - true).max() <= 0.01 * np.abs(true).max()
    for title in ("What raises it, what lowers it", "The measurements themselves"):
        card = page.locator(".detail .card", has_text=title)
        picture = saved(page, card.get_by_role("button", name="Save the figure"))
        names = card.locator("strong").all_inner_texts()
        assert names
        assert all(f">{name}</text>" in picture for name in [title, *names])
    assert complaints == []


def test_long_and_wide_sequences_can_be_zoomed_and_panned(watch: Any) -> None:
    masks = np.zeros((1, 5000, 500), dtype=np.float32)
    masks[0, 4321, 7] = 1
    page, complaints = watch(
        render_report(small(masks, channel_names=[f"sensor number {i}" for i in range(500)])), 1200
    )
    open_instances(page)
    heat = page.locator(".detail .heat")
    plot = "node => JSON.parse(node.dataset.plot)"
    drawn(page)
    whole = heat.evaluate(plot)["across"]
    heat.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("End")
    for _ in range(6):
        page.keyboard.press("+")
    drawn(page)
    near = heat.evaluate(plot)
    assert near["across"] > 30 * whole
    assert near["from"] + 5000 / 64 >= 4990
    page.get_by_role("button", name="The whole length").click()
    drawn(page)
    assert heat.evaluate(plot)["across"] == whole
    peak = """node => {
      const canvas = node.querySelector('canvas');
      const pen = canvas.getContext('2d');
      const [x, y] = [Math.floor((4321 / 5000) * canvas.width), canvas.height >> 1];
      return pen.getImageData(x, y, 1, 1).data[3];
    }"""
    assert page.locator(".detail .minimap").evaluate(peak) == 255  # the one cell of the mask stands out on the map
    assert complaints == []


def test_another_target_can_be_chosen(watch: Any) -> None:
    masks = np.zeros((2, 5, 3))
    masks[:, 1, 0] = 1
    other = np.zeros((2, 5, 3))
    other[:, 4, 2] = 1
    data = small(masks, "regression", predictions=[1.0, 2.0], views=[TargetView(label="horizon 6", masks=other)])
    page, complaints = watch(render_report(data))
    open_instances(page)
    page.locator(".detail .heat").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#tip").inner_text().startswith("c0")
    page.select_option("select[aria-label='Which answer is explained']", label="horizon 6")
    drawn(page)
    page.locator(".detail .heat").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#tip").inner_text().startswith("c2")
    assert "target=1" in page.evaluate("location.hash")
    assert complaints == []


def test_one_instance_prints_alone(watch: Any) -> None:
    page, complaints = watch(render_report(icu_report(5)))
    open_instances(page)
    page.evaluate("() => { window.print = () => window.dispatchEvent(new Event('beforeprint')); }")
    page.get_by_role("button", name="Print").click()
    page.emulate_media(media="print")
    visible = [panel.get_attribute("id") for panel in page.locator("[role=tabpanel]").all() if panel.is_visible()]
    assert visible == ["panel-instances"]
    assert complaints == []


def test_everything_that_is_printed_is_drawn_in_dark_ink_though_the_screen_is_dark(watch: Any) -> None:
    page, complaints = watch(render_report(with_methods(with_drift(icu_report(24)))), 1200, "dark")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    undrawn = """() => [...document.querySelectorAll('.chart, .heat, .track, .spark')]
      .filter((node) => node.checkVisibility() && !node.querySelector('svg, canvas'))
      .map((node) => node.closest('[role=tabpanel]').id + ' ' + node.className)"""
    assert page.evaluate(undrawn) == []
    darkest = """(node) => {
      const canvas = node.querySelector('canvas');
      const cells = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
      return [...cells].filter((v, i) => i % 4 === 0 && cells[i + 3] === 255).reduce((a, b) => Math.min(a, b), 255);
    }"""
    maps = [heat for heat in page.locator(".heat").all() if heat.is_visible()]
    assert len(maps) >= 3
    assert max(heat.evaluate(darkest) for heat in maps) < 60  # names in dark ink
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.evaluate("document.documentElement.className") == ""
    assert complaints == []


def test_an_empty_mask_is_said_in_words(watch: Any) -> None:
    masks = np.zeros((2, 4, 3))
    masks[1, 1, 1] = 1.0
    fields = {"predictions": [0.2, 0.8], "predictions_without": [0.2, 0.3], "metrics": {"area": [0.0, 1 / 12]}}
    page, complaints = watch(render_report(small(masks, **fields)))
    open_instances(page)
    words = page.locator(".detail .sentence").first
    page.get_by_role("row", name="i0").click()
    assert "Its mask is empty: no measurement stands out." in words.inner_text()
    assert "Without" not in words.inner_text()
    page.get_by_role("row", name="i1").click()
    assert "empty" not in page.locator(".detail").inner_text()
    assert complaints == []


def test_bars_and_the_row_of_the_others_sum_to_the_answer(watch: Any) -> None:
    cells = np.zeros((1, 4, 30))
    cells[0, 1, :] = 0.01
    cells[0, 2, 0], cells[0, 3, 1] = 2.0, -1.0
    spread = np.zeros((1, 30))
    spread[0, 0] = 0.5
    found = Contributions(
        cells=cells, answer=[1.3], reference=[0.0], logit=True, unit="log-odds", channel_spread=spread
    )
    page, complaints = watch(render_report(small(np.zeros((1, 4, 30)), predictions=[0.8], contributions=found)))
    open_instances(page)
    card = page.locator(".card", has_text="What raises it, what lowers it")
    amounts = [float(text.replace("\N{MINUS SIGN}", "-")) for text in card.locator(".amount b").all_inner_texts()]
    others = card.locator(".others .amount").inner_text()
    assert card.locator(".others .who2").inner_text() == "28 other channels"
    assert abs(sum(amounts) + float(others) - 1.3) < 0.02
    first = card.locator(".contribution").first
    assert "raises by 2.01 ± 0.5;" in first.get_attribute("aria-label")
    assert first.locator(".whisker").count() == 1
    assert card.locator(".whisker").count() == 1
    assert complaints == []


def test_no_part_has_a_violation_of_accessibility_and_all_is_reached_by_keyboard(watch: Any) -> None:
    page, complaints = watch(render_report(with_methods(with_drift(icu_report(12)))), 1200)
    assert read_through(page) == []
    assert complaints == []
