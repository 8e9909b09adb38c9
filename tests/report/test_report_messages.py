"""Sentences and labels: true to the numbers."""

from __future__ import annotations

import numpy as np
import pytest
from report_shapes import small

from dynamask_mlflow.report.messages import moment, what_removal_does, where_it_looks, word
from dynamask_mlflow.report.outputs import agreement, describe_predictions, describe_targets
from dynamask_mlflow.report.payload import build_payload

MASKS = np.zeros((3, 8, 2))


def spaced(text: str) -> str:
    return text.replace("\N{NO-BREAK SPACE}", " ")


def test_headline_names_the_leading_channels_and_the_heaviest_quarter() -> None:
    by_time = np.array([0.0, 0, 0, 0.05, 0.1, 0.1, 0.35, 0.4])
    sentence = where_it_looks(["a", "b", "c"], list("12345678"), np.array([0.3, 0.6, 0.1]), by_time, "hour")
    assert (
        spaced(sentence)
        == "b carries 60 % of what the model relies on; hours 7 to 8 weigh most, with 75 % of the total."
    )


def test_headline_says_so_when_time_does_not_matter() -> None:
    sentence = where_it_looks(["a", "b"], list("12345678"), np.array([0.5, 0.5]), np.full(8, 1 / 8), "hour")
    assert spaced(sentence) == "a carries 50 % of what the model relies on, spread evenly over the hours."


def test_headline_of_empty_masks_claims_nothing() -> None:
    assert build_payload(small(MASKS)).values["headline"] == [
        "The masks are empty: no measurement was found to matter."
    ]


def test_flips_stand_beside_what_chance_does() -> None:
    text = what_removal_does(17, 96, 0.023, 0.97)
    assert text is not None
    assert spaced(text) == (
        "Averaging out the highlighted 2.3 % of the measurements flips 17 of 96 predictions; "
        "as many cells drawn at random flip 3."
    )
    assert what_removal_does(None, 96, 0.1, 0.9) is None


def test_flips_are_counted_from_the_predictions_when_no_metric_says() -> None:
    data = small(MASKS, predictions=[0.2, 0.7, 0.9], predictions_without=[0.1, 0.3, 0.8])
    assert "flips 1 of 3 predictions" in build_payload(data).values["headline"][1]


@pytest.mark.parametrize(
    ("task", "predictions", "kind", "text"),
    [
        ("classification", [0.2, 0.5, np.nan], "probability", ["low", "high", ""]),
        ("classification", [[0.8, 0.2], [0.5, 0.5], [0.1, 0.9]], "probability", ["low", "high", "high"]),
        ("classification", [[0.1, 0.2, 0.7]] * 3, "classes", ["class 2"] * 3),
        ("classification", [0, 1, 1], "text", ["low", "high", "high"]),
        ("classification", ["a", "b", "c"], "text", ["a", "b", "c"]),
        ("regression", [1.5, -2.0, np.nan], "value", ["1.5", "\u22122", ""]),
        ("regression", [[1.5], [2.0], [3.0]], "value", ["1.5", "2", "3"]),
        ("regression", [[1, 2, 3, 4, 5]] * 3, "value", ["1, 2, 3, 4, …"] * 3),
    ],
)
def test_predictions_are_told_by_their_shape(task: str, predictions: object, kind: str, text: list[str]) -> None:
    data = small(MASKS, task, class_names=["low", "high"], predictions=predictions)
    outputs = describe_predictions(data.predictions, data)
    assert outputs is not None
    assert (outputs.kind, outputs.text) == (kind, text)


def test_predictions_at_every_step_follow_the_leading_class() -> None:
    steps = np.zeros((3, 8, 3))
    steps[..., 2], steps[..., 0] = 0.7, 0.3
    data = small(MASKS, per_step=True, predictions=steps)
    outputs = describe_predictions(data.predictions, data)
    assert outputs is not None
    assert outputs.series is not None
    assert outputs.series.shape == (3, 8)
    assert np.all(outputs.series == 0.7)


def test_agreement_is_unknown_where_the_target_is() -> None:
    data = small(MASKS, predictions=[0.2, 0.7, 0.9], targets=[0, 0, np.nan])
    predicted = describe_predictions(data.predictions, data)
    assert agreement(predicted, describe_targets(data), data) == [True, False, None]


def test_agreement_is_unknown_where_targets_are_names_and_classes_numbers() -> None:
    told = {"predictions": [0.2, 0.7, 0.9], "targets": ["survives", "dies", "survives"]}
    for names, expected in ((None, None), (("survives", "dies"), [True, True, False])):
        data = small(MASKS, **told, class_names=names)
        predicted = describe_predictions(data.predictions, data)
        assert agreement(predicted, describe_targets(data), data) == expected


def test_own_metrics_keep_their_name_and_get_their_explanation() -> None:
    spoken = word("my_score", "regression", {"my_score": "What I measure."})
    assert (spoken.label, spoken.help) == ("My score", "What I measure.")
    assert word("dynamask/ce", "classification").symbol == "CE"
    assert word("ce", "regression").symbol == "SE"


def test_random_numbers_stand_beside_their_own() -> None:
    data = small(MASKS, summary={"dynamask/ce": 0.9, "dynamask/ce/random": 0.2, "dynamask/area": 0.1})
    summary = build_payload(data).values["summary"]
    assert [(e["name"], e["value"], e.get("random")) for e in summary] == [
        ("ce", 0.9, 0.2),
        ("area", 0.1, None),
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("2026-11-16T06:24:38+00:00", "2026-11-16 06:24 UTC"),
        ("2026-11-16T06:24:38.123", "2026-11-16 06:24"),
        ("2026-11-16", "2026-11-16"),
        ("yesterday", "yesterday"),
    ],
)
def test_moments_are_written_for_people(text: str, shown: str) -> None:
    assert moment(text) == shown


def test_settings_are_written_for_people() -> None:
    data = small(MASKS, settings={"areas": (0.1, 0.2), "log_inputs": False, "seed": 3, "device": None})
    assert build_payload(data).values["settings"] == {
        "areas": "0.1, 0.2",
        "log_inputs": "no",
        "seed": 3,
        "device": "None",
    }
