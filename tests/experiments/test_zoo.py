"""The zoo: its planted data, kinds that cannot run, and the table of the page."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dynamask_mlflow.experiments.zoo.entry import entries
from dynamask_mlflow.experiments.zoo.page import END, START, write_table
from dynamask_mlflow.experiments.zoo.planted import charting, one_event, partly_measured, unequal_lengths
from dynamask_mlflow.experiments.zoo.run import Row, run_zoo


def test_kinds_that_cannot_run_say_why() -> None:
    def fails(data: Any, name: str) -> str:
        raise RuntimeError("no such thing")

    some = entries()["gru"]
    broken = replace(some, register=fails)
    absent = replace(some, needs=("no_such_package",))
    first, second = run_zoo([broken, absent], report=lambda line: None)
    assert first.problem == "RuntimeError: no such thing"
    assert second.problem == "not installed: no_such_package"


def test_rows_are_put_beside_those_of_other_models(tmp_path: Path) -> None:
    page = tmp_path / "models.md"
    page.write_text(f"before\n{START}\n{END}\nafter\n")
    write_table(page, [Row("tcn", "b", 1.0), Row("gru", "a", 0.5)], "command")
    write_table(page, [Row("tcn", "b", 0.25)], "command")
    text = page.read_text()
    assert [line.split(" | ")[0] for line in text.splitlines() if line.startswith("| ")][2:] == ["| gru", "| tcn"]
    assert "| 0.25 |" in text
    assert "| 1.00 |" not in text
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")


def test_each_row_keeps_the_command_that_wrote_it(tmp_path: Path) -> None:
    page = tmp_path / "models.md"
    page.write_text(f"{START}\n{END}\n")
    write_table(page, [Row("tcn", "b", 1.0), Row("gru", "a", 0.5), Row("onnx", "c", 0.5)], "zoo --seeds 0")
    assert "Written by `zoo --seeds 0`.\n" in page.read_text()
    write_table(page, [Row("onnx", "c", 0.25)], "zoo --seeds 0,1")
    text = page.read_text()
    assert "- `zoo --seeds 0`: gru, tcn.\n" in text
    assert "- `zoo --seeds 0,1`: onnx.\n" in text
    write_table(page, [Row("gru", "a", 0.75)], "zoo --seeds 0,1")
    text = page.read_text()
    assert "- `zoo --seeds 0`: tcn.\n" in text
    assert "- `zoo --seeds 0,1`: gru, onnx.\n" in text


def test_planted_cells_are_inside_what_exists() -> None:
    lengths = unequal_lengths(50, 0)
    assert lengths.lengths is not None
    assert not lengths.truth[np.arange(24) >= lengths.lengths[:, None]].any()
    ward = charting(50, 0)
    assert ward.observed is not None
    assert (ward.truth <= ward.observed).all()
    assert ward.truth.any(axis=(1, 2)).tolist() == (ward.y == 1).tolist()


def test_an_event_that_the_static_feature_outweighs_carries_no_label() -> None:
    whole, partly = one_event(200, 0), partly_measured(200, 0)
    against = whole.y != partly.y
    assert 0 < against.mean() < 0.3
    assert not partly.truth[against].any()
    assert partly.truth[~against].any()
