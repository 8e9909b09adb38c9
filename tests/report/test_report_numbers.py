"""Every number on a page is that of the arrays it was made from, and no two of them contradict each other."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from real_reports import Recurrent, evaluated, series

from dynamask_mlflow.evaluation.model_settings import Labels
from dynamask_mlflow.evaluation.report_data import report_data
from dynamask_mlflow.metrics import mask_profile
from dynamask_mlflow.report import render_report

pytestmark = pytest.mark.browser
CHANNELS = [f"channel {c}" for c in range(6)]


def risk(logit: Any) -> Any:
    return 1 / (1 + np.exp(-np.asarray(logit, dtype=np.float64)))


def number(text: str) -> float:
    """The first number of a text; a probability that is next to nothing counts as nothing."""
    found = re.search(r"-?[\d.]+", text.replace("\N{MINUS SIGN}", "-").replace(",", ""))
    assert found is not None, text
    return float(found[0])


def spans(steps: Any) -> str:
    """Steps as the page writes them: of many stretches the three longest."""
    starts = [t for t in steps if t - 1 not in steps]
    ends = [t for t in steps if t + 1 not in steps]
    found = list(zip(starts, ends, strict=True))
    longest = sorted(sorted(found, key=lambda pair: pair[0] - pair[1])[:3])
    shown = [str(a) if a == b else f"{a}\N{EN DASH}{b}" for a, b in longest]
    return ", ".join(shown) + (", …" if len(found) > 3 else "")


def in_words(steps: Any) -> str:
    return "all hours" if len(steps) == 24 else ("hours " if len(steps) > 1 else "hour ") + spans(steps)


def amounts(rows: Any) -> list[tuple[str, float]]:
    return [
        (row.locator("strong, .who2").first.inner_text(), number(row.locator(".amount").inner_text()))
        for row in rows.all()
    ]


def test_every_number_of_an_instance_is_that_of_the_run(watch: Any) -> None:
    targets = np.arange(12) % 2
    x = series(12, 24, 6) * 3
    data = {"targets": targets, "channel_names": CHANNELS}
    found, config = evaluated(
        Recurrent(6, 2), x, "classification", data, {"log_inputs": True, "change_since": 12, "change_padding": "carry"}
    )
    run, masks, changes = found.main, found.main.masks, found.changes
    assert masks.attributions is not None
    assert changes is not None
    profile = mask_profile(masks.masks, None, None)
    labels = Labels(("survival", "death"), "hour")
    page, complaints = watch(
        render_report(report_data(found, profile, config, model="m", created_at="2026-01-01", labels=labels)), 1300
    )
    risks, answers = found.outputs[:, 1], masks.diagnostics["answer"]
    references = masks.diagnostics["reference_answer"]
    without = run.scores.without[:, 1]
    for name in found.sample.ids[:6]:
        n = list(found.sample.ids).index(name)
        page.get_by_role("row").filter(has=page.get_by_text(str(name), exact=True)).first.click()
        page.locator(".detail h2").filter(has_text=re.compile(f"^{name}$")).wait_for()
        said = page.locator(".detail .said strong").inner_text()
        assert abs(number(said) - 100 * risks[n]) <= 0.051
        side = "Above" if risks[n] >= 0.5 else "Below"
        place = page.locator(".detail .sentence").first.inner_text()
        assert place.startswith(f"{side} the threshold of 50\N{NO-BREAK SPACE}%; the mean of 12 instances is")
        assert abs(number(place.split("instances is")[1]) - 100 * risks.mean()) <= 0.051
        assert f"Actually: {('survival', 'death')[targets[n]]}." in place
        # what raised and lowered it
        by_channel = masks.attributions[n].sum(axis=0)
        card = page.locator(".detail .card", has_text="What raises it, what lowers it")
        shown = amounts(card.locator(".contribution"))
        digits = 0.006 if max(abs(v) for _, v in shown) >= 1 else 0.0006
        order = np.argsort(-np.abs(by_channel))
        listed = [(name, v) for name, v in shown if name in CHANNELS]
        assert {name for name, _ in listed} == {CHANNELS[c] for c in order[: len(listed)]}
        for channel, amount in listed:
            assert abs(amount - by_channel[CHANNELS.index(channel)]) <= digits
        total = float(answers[n] - references[n])
        assert abs(sum(v for _, v in shown) - total) <= digits * len(shown) + 0.02 * abs(total)
        words = card.locator(".note").inner_text()
        assert abs(number(words.split("sum to")[1]) - total) <= digits
        assert number(words) == pytest.approx(100 * risk(references[n]), abs=0.051)
        for row in card.locator("[role=listitem][tabindex]").all():
            c = CHANNELS.index(row.locator("strong").inner_text())
            when, _, opposite = row.locator(".who2 .sub").inner_text().partition("; ")
            way = np.sign(by_channel[c])
            pushing = way * masks.attributions[n, :, c]
            steps = np.flatnonzero(masks.binary[n, :, c] & (pushing > 0))
            against = np.flatnonzero(masks.binary[n, :, c] & (pushing < 0))
            assert when == in_words(steps) if len(steps) else when.startswith(("mostly hour", "spread over the hours"))
            assert opposite == (f"{'lowers' if way > 0 else 'raises'} at {in_words(against)}" if len(against) else "")
            if when.startswith("mostly"):
                ends = [int(text) for text in re.findall(r"\d+", when)]
                held = np.clip(pushing, 0, None)
                assert held[ends[0] : ends[-1] + 1].sum() >= 0.49 * held.sum()
                assert ends[-1] - ends[0] < 24 / 3
            left = number(row.locator(".amount .sub").inner_text())
            assert abs(left - 100 * risk(answers[n] - by_channel[c])) <= 0.06
        # what changed between the two times that were asked for
        change = page.locator(".detail .card", has_text="What changed since?")
        sentence = change.locator(".sentence").inner_text()
        start, end = (number(part) for part in sentence.split(" it went from ")[1].split(" to "))
        assert abs(start - 100 * changes.change.outputs_before[n, 1]) <= 0.051
        assert abs(end - 100 * changes.change.outputs_after[n, 1]) <= 0.051
        moved = [v for _, v in amounts(change.locator(".contribution"))]
        whole_change = float(changes.change.after[n] - changes.change.before[n])
        assert abs(sum(moved) - whole_change) <= 0.006 * len(moved) + 0.02 * abs(whole_change)
        # the check of the mask
        trust = page.locator(".detail .card", has_text="Can this mask be trusted?").inner_text()
        area = number(trust.split("Without the highlighted")[1])
        assert area == pytest.approx(100 * masks.binary[n].mean(), abs=0.051)
        if "goes from" in trust:
            assert abs(number(trust.split("goes from")[1].split(" to ")[1]) - 100 * without[n]) <= 0.051
        cells = masks.masks[n][masks.binary[n]]
        assert abs(number(trust.split("with a probability of")[1]) - 100 * cells.mean()) <= 0.51
    assert complaints == []
