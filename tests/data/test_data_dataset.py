from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dynamask_mlflow.data import DataError, StayDataset, build, open_source
from dynamask_mlflow.evaluation.sequences import as_sequences

Tables = dict[str, pd.DataFrame]
Writer = Callable[..., str]


@pytest.fixture
def dataset(tables: Tables, written: Writer) -> StayDataset:
    return build(open_source("mimic3", written(tables)))


def test_what_is_saved_is_loaded(dataset: StayDataset, tmp_path: Path) -> None:
    loaded = StayDataset.load(dataset.save(tmp_path / "set"))
    for name in ("x", "observed", "ids", "patient_ids", "labels", "splits", "windows", "admitted"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(dataset, name))
    assert loaded.preprocessing == dataset.preprocessing
    assert loaded.report["stays_in"] == 40
    assert loaded.digest == dataset.digest


def test_the_report_is_told_what_was_measured_whether_or_not_that_decides_what_may_be_salient(
    dataset: StayDataset,
) -> None:
    for decides in (True, False):
        sequences = as_sequences(**dataset.sequence_arrays(observed=decides))
        assert (sequences.observed is not None) is decides
        assert bool(sequences.eligible.all()) is not decides
        np.testing.assert_array_equal(sequences.measured, dataset.observed)


def test_the_digest_sees_the_last_cell_of_the_last_stay(dataset: StayDataset) -> None:
    changed = dataset.x.copy()
    changed[-1, -1, -1] += 1e-3
    assert dataset.select(np.arange(len(dataset))).digest == dataset.digest
    from dataclasses import replace

    assert replace(dataset, x=changed).digest != dataset.digest


def test_a_save_that_fails_leaves_nothing_behind(
    dataset: StayDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = np.save, []

    def full_disk(file: Path, array: np.ndarray, allow_pickle: bool) -> None:
        calls.append(file)
        if len(calls) == 4:
            raise OSError("No space left on device")
        real(file, array, allow_pickle=allow_pickle)

    monkeypatch.setattr(np, "save", full_disk)
    with pytest.raises(OSError, match="No space"):
        dataset.save(tmp_path / "out" / "set")
    assert list((tmp_path / "out").iterdir()) == []


def test_an_existing_dataset_is_not_overwritten_unasked_and_survives_a_failed_overwrite(
    dataset: StayDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = dataset.save(tmp_path / "set")
    with pytest.raises(DataError, match="ask to overwrite"):
        dataset.save(path)
    half = dataset.select(np.arange(20))
    monkeypatch.setattr(np, "save", lambda *_, **__: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        half.save(path, overwrite=True)
    monkeypatch.undo()
    assert len(StayDataset.load(path)) == 40
    half.save(path, overwrite=True)
    assert len(StayDataset.load(path)) == 20
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".set")] == []


def test_a_folder_that_is_no_dataset_is_not_overwritten(dataset: StayDataset, tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.txt").write_text("years of work")
    with pytest.raises(DataError, match="something else"):
        dataset.save(tmp_path / "thesis", overwrite=True)
    assert (tmp_path / "thesis" / "chapter1.txt").exists()


@pytest.mark.parametrize("damage", ["flip", "truncate", "remove", "meta", "version"])
def test_a_damaged_dataset_is_refused(dataset: StayDataset, tmp_path: Path, damage: str) -> None:
    path = dataset.save(tmp_path / "set")
    tensor = path / "x.npy"
    content = bytearray(tensor.read_bytes())
    if damage == "flip":
        content[-1] ^= 1
        tensor.write_bytes(content)
    elif damage == "truncate":
        tensor.write_bytes(content[:-100])
    elif damage == "remove":
        tensor.unlink()
    elif damage == "meta":
        (path / "dataset.json").unlink()
    else:
        meta = json.loads((path / "dataset.json").read_text())
        (path / "dataset.json").write_text(json.dumps(meta | {"schema_version": 99}))
    with pytest.raises(DataError, match="Expected"):
        StayDataset.load(path)


def test_a_part_that_is_not_there_lists_those_that_are(dataset: StayDataset) -> None:
    with pytest.raises(DataError, match="test, train, validation"):
        dataset.part("later")
