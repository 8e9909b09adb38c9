"""`evaluate` and `explain` on a registered model, with data in each of the accepted forms."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path

import mlflow
import numpy as np
import pandas as pd
import pytest
import torch
from click.testing import CliRunner, Result
from stores import new_store

import dynamask_mlflow
from dynamask_mlflow import Masks
from dynamask_mlflow.cli import main
from dynamask_mlflow.cli.inputs import Reading, open_data
from dynamask_mlflow.data import Preprocessing, StayDataset
from dynamask_mlflow.masks.change.result import Change

N, T, D = 12, 6, 3
CHANNELS = ["pulse", "pressure", "noise"]
TOLD = (4, 1)  # the one cell that the network reads


class ReadsOneCell(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        score = 3.0 * x[:, TOLD[0], TOLD[1]]
        return torch.stack([-score, score], dim=1)


def _x() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(N, T, D)).astype(np.float32)


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("registry")
    uri = new_store(folder)
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(uri)
    mlflow.create_experiment("dynamask", artifact_location=(folder / "artifacts").as_uri())
    mlflow.set_experiment("dynamask")
    names = {"channel_names": CHANNELS, "input_example": _x()[:2], "pip_requirements": ["torch"]}
    dynamask_mlflow.log_model(
        ReadsOneCell(), name="ours", task="classification", registered_model_name="ours", padding="carry", **names
    )
    mlflow.pytorch.log_model(
        ReadsOneCell(),
        name="plain",
        registered_model_name="plain",
        input_example=_x()[:2],
        pip_requirements=["torch"],
    )
    mlflow.set_tracking_uri(before)
    return uri


def _table() -> pd.DataFrame:
    x = _x()
    rows = [
        {"stay": f"s{i}", "hour": t, **dict(zip(CHANNELS, x[i, t].tolist(), strict=True)), "died": int(i % 2)}
        for i in range(N)
        for t in range(T)
    ]
    return pd.DataFrame(rows)


def _write(form: str, folder: Path) -> tuple[str, Reading]:
    path = folder / f"stays.{form}"
    if form == "npy":
        np.save(path, _x())
    elif form == "npz":
        np.savez(path, x=_x(), y=np.arange(N) % 2, ids=np.array([f"s{i}" for i in range(N)]), channel_names=CHANNELS)
    elif form == "saved.npz":
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # MLflow warns of local paths, which it knows by two names
            mlflow.data.from_sequences(_x(), channel_names=CHANNELS).save(path)  # type: ignore[attr-defined]
    elif form == "csv":
        _table().to_csv(path, index=False)
        return str(path), Reading(id_column="stay", time_column="hour", targets="died")
    else:
        path = folder / "stays.parquet"
        long = _table().drop(columns="died").melt(["stay", "hour"], var_name="item", value_name="number")
        long.to_parquet(path)
        return str(path), Reading(id_column="stay", time_column="hour", channels="item", values="number")
    return str(path), Reading()


@pytest.mark.parametrize("form", ["npy", "npz", "saved.npz", "csv", "long"])
def test_every_form_gives_the_same_numbers(form: str, tmp_path: Path) -> None:
    where, reading = _write(form, tmp_path)
    sequences = open_data(where, reading).sequences
    order = [sequences.channel_names.index(name) for name in CHANNELS] if form != "npy" else range(D)
    np.testing.assert_array_equal(sequences.x[:, :, list(order)], _x())
    if form in ("npz", "csv"):
        assert sequences.targets is not None
        assert sequences.targets.tolist() == [i % 2 for i in range(N)]


@pytest.mark.parametrize(
    ("write", "reading", "message"),
    [
        (lambda p: np.savez(p / "a.npz", data=_x()), Reading(), "array x .* but it holds data"),
        (lambda p: np.savez(p / "a.npz", x=_x(), label=[1]), Reading(), "but got label"),
        (lambda p: _table().to_csv(p / "a.csv"), Reading(), "--id and --time .* stay, hour"),
        (lambda p: (p / "a.xlsx").write_text("?"), Reading(), "Expected a folder of"),
        (lambda p: (p / "a.d").mkdir(), Reading(), "dataset.json"),
    ],
)
def test_a_form_that_cannot_be_read_says_what_is_missing(write, reading, message, tmp_path: Path) -> None:
    write(tmp_path)
    (path,) = tmp_path.iterdir()
    with pytest.raises(ValueError, match=message):
        open_data(str(path), reading)


@pytest.mark.parametrize(
    ("window", "stays"), [("2026-02", 1), ("2026", 3), ("2026-02..2026-03", 2), ("all", 4), ("2026-03-01", 1)]
)
def test_windows_of_a_built_dataset_are_read_as_audits_read_them(window: str, stays: int, tmp_path: Path) -> None:
    admitted = np.array(["2025-12-31", "2026-01-05", "2026-02-01", "2026-03-01"], dtype="datetime64[s]")
    one, numbers = (0.0,) * D, np.arange(4)
    known = Preprocessing(
        feature_set="small", feature_set_version=1, feature_set_digest="small", hours=T, channel_names=tuple(CHANNELS),
        units=("",) * D, fill=("forward",) * D, mean=one, std=(1.0,) * D, default=one, fitted_on_stays=4,
        fitted_on_patients=4,
    )  # fmt: skip
    StayDataset(
        x=_x()[:4], observed=np.ones((4, T, D), dtype=bool), ids=numbers, patient_ids=numbers,
        labels=np.zeros(4, dtype=np.float32), splits=np.full(4, "later"),
        windows=admitted.astype("datetime64[M]").astype(str), admitted=admitted,
        times=tuple(range(T)), channel_names=tuple(CHANNELS), preprocessing=known,
    ).save(tmp_path / "icu")  # fmt: skip
    assert len(open_data(str(tmp_path / "icu"), Reading(window=window)).sequences) == stays


def _run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_explain_finds_the_cell_that_the_network_reads(registry: str, tmp_path: Path) -> None:
    where, _ = _write("npz", tmp_path)
    arguments = ("explain", "models:/ours/1", where, "--tracking-uri", registry, "--ids", "s3,s0")
    done = _run(*arguments, "--json", "--out", tmp_path / "masks.npz")
    assert done.exit_code == 0, done.output
    answer = json.loads(done.output)
    assert [row["id"] for row in answer["instances"]] == ["s3", "s0"]
    for row, place in zip(answer["instances"], (3, 0), strict=True):
        best = row["cells"][0]
        assert (best["time"], best["channel"]) == (TOLD[0], CHANNELS[TOLD[1]])
        assert best["value"] == pytest.approx(float(_x()[place, TOLD[0], TOLD[1]]), abs=1e-5)
        assert np.sign(best["attribution"]) == row["direction"]
        assert row["risk"] == pytest.approx(1 / (1 + np.exp(-row["answer"])), abs=1e-5)
    assert len(Masks.load(tmp_path / "masks.npz")) == 2
    text = _run(*arguments, "--out", tmp_path / "cells.csv")
    assert "pressure" in text.output
    assert re.search(r"s3: risk [\d.]+, (raised|lowered) from [\d.]+ \(log-odds ", text.output)
    assert len(pd.read_csv(tmp_path / "cells.csv")) == 2 * T * D


def test_explain_tells_what_changed_since(registry: str, tmp_path: Path) -> None:
    where, _ = _write("npz", tmp_path)
    arguments = ("explain", "models:/ours/1", where, "--tracking-uri", registry, "--ids", "s3", "--since", 2)
    done = _run(*arguments, "--json", "--out", tmp_path / "change.npz")
    assert done.exit_code == 0, done.output
    (row,) = json.loads(done.output)["instances"]
    before, after = (6 * float(_x()[3, step, TOLD[1]]) for step in (1, TOLD[0]))
    assert (row["since"], row["until"]) == (2, T)
    assert row["after"] - row["before"] == pytest.approx(after - before, abs=1e-3)
    assert row["channels"] == {CHANNELS[TOLD[1]]: pytest.approx(after - before, abs=1e-3)}
    assert (row["cells"][0]["time"], row["cells"][0]["channel"]) == (TOLD[0], CHANNELS[TOLD[1]])
    assert len(Change.load(tmp_path / "change.npz")) == 1
    text = _run(*arguments, "--until", 4, "--out", tmp_path / "cells.csv")
    assert "after 2 steps" in text.output
    assert "after 4; raised by" in text.output
    assert len(pd.read_csv(tmp_path / "cells.csv")) == 2 * D
    refused = _run(
        "explain", "models:/plain/1", where, "--task", "classification", "--tracking-uri", registry, "--since", 2
    )
    assert refused.exit_code == 3
    assert "Pass padding" in refused.output
    assert "Expected --since with --until" in _run(*arguments[:-2], "--until", 4).output


@pytest.mark.parametrize("form", ["wide", "long"])
def test_a_table_gives_the_model_its_channels_in_its_order(form: str, registry: str, tmp_path: Path) -> None:
    table = _table()[["hour", "noise", "died", "pressure", "stay", "pulse"]]  # a label that --targets does not name
    options = ["--id", "stay", "--time", "hour"]
    if form == "long":
        table = table.melt(["stay", "hour"], var_name="item", value_name="number")
        options += ["--channels", "item", "--values", "number"]
    table.to_csv(tmp_path / "stays.csv", index=False)
    told = ["--tracking-uri", registry, "--ids", "s3", "--json"]
    done = _run("explain", "models:/ours/1", tmp_path / "stays.csv", *options, *told)
    assert done.exit_code == 0, done.output
    best = json.loads(done.output)["instances"][0]["cells"][0]
    assert (best["time"], best["channel"]) == (TOLD[0], CHANNELS[TOLD[1]])
    assert best["value"] == pytest.approx(float(_x()[3, TOLD[0], TOLD[1]]), abs=1e-5)


def test_arrays_get_the_names_of_the_model_and_are_refused_in_another_order(registry: str, tmp_path: Path) -> None:
    np.save(tmp_path / "stays.npy", _x())
    told = ["--tracking-uri", registry, "--instances", "1", "--json"]
    done = _run("explain", "models:/ours/1", tmp_path / "stays.npy", *told)
    assert json.loads(done.output)["instances"][0]["cells"][0]["channel"] == CHANNELS[TOLD[1]]
    np.savez(tmp_path / "stays.npz", x=_x(), channel_names=CHANNELS[::-1])
    refused = _run("explain", "models:/ours/1", tmp_path / "stays.npz", *told)
    assert refused.exit_code == 3
    assert "in the order in which the model takes them" in refused.output


def test_explain_names_the_ids_there_are(registry: str, tmp_path: Path) -> None:
    where, _ = _write("npz", tmp_path)
    done = _run("explain", "models:/ours/1", where, "--tracking-uri", registry, "--ids", "s99")
    assert done.exit_code == 3
    assert "Expected ids among s0, s1" in done.output
    assert "s99" in done.output


def test_evaluate_makes_a_run_with_report_and_table(registry: str, tmp_path: Path) -> None:
    where, _ = _write("csv", tmp_path)
    arguments = ("evaluate", "models:/ours/1", where, "--id", "stay", "--time", "hour", "--targets", "died")
    done = _run(*arguments, "--tracking-uri", registry, "--instances", 4, "--out", tmp_path / "out", "--json")
    assert done.exit_code == 0, done.output
    answer = json.loads(done.output)
    assert answer["explained"] == 4
    assert answer["metrics"]["dynamask/ce"] > answer["metrics"]["dynamask/ce/random"]
    assert (tmp_path / "out" / "report.html").is_file()
    run = mlflow.MlflowClient(registry).get_run(answer["run_id"])
    assert run.info.status == "FINISHED"
    assert run.data.metrics["dynamask/instances"] == 4


def test_a_plain_pytorch_model_needs_its_task(registry: str, tmp_path: Path) -> None:
    where, _ = _write("npz", tmp_path)
    arguments = ("evaluate", "models:/plain/1", where, "--tracking-uri", registry, "--instances", 2)
    refused = _run(*arguments)
    assert refused.exit_code == 3
    assert "--task classification or --task regression" in refused.output
    done = _run(*arguments, "--task", "classification", "--set", "images=0")
    assert done.exit_code == 0, done.output
    assert "Explained 2 of 12 sequences" in done.output
    assert "comprehensiveness" in done.output


def test_an_unknown_setting_names_the_nearest(registry: str, tmp_path: Path) -> None:
    where, _ = _write("npz", tmp_path)
    done = _run("evaluate", "models:/ours/1", where, "--tracking-uri", registry, "--set", "aera=0.1")
    assert done.exit_code == 3
    assert "'area'" in done.output


@pytest.mark.parametrize(
    ("file", "flags", "named"),
    [
        ("x.npy", ["--window", "2026"], "--window"),
        ("x.npy", ["--id", "stay", "--since-start", "hours"], "--id, --since-start"),
        ("table.csv", ["--id", "stay", "--time", "hour", "--split", "test"], "--split"),
    ],
)
def test_options_of_other_forms_are_refused(file: str, flags: list[str], named: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", _x())
    (tmp_path / "table.csv").write_text("stay,hour,pulse\n1,0,2\n")
    done = _run("explain", "models:/ours/1", tmp_path / file, *flags)
    assert done.exit_code == 3
    assert f"Expected no {named} with {tmp_path / file}" in done.output


def test_targets_of_a_table_may_change_with_time(tmp_path: Path) -> None:
    table = pd.DataFrame({"stay": [1, 1], "hour": [0, 1], "pulse": [2.0, 3.0], "dies": [0, 1]})
    table.to_csv(tmp_path / "table.csv", index=False)
    reading = Reading(id_column="stay", time_column="hour", targets="dies", targets_per_step=True)
    assert open_data(str(tmp_path / "table.csv"), reading).targets.tolist() == [[0, 1]]


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("http://127.0.0.1:9", "Expected MLflow's server at http://127.0.0.1:9, but nothing answers there."),
        ("127.0.0.1:9", "Expected --tracking-uri http://127.0.0.1:9"),
    ],
)
def test_a_server_that_is_not_there_is_told_at_once(
    uri: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dynamask_mlflow.cli.common._TRIES", 1)
    np.save(tmp_path / "x.npy", _x())
    done = _run("explain", "models:/ours/1", tmp_path / "x.npy", "--tracking-uri", uri)
    assert done.exit_code == 3
    assert words in done.output


def test_the_evaluator_of_mlflow_needs_targets(registry: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", _x())
    done = _run("evaluate", "models:/ours/1", tmp_path / "x.npy", "--with-default", "--tracking-uri", registry)
    assert done.exit_code == 3
    assert "Expected targets with --with-default, but" in done.output
