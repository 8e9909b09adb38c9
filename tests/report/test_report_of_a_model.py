"""Reports of real models, made by the engine: values in raw units, nothing raw unasked, targets to choose from."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from dynamask_mlflow.evaluation.changes import explain_changes
from dynamask_mlflow.evaluation.config import EvaluationConfig
from dynamask_mlflow.evaluation.evaluate import evaluate_masks
from dynamask_mlflow.evaluation.model_settings import Labels, ModelSettings, labels_of
from dynamask_mlflow.evaluation.report_data import report_data
from dynamask_mlflow.evaluation.sequences import as_sequences
from dynamask_mlflow.metrics import mask_profile
from dynamask_mlflow.report import ReportData, model_card, render_report

N, T, D = 8, 6, 3
MEAN, STD = np.array([4.1, 80.0, 7.4]), np.array([0.5, 15.0, 0.05])
LABELS = Labels(
    ("survival", "death"), "hour", ("Potassium (lab)", "Heart rate", "pH"), ("mmol/L", "bpm", ""), MEAN, STD
)
PLANTED = 3.14159265  # standardised; raw: 5.6708


def planted() -> np.ndarray[Any, Any]:
    x = np.random.default_rng(0).normal(size=(N, T, D)).astype(np.float32)
    x[:, 4, 0] = PLANTED
    return x


def risk(x: torch.Tensor) -> torch.Tensor:
    logit = 2 * x[:, 4, 0] - x[:, 1, 1]
    return torch.stack([torch.zeros_like(logit), logit], dim=1)


def forecast(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([3 * x[:, 5, 0], 2 * x[:, 0, 2]], dim=1)


def page_of(network: Any, task: str, targets: Any = None, lengths: Any = None, **options: Any) -> ReportData:
    config = EvaluationConfig(instances=None, progress=False, curve_areas=(0.1, 0.5), sampling="first", **options)
    sequences = as_sequences(planted(), targets=targets, channel_names=["K", "HR", "pH"], lengths=lengths)
    found = evaluate_masks(network, sequences, task=task, config=config)
    if config.change_since is not None:
        found = replace(found, changes=explain_changes(network, found.sample, task=task, config=config))
    profile = mask_profile(found.main.masks.masks, found.sample.eligible, found.sample.exists)
    return report_data(found, profile, config, model="a model", created_at="2026-01-01", labels=LABELS)


def values_of(html: str) -> dict[str, Any]:
    match = re.search(r'id="report-data">(.*?)</script>', html, re.S)
    assert match
    return dict(json.loads(match[1]))


def blob(html: str, name: str) -> bytes:
    match = re.search(f'id="blob-{name}">([^<]*)<', html)
    assert match
    return base64.b64decode(match[1])


def numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from numbers(item)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield float(value)


def test_raw_values_are_in_no_part_of_page_and_card_unless_inputs_are_logged() -> None:
    data = page_of(risk, "classification", more_targets=("class:0",), change_since=3, change_padding="carry")
    html, card = render_report(data), model_card(data)
    raw = PLANTED * STD[0] + MEAN[0]
    assert "blob-inputs" not in html.split("<script>")[0]
    for number in numbers(values_of(html)):
        assert min(abs(number - PLANTED), abs(number - raw)) > 1e-4
    for text in (html, card):
        assert not re.search(r"3\.1415|5\.670[78]", text)
    logged = page_of(risk, "classification", log_inputs=True)
    page = render_report(logged)
    low, high = values_of(page)["ranges"]
    steps = np.frombuffer(blob(page, "inputs"), dtype="<u2").reshape(N, T, D)
    stored = np.array(low) + steps / 65534 * (np.array(high) - np.array(low))
    np.testing.assert_allclose(stored, planted() * STD + MEAN, atol=1e-3)
    assert values_of(page)["units"] == ["mmol/L", "bpm", ""]
    assert not re.search(r"3\.1415|5\.670[78]", model_card(logged))


def test_signed_cells_travel_to_the_page_and_sum_to_the_distance_from_the_reference() -> None:
    data = page_of(risk, "classification")
    html = render_report(data)
    found = values_of(html)["explained"]
    codes = np.frombuffer(blob(html, "signed"), dtype="<i2").reshape(N, T, D).astype(np.float64)
    cells = np.sign(codes) * (codes / 32767) ** 2 * np.array(found["sizes"])[:, None, None]
    distance = np.array(found["answer"]) - np.array(found["reference"])
    np.testing.assert_allclose(cells.sum(axis=(1, 2)), distance, atol=0.02 * np.abs(distance).max())
    assert found["target"] == "the risk of death"
    assert found["logit"]
    assert (cells[:, 4, 0] > 0).all()


def test_masks_of_what_the_model_reads_are_better_than_random_cells_and_than_another_instances_mask() -> None:
    data = page_of(risk, "classification", targets=np.arange(N) % 2)
    assert data.paired["answer_shift"].shift > 0
    assert data.paired["answer_shift"].controls["random"][1] < 0.05
    assert data.groups[0]["group"].startswith("predicted")
    assert sum(row["instances"] for row in data.groups if row["group"].startswith("risk")) == N


def test_the_card_names_measures_and_shares_as_the_page_does() -> None:
    card = model_card(page_of(risk, "classification", targets=np.arange(N) % 2))
    assert "| Predictions kept (ACC) |" in card
    assert "| Moved back |" in card
    assert "answer" + "_shift" not in card.replace("\\", "")
    groups = card.split("## By group")[1]
    assert re.search(r"\| \d+(\.\d+)?\N{NO-BREAK SPACE}% \|", groups)


def test_a_forecast_has_a_view_for_each_horizon() -> None:
    data = page_of(forecast, "regression", target="horizon:0", more_targets=("horizon:1",))
    assert data.contributions is not None
    assert data.contributions.target == "the value at horizon 0"
    (view,) = data.views
    assert view.label == "the value at horizon 1"
    np.testing.assert_allclose(np.asarray(view.predictions), 2 * planted()[:, 0, 2], rtol=1e-5)
    assert np.asarray(data.masks).sum(axis=(0, 1)).argmax() == 0
    assert np.asarray(view.masks).sum(axis=(0, 1)).argmax() == 2


def test_the_answer_over_the_sequence_travels_with_what_moved_it() -> None:
    data = page_of(risk, "classification", change_since=3, change_padding="carry")
    assert data.course is not None
    answers, moves = np.asarray(data.course.answers), np.asarray(data.course.moves)
    np.testing.assert_allclose(answers[:, -1], np.asarray(data.predictions)[:, 1], rtol=1e-4)
    log_odds = np.log(answers / (1 - answers))
    change = log_odds[:, -1] - log_odds[:, 0]
    np.testing.assert_allclose(moves.sum(axis=(1, 2)), change, atol=0.02 * np.abs(change).max())
    assert page_of(risk, "classification").course is None


def test_labels_come_from_the_model_unless_the_settings_say_otherwise() -> None:
    settings = ModelSettings(
        task="classification",
        steps=T,
        channels=D,
        channel_names=("K", "HR", "pH"),
        channel_labels=LABELS.channel_labels,
        units=LABELS.units,
        class_names=("survival", "death"),
        time_unit="hour",
        preprocessing={"mean": MEAN.tolist(), "std": STD.tolist()},
    )
    found = labels_of(settings, EvaluationConfig(), ["K", "HR", "pH"])
    assert (found.time_unit, found.class_names, found.units) == ("hour", ("survival", "death"), LABELS.units)
    np.testing.assert_allclose(found.raw(planted()), planted() * STD + MEAN, rtol=1e-5)
    assert labels_of(settings, EvaluationConfig(time_unit="day"), ["K", "HR", "pH"]).time_unit == "day"
    other = labels_of(
        settings, EvaluationConfig(), ["a", "b", "c"]
    )  # other channels: neither names nor scales are theirs
    assert (other.channel_labels, other.units, other.mean) == (None, None, None)
