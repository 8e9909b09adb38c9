"""Masks: stored whole, cut, joined and made a table without loss."""

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from networks import Recurrent, sequences, with_seed
from white_boxes import risk_below_one_half, segment, spikes

from dynamask_mlflow import Masks, explain
from dynamask_mlflow.masks.result import DIRECTIONS

ARRAYS = [field.name for field in fields(Masks) if field.name not in ("diagnostics", "config")]


def same(one: Masks, other: Masks) -> None:
    for name in ARRAYS:
        first, second = getattr(one, name), getattr(other, name)
        assert (first is None) == (second is None), name
        if first is not None:
            np.testing.assert_array_equal(first, second, err_msg=name)
            assert first.dtype == second.dtype or name == "algorithm", name
    assert one.config == other.config
    assert set(one.diagnostics) == set(other.diagnostics)
    for name, values in one.diagnostics.items():
        np.testing.assert_array_equal(values, other.diagnostics[name], err_msg=name)


@pytest.fixture(scope="module")
def masks() -> Masks:
    """Two algorithms, so that names of different lengths are stored."""
    nature, other = segment(), spikes(2)

    def both(x, static):  # type: ignore[no-untyped-def]
        return nature.model(x) + other.model(x) + 0 * static

    x = torch.cat([nature.x[:2], other.x])
    extras = {"static": np.ones((len(x), 1))}
    return explain(both, x, extras=extras, target="b", class_names=["a", "b"], progress=False)


def test_every_field_survives_a_file(masks: Masks, tmp_path: Path) -> None:
    again = Masks.load(masks.save(tmp_path / "deep" / "masks.npz"))
    same(again, masks)
    assert set(again.algorithm) == {"segments", "gradients"}
    assert again.target == "class:1"
    assert again.config["class_names"] == ["a", "b"]
    assert again.direction.tolist() == [1, 1, 1, 1]
    assert again.binary.dtype == bool
    same(Masks.concatenate([again, masks])[:4], masks)


@pytest.mark.parametrize("options", [{"fast": True}, {"method": "paper", "area": 0.1}, {"deletion": True}])
def test_what_a_method_does_not_know_stays_unknown_in_the_file(options: dict, tmp_path: Path) -> None:  # type: ignore[type-arg]
    masks = explain(with_seed(Recurrent), sequences(), steps=3, progress=False, **options)
    assert masks.spread is None
    same(Masks.load(masks.save(tmp_path / "masks.npz")), masks)


def test_a_file_that_is_none_of_masks_is_refused(masks: Masks, tmp_path: Path) -> None:
    (tmp_path / "broken.npz").write_bytes(b"not a file of masks")
    with pytest.raises(ValueError, match="Expected a file of masks"):
        Masks.load(tmp_path / "broken.npz")
    np.savez(tmp_path / "other.npz", x=np.zeros(3))
    with pytest.raises(ValueError, match="Expected a file of masks"):
        Masks.load(tmp_path / "other.npz")


