from __future__ import annotations

from pathlib import Path

import pytest

from dynamask_mlflow.data import DataError, load_feature_set


def test_the_default_set_has_the_32_channels_that_the_paper_meant() -> None:
    features = load_feature_set("fit32")
    assert len(features.channels) == 32
    assert [c.kind for c in features.channels] == ["lab"] * 20 + ["vital"] * 8 + ["static"] * 4
    assert all(c.fill == "forward" for c in features.channels)


def test_the_set_of_the_paper_fuses_two_labs_into_a_channel_without_codes() -> None:
    features = load_feature_set("fit31")
    assert len(features.channels) == 31
    assert "LACTATE" not in features.channel_names
    assert "HEMOGLOBIN" not in features.channel_names
    fused = features.channels[features.channel_names.index("HEMOGLOBINLACTATE")]
    assert fused.groups == ()
    assert {c.fill for c in features.channels if c.kind == "vital"} == {"window_mean"}


def test_a_set_of_one_s_own_is_read_from_its_path(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(
        "name: own\nversion: 3\nhours: 24\nchannels: [{name: HR, range: [0, 300], codes: {variable: [pulse]}}]\n"
    )
    features = load_feature_set(str(path))
    assert (features.name, features.version, features.hours, features.channel_names) == (
        "own",
        3,
        24,
        ("HR",),
    )


def test_the_digest_changes_with_any_range(tmp_path: Path) -> None:
    texts = [
        f"name: own\nversion: 1\nchannels:\n  - {{name: HR, range: [0, {high}], codes: {{variable: [p]}}}}\n"
        for high in (300, 301)
    ]
    digests = set()
    for index, text in enumerate(texts):
        path = tmp_path / f"{index}.yaml"
        path.write_text(text)
        digests.add(load_feature_set(str(path)).digest)
    assert len(digests) == 2


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("{name: HR, rnage: [0, 1], codes: {variable: [p]}}", "Did you mean 'range'"),
        ("{name: HR, range: [5, 1], codes: {variable: [p]}}", "low < high, but got"),
        ("{name: HR, fill: backward, codes: {variable: [p]}}", "Expected fill of channel HR"),
        ("{name: HR, convert: kelvin, codes: {variable: [p]}}", "but got 'kelvin'"),
        ("{name: HR, kind: static}", "to name a column of the stays"),
        ("{codes: {variable: [p]}}", "to have a name"),
    ],
)
def test_a_faulty_channel_is_named(tmp_path: Path, entry: str, message: str) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(f"name: own\nversion: 1\nchannels:\n  - {entry}\n")
    with pytest.raises(DataError, match=message):
        load_feature_set(str(path))


def test_an_unknown_set_lists_the_known_ones() -> None:
    with pytest.raises(DataError, match="fit31, fit32, physionet2012"):
        load_feature_set("fit33")
