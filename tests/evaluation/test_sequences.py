from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dynamask_mlflow.evaluation.sequences import Sequences, as_sequences

X = np.arange(2 * 3 * 2, dtype=np.float64).reshape(2, 3, 2)


def with_cell(value: float) -> np.ndarray:
    x = X.copy()
    x[1, 2, 0] = value
    return x


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"x": X[0]}, r"Expected x of shape \(N, T, d\).* but got \(3, 2\)"),
        ({"x": X[:0]}, r"none of them 0, but got \(0, 3, 2\)"),
        ({"x": [[["a"]]]}, "Expected x to hold numbers"),
        ({"x": X + 1j}, "Expected x to hold real numbers, but got complex128"),
        (
            {"x": with_cell(np.inf), "ids": ["a", "b"]},
            "1 cells are infinite, the first at id 'b', time 2",
        ),
        ({"x": with_cell(1e300)}, "1 cells are infinite"),
        ({"x": X[:, None]}, r"x.reshape\(N, T, -1\)"),
        ({"targets": [0, 1, 0]}, r"Expected targets for 2 instances.*but got \(3,\)"),
        ({"targets": [0.0, np.nan]}, "Expected finite targets, but 1 are"),
        ({"ids": ["a", "a"]}, "Expected unique ids, but 'a' appears more than once"),
        ({"ids": ["a"]}, "Expected 2 ids, but got 1"),
        ({"channel_names": ["a"]}, "Expected 2 channel_names, but got 1"),
        ({"times": [0, 1]}, "Expected 3 times, one a step, but got 2"),
        ({"lengths": [3, 4]}, r"Expected lengths in \[1, 3\], but got \[3, 4\]"),
        ({"lengths": [3, 0]}, r"Expected lengths in \[1, 3\], but got \[0, 3\]"),
        ({"lengths": [1.5, 2]}, "Expected 2 whole numbers as lengths"),
        ({"observed": np.ones((2, 3))}, "Expected observed of the shape of x"),
    ],
)
def test_bad_input_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        as_sequences(**{"x": X, **options})


def test_values_become_float32_and_the_callers_array_is_left_alone() -> None:
    sequences = as_sequences(X, lengths=[3, 1])
    assert sequences.x.dtype == np.float32
    assert X[1, 2, 1] == 11.0
    assert sequences.x[1, 1:].max() == 0.0


def test_nan_is_allowed_in_the_padding_only() -> None:
    assert as_sequences(with_cell(np.nan), lengths=[3, 2]).x[1, 2, 0] == 0.0


def test_the_digest_sees_every_byte_and_every_name() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 48, 31))
    base = as_sequences(x).digest()
    changed = x.copy()
    changed[-1, -1, -1] += 1e-3
    assert as_sequences(x.copy()).digest() == base
    assert as_sequences(changed).digest() != base
    assert as_sequences(x, targets=np.zeros(40)).digest() != base
    assert as_sequences(x, ids=[f"p{i}" for i in range(40)]).digest() != base
    assert as_sequences(x, lengths=[47] * 40).digest() != base


def test_the_digest_does_not_see_what_lies_in_the_padding() -> None:
    assert as_sequences(with_cell(5.0), lengths=[3, 2]).digest() == as_sequences(X, lengths=[3, 2]).digest()


@pytest.mark.parametrize("targets", [[0, 1], ["dead", "alive"], [[0.5, 1, 2], [1, 1, 1]], None])
def test_a_saved_file_gives_the_same_sequences(tmp_path: Path, targets: Any) -> None:
    before = as_sequences(X, targets=targets, ids=["a/b", "<i>"], times=["t0", "t1", "t2"], observed=X > 3)
    after = Sequences.load(before.save(tmp_path / "x.npz"))
    assert after.digest() == before.digest()
    assert after.ids == before.ids
    assert after.times == before.times
    assert [path.name for path in tmp_path.iterdir()] == ["x.npz"]


def test_what_was_measured_is_kept_for_display_and_decides_nothing(tmp_path: Path) -> None:
    seen = X > 3
    plain, marked = as_sequences(X), as_sequences(X, measured=seen)
    assert marked.eligible.all()
    assert marked.side.observed is None
    assert marked.digest() == plain.digest()
    for kept in (marked, Sequences.load(marked.save(tmp_path / "x.npz"))):
        np.testing.assert_array_equal(kept.take(np.array([1])).measured, seen[1:])
    assert Sequences.load(plain.save(tmp_path / "y.npz")).measured is None
    with pytest.raises(ValueError, match="Expected measured of the shape of x"):
        as_sequences(X, measured=seen[:1])


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    whole = as_sequences(X).save(path).read_bytes()
    for content in (b"", whole[: len(whole) // 2], b"not a zip"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"Expected a file of sequences at .*x\.npz"):
            Sequences.load(path)


def test_further_inputs_are_not_copied() -> None:
    x = np.zeros((50, 6, 2), dtype=np.float32)
    observed, gaps = np.ones(x.shape, dtype=bool), np.zeros(x.shape)
    kept = as_sequences(x, observed=observed, extras={"gaps": gaps})
    assert kept.observed is not None
    assert np.shares_memory(kept.observed, observed)
    assert np.shares_memory(kept.extras["gaps"], gaps)
    assert np.shares_memory(kept.side.extras["gaps"], gaps)


def test_an_array_of_float32_is_neither_copied_nor_written_to() -> None:
    x = np.random.default_rng(0).normal(size=(4, 5, 2)).astype(np.float32)
    before = x.copy()
    assert np.shares_memory(as_sequences(x).x, x)
    padded = as_sequences(x, lengths=[5, 3, 2, 4])
    assert not np.shares_memory(padded.x, x)
    assert (padded.x[1, 3:] == 0).all()
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"ids": ["a", "\ud83d"]}, "Expected ids that UTF-8 can hold"),
        ({"channel_names": ["\udcff", "b", "c"]}, "Expected channel_names that UTF-8 can hold"),
        ({"times": [0, "\ud800", 2, 3]}, "Expected times that UTF-8 can hold"),
        (
            {"targets": np.array([None, "a"], dtype=object)},
            "numbers or names, but got NoneType",
        ),
        ({"observed": np.full((2, 4, 3), 0.5)}, "Expected observed to be True or False"),
    ],
)
def test_what_no_file_can_hold_is_refused_at_the_door(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        as_sequences(np.zeros((2, 4, 3)), **given)


@pytest.mark.parametrize("what", ["ids", "channel_names", "times"])
def test_one_text_is_no_list_of_names(what: str) -> None:
    with pytest.raises(ValueError, match=f"Expected a list of {what}, but got the text 'ab'"):
        as_sequences(np.zeros((2, 2, 2)), **{what: "ab"})
