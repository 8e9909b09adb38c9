"""Archives that lie about their size, or would take too much memory, are refused before they expand."""

from __future__ import annotations

import io
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from dynamask_mlflow._npz import ArchiveError, load_arrays
from dynamask_mlflow.audit.explained_window import ExplainedWindow
from dynamask_mlflow.evaluation.sequences import Sequences, as_sequences


def header(shape: str, descr: str = "'<f8'") -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (64 - (len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


def write(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return path


def test_arrays_come_back_as_they_were(tmp_path: Path) -> None:
    arrays = {"a": np.arange(6).reshape(2, 3), "b": np.array(["x", "yy"]), "c": np.zeros((0, 3)), "d": np.float32(2)}
    np.savez_compressed(tmp_path / "a.npz", **arrays)
    found = load_arrays(tmp_path / "a.npz")
    assert list(found) == list(arrays)
    for name, values in arrays.items():
        np.testing.assert_array_equal(found[name], values)
        assert found[name].dtype == values.dtype


def test_a_bomb_is_refused_before_it_expands(tmp_path: Path) -> None:
    path = write(tmp_path / "bomb.npz", x=header("(50000000,)") + bytes(400_000_000))
    assert path.stat().st_size < 1_000_000
    tracemalloc.start()
    with pytest.raises(ArchiveError, match=r"at most 100,000,000 bytes .* but it claims 400,000,000"):
        load_arrays(path, max_bytes=100_000_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5_000_000


@pytest.mark.parametrize(
    "content",
    [
        header("(500000000000,)"),  # four terabytes
        header("(-1,)"),
        header("(1000000000000,)", "'|V0'"),  # nothing, a million million times
        header("(2, 2)") + bytes(31),
        header("(1,)", "'|O'") + bytes(8),
        header("(1,)", "__import__('os')"),
        b"",
        b"\x93NUMPY",
        b"not an array",
        header("(1,)" + " " * 60000) + bytes(8),
    ],
    ids=lambda c: str(c[10:60]),
)
@pytest.mark.parametrize("load", [load_arrays, Sequences.load, ExplainedWindow.load])
def test_headers_that_lie_and_damage_are_errors_of_one_kind(tmp_path: Path, load: object, content: bytes) -> None:
    with pytest.raises(ValueError, match="Expected"):
        load(write(tmp_path / "x.npz", x=content))  # type: ignore[operator]


def test_a_flipped_bit_and_a_repeated_name_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "x.npz", x=header("(1000,)") + np.random.default_rng(0).bytes(8000))
    damaged = bytearray(path.read_bytes())
    damaged[500] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(ArchiveError, match="Expected"):
        load_arrays(path)
    twice = io.BytesIO()
    with zipfile.ZipFile(twice, "w") as archive:
        archive.writestr("x.npy", header("(1,)") + bytes(8))
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("x.npy", header("(1,)") + bytes(8))
    path.write_bytes(twice.getvalue())
    with pytest.raises(ArchiveError, match="every array once"):
        load_arrays(path)


def test_the_limit_is_a_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = as_sequences(np.zeros((4, 5, 2))).save(tmp_path / "s.npz")
    assert len(Sequences.load(saved)) == 4
    monkeypatch.setenv("DYNAMASK_MAX_BYTES", "100")
    with pytest.raises(ValueError, match="at most 100 bytes"):
        Sequences.load(saved)
    monkeypatch.setenv("DYNAMASK_MAX_BYTES", "lots")
    with pytest.raises(ValueError, match="DYNAMASK_MAX_BYTES to be a number"):
        Sequences.load(saved)


def test_one_name_with_and_without_its_ending_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.npz", a=header("(1,)") + bytes(8))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("a", header("(2,)") + bytes(16))
    with pytest.raises(ArchiveError, match="some names are repeated"):
        load_arrays(path)
