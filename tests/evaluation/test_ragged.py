"""Sequences of unequal lengths, and other libraries' containers."""

import numpy as np
import pandas as pd
import pytest

from dynamask_mlflow.evaluation.sequences import Sequences, as_sequences

LONG, SHORT = np.arange(8.0).reshape(4, 2), np.ones((2, 2))


class Series:
    """As darts has them: `values()` is (T, d), `components` are the channels' names."""

    def __init__(self, values: np.ndarray) -> None:
        self._values = values
        self.components = pd.Index(["HR", "Lactate"])

    def values(self) -> np.ndarray:
        return self._values


def check(found: Sequences) -> None:
    assert found.x.shape == (2, 4, 2)
    assert found.lengths is not None
    assert found.lengths.tolist() == [4, 2]
    np.testing.assert_array_equal(found.x[0], LONG)
    np.testing.assert_array_equal(found.x[1], [[1, 1], [1, 1], [0, 0], [0, 0]])


def test_a_list_of_arrays_is_padded() -> None:
    found = as_sequences([LONG, SHORT], observed=[LONG > 1, SHORT > 0], extras={"codes": [[1, 2, 3, 0], [2, 1]]})
    check(found)
    assert found.observed is not None
    assert found.observed[1].tolist() == [[True, True], [True, True], [False, False], [False, False]]
    assert found.extras["codes"].tolist() == [[1, 2, 3, 0], [2, 1, 0, 0]]
    assert as_sequences([LONG, LONG]).lengths is None


def test_series_of_darts() -> None:
    found = as_sequences([Series(LONG), Series(SHORT)])
    check(found)
    assert found.channel_names == ("HR", "Lactate")


def test_a_nested_table_of_sktime() -> None:
    rows = [{"HR": pd.Series(each[:, 0]), "Lactate": pd.Series(each[:, 1])} for each in (LONG, SHORT)]
    found = as_sequences(pd.DataFrame(rows))
    check(found)
    assert found.channel_names == ("HR", "Lactate")


def test_extras_survive_a_file_and_count_in_the_digest(tmp_path) -> None:  # type: ignore[no-untyped-def]
    found = as_sequences([LONG, SHORT], extras={"static": np.array([[1.0], [2.0]])})
    again = Sequences.load(found.save(tmp_path / "sequences.npz"))
    assert again.digest() == found.digest() != as_sequences([LONG, SHORT]).digest()
    np.testing.assert_array_equal(again.take(np.array([1])).extras["static"], [[2.0]])


@pytest.mark.parametrize(
    ("x", "options", "message"),
    [
        ([LONG, np.ones((2, 3))], {}, r"one number of channels d, but got shapes that end in \[\(2,\), \(3,\)\]"),
        ([LONG, SHORT], {"lengths": [4, 2]}, "no lengths with sequences of unequal lengths"),
        ([LONG, SHORT], {"extras": {"static": np.ones((3, 1))}}, "'static' as numbers for 2 instances"),
        ([LONG, SHORT], {"extras": {"static": np.array([[1.0], [np.nan]])}}, "a finite further input 'static'"),
        ([LONG, SHORT], {"extras": {"observed": np.ones(2)}}, "other than x, lengths and observed"),
    ],
)
def test_what_does_not_fit_is_named(x, options, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        as_sequences(x, **options)
