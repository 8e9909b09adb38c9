"""What travels in the page is what was measured."""

from __future__ import annotations

import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dynamask_mlflow.report.encode import (
    MISSING,
    bytes_of_ranks,
    bytes_of_shares,
    plain,
    script_json,
    words_of_values,
)


def test_shares_become_bytes() -> None:
    assert bytes_of_shares(np.array([0.0, 0.5, 1.0, -3.0, 7.0, np.nan])).tolist() == [0, 128, 255, 0, 255, 0]


@given(arrays(np.float64, (2, 5, 4), elements=st.floats(-1e6, 1e6)))
def test_values_come_back_to_a_step_of_the_range(values: np.ndarray) -> None:
    words, low, high = words_of_values(values)
    width = np.array(high) - np.array(low)
    back = np.array(low) + words / (MISSING - 1) * width
    assert np.all(np.abs(back - values) <= width / (MISSING - 1) + 1e-9 * np.abs(values))


def test_what_is_not_a_number_is_marked_and_leaves_the_range_alone() -> None:
    words, low, high = words_of_values(np.array([[[1.0], [np.nan], [np.inf], [3.0]]]))
    assert words.reshape(-1).tolist() == [0, MISSING, MISSING, MISSING - 1]
    assert (low, high) == ([1.0], [3.0])


@given(st.integers(0, 2**32 - 1), st.floats(0.02, 1.0))
def test_a_share_of_the_cells_lies_below_the_byte_of_its_area(seed: int, area: float) -> None:
    scores = np.random.default_rng(seed).normal(size=(2, 12, 8))
    chosen = bytes_of_ranks(scores) <= 255 * np.sqrt(area)
    share = chosen.reshape(2, -1).mean(axis=1)
    assert np.all(share <= area + 1e-9)
    assert np.all(share >= area - 2 / 255 - 1 / 96)
    for kept, values in zip(chosen, scores, strict=True):  # and they are the best ones
        assert not kept.any() or kept.all() or values[kept].min() >= values[~kept].max()


def test_plain_values_are_rounded_and_printable() -> None:
    mixed = {"a": np.float32(0.1), "b": float("nan"), 3: (np.int64(2), np.True_, None), "d": {1}}
    assert plain(mixed) == {"a": 0.1, "b": None, "3": [2, True, None], "d": "{1}"}


def test_json_in_a_script_has_no_angle_bracket() -> None:
    text = script_json(["</script>", "<!--", "&lt;", "\u2028"])
    assert not set("<>&\u2028") & set(text)


def test_many_instances_are_coded_as_each_alone_and_none_as_none() -> None:
    scores = np.random.default_rng(0).normal(size=(130, 3, 2))
    alone = [bytes_of_ranks(one[None])[0] for one in scores]
    np.testing.assert_array_equal(bytes_of_ranks(scores), alone)
    assert bytes_of_ranks(scores[:0]).shape == (0, 3, 2)
    words, low, high = words_of_values(scores)
    wide = words_of_values(np.concatenate([scores, [np.stack([low, high, low])]]))[0]
    np.testing.assert_array_equal(words, wide[:-1])


def test_marks_of_direction_do_not_turn_what_follows_on_the_page() -> None:
    """A name could show 2026-03 as 30-6202; letters from right to left stay as they are."""
    text = script_json({"name": "ward \u202e3 \u2066\u05d0\u200f", "window": "2026-03"})
    assert json.loads(text) == {"name": "ward \ufffd3 \ufffd\u05d0\u200f", "window": "2026-03"}