def test_an_older_schema_is_named(masks: Masks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    version = Masks.schema_version
    monkeypatch.setattr(Masks, "schema_version", version - 1)
    path = masks.save(tmp_path / "old.npz")
    monkeypatch.undo()
    with pytest.raises(ValueError, match=rf"schema version {version}, but .* has {version - 1}"):
        Masks.load(path)


@pytest.mark.parametrize("index", [1, slice(0, 2), np.array([3, 0]), np.array([False, True, True, False])])
def test_some_instances_keep_all_that_is_known_of_them(masks: Masks, index: object) -> None:
    rows = np.atleast_1d(np.arange(4)[index])
    part = masks[index]
    assert len(part) == len(rows)
    for name in ARRAYS:
        if name != "areas":
            np.testing.assert_array_equal(getattr(part, name), getattr(masks, name)[rows], err_msg=name)
    for name, values in masks.diagnostics.items():
        np.testing.assert_array_equal(part.diagnostics[name], values[rows], err_msg=name)
    np.testing.assert_array_equal(part.areas, masks.areas)


def test_parts_join_to_the_whole(masks: Masks) -> None:
    same(Masks.concatenate([masks[:1], masks[1:3], masks[3]]), masks)
    with pytest.raises(ValueError, match="at least one part"):
        Masks.concatenate([])


def test_a_field_that_one_part_does_not_know_the_whole_does_not_know(masks: Masks) -> None:
    whole = Masks.concatenate([masks[:2], replace(masks[2:], spread=None)])
    assert whole.spread is None
    assert whole.attributions is not None


@pytest.mark.parametrize(
    ("change", "message"),
    [({"target": "class:0"}, "differ in target"), ({"seed": 1}, "differ in seed")],
)
def test_parts_of_different_settings_cannot_be_joined(masks: Masks, change: dict, message: str) -> None:  # type: ignore[type-arg]
    other = replace(masks, config={**masks.config, **change})
    with pytest.raises(ValueError, match=message):
        Masks.concatenate([masks, other])


def test_parts_with_other_areas_cannot_be_joined(masks: Masks) -> None:
    with pytest.raises(ValueError, match="differ in areas"):
        Masks.concatenate([masks, replace(masks, areas=masks.areas / 2)])


def test_a_tidy_table_has_a_row_for_each_cell(masks: Masks) -> None:
    frame = masks.to_frame(ids=list("wxyz"), channel_names=["HR", "SpO2", "RR", "T"])
    assert len(frame) == masks.masks.size
    assert list(frame.columns) == ["id", "time", "channel", "mask", "salient", "score", "attribution", "spread"]
    row = frame[(frame.id == "x") & (frame.time == 14) & (frame.channel == "RR")].iloc[0]
    assert row["mask"] == masks.masks[1, 14, 2]
    assert row["salient"] == masks.binary[1, 14, 2]
    assert row["attribution"] == masks.attributions[1, 14, 2]
    assert row["spread"] == masks.spread[1, 14, 2]
    total = frame.groupby("id", sort=False)["attribution"].sum()
    answer = masks.diagnostics["answer"] - masks.diagnostics["reference_answer"]
    np.testing.assert_allclose(total, answer, rtol=1e-4)
    with pytest.raises(ValueError, match="Expected 4 labels for id, but got 1"):
        masks.to_frame(ids=["a"])
    with pytest.raises(ValueError, match="Expected 4 labels for channel, but got 2"):
        masks.to_frame(channel_names=["a", "b"])


def test_a_table_leaves_out_what_is_not_known() -> None:
    masks = explain(lambda x: x[..., 0], sequences(2, 3, 4), task="regression", steps=2, progress=False)
    assert list(masks.to_frame().columns) == ["id", "time", "channel", "mask", "salient", "score"]


def test_directions_have_names() -> None:
    raised = risk_below_one_half().explained()
    lowered = explain(lambda x: -risk_below_one_half().model(x), risk_below_one_half().x, progress=False)
    unchanged = explain(lambda x: 0 * x.sum((1, 2)), sequences(), task="regression", progress=False)
    names = [{DIRECTIONS[int(way)] for way in masks.direction} for masks in (raised, lowered, unchanged)]
    assert names == [{"raised"}, {"lowered"}, {"unchanged"}]


def test_shapes_are_checked(masks: Masks) -> None:
    with pytest.raises(ValueError, match="one shape"):
        replace(masks, scores=masks.scores[:1])
    for name in ("binary", "attributions", "deletion_scores", "spread"):
        with pytest.raises(ValueError, match=rf"Expected {name} of shape"):
            replace(masks, **{name: getattr(masks, name)[:, :1]})
    with pytest.raises(ValueError, match="Expected errors"):
        replace(masks, errors=masks.errors[:, :1])


def test_a_method_without_whole_cells_has_those_of_at_least_one_half() -> None:
    values = np.array([[[0.5, 0.49], [1.0, 0.0]]], dtype=np.float32)
    masks = Masks(values, values, np.array([0.1]), np.zeros((1, 1)), np.zeros(1), config={"method": "other"})
    assert masks.binary.tolist() == [[[True, False], [True, False]]]
    assert masks.direction.tolist() == [0]
    assert masks.algorithm.tolist() == ["other"]
    assert masks.target == "auto"


def test_the_text_of_masks_is_one_short_line(masks: Masks) -> None:
    n, steps, channels = masks.masks.shape
    share = 100 * masks.binary.mean()
    assert repr(masks) == (
        f"Masks(N={n}, T={steps}, d={channels}; target 'class:1'; 4 raised; {share:.2g} % of the cells salient)"
    )
    assert "N=1" in repr(masks[0])
    assert str(masks) == repr(masks)


@pytest.mark.parametrize("values", ["attributions", "masks", "scores", "binary"])
def test_masks_are_drawn_channels_down_and_time_across(masks: Masks, values: str) -> None:
    from matplotlib import pyplot

    names = [f"c{i}" for i in range(masks.masks.shape[2])]
    axes = masks.plot(1, values, channel_names=names)
    try:
        np.testing.assert_allclose(axes.images[0].get_array(), getattr(masks, values)[1].T.astype(float))
        assert [label.get_text() for label in axes.get_yticklabels()] == names
    finally:
        pyplot.close(axes.figure)


def test_what_cannot_be_drawn_is_named(masks: Masks) -> None:
    with pytest.raises(ValueError, match=r"Expected values to be one of .*'masks'.* but got 'spreads'"):
        masks.plot(0, "spreads")
    with pytest.raises(ValueError, match=r"one of \['masks', 'scores', 'binary'\], but got 'attributions'"):
        replace(masks, attributions=None).plot()
    with pytest.raises(ValueError, match="labels for time, but got 1"):
        masks.plot(0, times=[0])


@pytest.mark.parametrize(("there", "words"), [(False, "but there is none."), (True, "it holds x.")])
def test_a_file_that_is_none_of_ours_is_told_in_one_sentence(there: bool, words: str, tmp_path: Path) -> None:
    file = tmp_path / "other.npz"
    if there:
        np.savez(file, x=np.zeros(3))
    with pytest.raises(ValueError, match="Expected a file of masks at") as caught:
        Masks.load(file)
    assert str(caught.value).endswith(words)
