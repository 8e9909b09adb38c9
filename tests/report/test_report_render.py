"""The page as text: whole, alone, and closed to what names might smuggle in."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from icu_example import icu_report, with_drift
from report_shapes import every_shape, small

from dynamask_mlflow.report import render_report

HOSTILE = "</script><script>alert(1)</script><!-- \u2028 & \x00 \udc80"


class Tags(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def values_of(html: str) -> dict[str, object]:
    match = re.search(r'id="report-data">(.*?)</script>', html, re.S)
    assert match
    return dict(json.loads(match[1]))


def test_page_refers_to_nothing_outside_itself() -> None:
    html = render_report(with_drift(icu_report(4)))
    for tag, attributes in Tags(html).found:
        assert tag not in ("link", "img", "iframe", "object")
        assert not {"src", "srcset", "data"} & set(attributes)
    assert "http" not in html.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")


def test_policy_allows_exactly_the_inlined_script_and_style() -> None:
    html = render_report(icu_report(2))
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
    script, style = (
        re.search(r"<script>(.*?)</script>", html, re.S),
        re.search(r"<style>(.*?)</style>", html, re.S),
    )
    assert policy
    assert script
    assert style
    digests = [base64.b64encode(hashlib.sha256(m[1].encode()).digest()).decode() for m in (style, script)]
    expected = f"default-src 'none'; style-src 'sha256-{digests[0]}'; script-src 'sha256-{digests[1]}'"
    assert policy[1] == expected


def test_names_cannot_leave_the_data() -> None:
    plain = render_report(icu_report(3))
    html = render_report(icu_report(3, title=HOSTILE, ids=[HOSTILE] * 3, channel_names=[HOSTILE] * 32))
    assert [tag for tag, _ in Tags(html).found] == [tag for tag, _ in Tags(plain).found]
    assert values_of(html)["ids"] == [HOSTILE] * 3
    html.encode("utf-8")


def test_marks_of_the_template_in_a_name_stay_as_they_are() -> None:
    html = render_report(icu_report(1, title="{{data}} {{script}}", ids=["{{script}}"]))
    assert "<title>{{data}} {{script}}</title>" in html
    assert values_of(html)["ids"] == ["{{script}}"]


@pytest.mark.parametrize("name", list(every_shape()))
def test_data_of_every_shape_is_strict_json(name: str) -> None:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    html = render_report(every_shape()[name])
    match = re.search(r'id="report-data">(.*?)</script>', html, re.S)
    assert match
    json.loads(match[1], parse_constant=refuse)


def test_raw_values_are_in_the_page_only_when_they_are_given() -> None:
    masks, inputs = np.full((2, 3, 2), 0.5), np.arange(12.0).reshape(2, 3, 2)
    assert "blob-inputs" not in render_report(small(masks)).replace('"blob-" + name', "")
    assert 'id="blob-inputs"' in render_report(small(masks, inputs=inputs))


def test_script_and_style_stay_small() -> None:
    assert len(render_report(small(np.zeros((1, 1, 1)))).encode()) < 110_000


def test_same_data_gives_the_same_page() -> None:
    assert render_report(icu_report(3)) == render_report(icu_report(3))
