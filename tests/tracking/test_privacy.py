"""What leaves an evaluation holds no raw value and, where asked, no id; planted ones are looked for everywhere."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pytest
import torch
from click.testing import CliRunner
from mlflow.exceptions import MlflowException
from small_evaluations import QUICK, X, Y, evaluate
from small_networks import GRUClassifier

from dynamask_mlflow.cli import main
from dynamask_mlflow.evaluation.privacy import hashed, reason_of

VALUE, BAD = 7777.125, 8888.25
IDS = [f"MRN-{700000 + i}" for i in range(len(X))]


class QuotesItsInput(GRUClassifier):
    """Fails on absurd values with an error that quotes them, as many a model's own checks do."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if bool((x == BAD).any()):
            raise RuntimeError(f"bad measurement {x[x == BAD].tolist()} of {BAD}")
        return super().forward(x / (1 + x.abs()))


@pytest.fixture
def planted() -> np.ndarray:
    x = X.copy()
    x[:, 2, 1] = VALUE
    x[[3, 5], 4, 0] = BAD
    return x


def everything(folder: Path) -> bytes:
    return b"\n".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("hash_ids", [False, True])
def test_failures_name_no_value_and_no_hidden_id(
    store: Path,
    planted: np.ndarray,
    hash_ids: bool,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DYNAMASK_ID_SALT", "a secret of sixteen letters")
    with caplog.at_level(logging.INFO), mlflow.start_run() as run:
        result = mlflow.models.evaluate(
            QuotesItsInput(),
            mlflow.data.from_sequences(planted, targets=Y, ids=IDS),
            model_type="sequence-classifier",
            evaluators="dynamask",
            evaluator_config={**QUICK, "instances": None, "hash_ids": hash_ids},
        )
    assert result.metrics["dynamask/failures"] == 2
    failures = result.artifacts["dynamask_config"].content["failures"]
    assert set(failures.values()) == {"RuntimeError in the model or the fit"}
    folder = Path(mlflow.artifacts.download_artifacts(run_id=run.info.run_id, artifact_path="dynamask"))
    said = caplog.text + "".join(capfd.readouterr()) + str(mlflow.MlflowClient().get_run(run.info.run_id).data)
    left = everything(folder).decode("latin-1") + said
    assert "2 of 30 sampled instances could not be explained" in said
    for value in (VALUE, BAD):
        assert str(value) not in left
        assert np.float32(value).tobytes().decode("latin-1") not in everything(folder).decode("latin-1")
    assert ("MRN-700003" in left) is not hash_ids
    assert (hashed("MRN-700003") in left) is hash_ids


def test_what_was_measured_changes_no_mask_and_leaves_with_the_inputs_alone(store: Path) -> None:
    measured = np.random.default_rng(0).random(X.shape) < 0.5
    network, pages, masks = GRUClassifier(), {}, []
    for log_inputs in (False, True):
        for given in (None, measured):
            told = mlflow.data.from_sequences(X, targets=Y, measured=given)
            result = evaluate(network, told, sampling="first", log_inputs=log_inputs, images=0)
            page = Path(result.artifacts["dynamask_report"].uri.removeprefix("file://"))
            pages[log_inputs, given is not None] = page.read_text(encoding="utf-8")
            masks.append(result.artifacts["dynamask_masks"].content.masks)
    held = {key for key, page in pages.items() if 'id="blob-observed"' in page}
    assert held == {(True, True)}
    for other in masks[1:]:
        np.testing.assert_array_equal(other, masks[0])


def test_no_view_of_a_change_or_a_comparison_names_a_value_or_a_hidden_id(
    store: Path, planted: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DYNAMASK_ID_SALT", "a secret of sixteen letters")
    planted[planted == BAD] = VALUE
    runs = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        with mlflow.start_run() as run:
            mlflow.models.evaluate(
                QuotesItsInput(),
                mlflow.data.from_sequences(planted, targets=Y, ids=IDS),
                model_type="sequence-classifier",
                evaluators="dynamask",
                evaluator_config={
                    **QUICK,
                    "hash_ids": True,
                    "change_since": 3,
                    "change_padding": "carry",
                    "more_targets": ["class:0"],
                },
            )
        runs.append(run.info.run_id)
    done = CliRunner().invoke(main, ["compare", *runs, "--out", str(store / "left" / "compare.html")])
    assert done.exit_code == 0, done.output
    for run_id in runs:
        mlflow.artifacts.download_artifacts(run_id=run_id, dst_path=str(store / "left" / run_id))
    names = {path.name for path in (store / "left").rglob("*")}
    assert {
        "compare.html",
        "change.npz",
        "change.json",
        "dynamask_changes.json",
        "model_card.md",
        "report.html",
    } <= names
    left = everything(store / "left")
    for path in (store / "left").rglob("*.npz"):
        with np.load(path) as arrays:
            left += b"".join(arrays[name].tobytes() for name in arrays.files)
    for told in (str(VALUE).encode(), np.float32(VALUE).tobytes(), np.float64(VALUE).tobytes(), b"MRN-7"):
        assert told not in left


@pytest.mark.parametrize("salt", [None, "", "  "])
def test_hashes_of_ids_need_a_secret_before_anything_is_computed(
    store: Path, saved: str, salt: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DYNAMASK_ID_SALT", raising=False)
    if salt is not None:
        monkeypatch.setenv("DYNAMASK_ID_SALT", salt)
    monkeypatch.setattr("dynamask_mlflow.tracking.evaluate_run.evaluate_masks", lambda *a, **k: pytest.fail("computed"))
    with pytest.raises(MlflowException, match="Expected the environment variable DYNAMASK_ID_SALT to hold a secret"):
        evaluate(saved, hash_ids=True)
    with pytest.raises(ValueError, match="DYNAMASK_ID_SALT"):
        hashed("MRN-1")


def test_a_short_secret_is_remarked_on(
    store: Path, saved: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("DYNAMASK_ID_SALT", "pepper")
    evaluate(saved, hash_ids=True)
    assert "fewer than 16 characters" in caplog.text


def test_ids_that_are_missing_are_not_quoted_where_they_are_hidden(
    store: Path, saved: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DYNAMASK_ID_SALT", "a secret of sixteen letters")
    with pytest.raises(MlflowException, match="1 of 1 are not among its 30") as raised:
        evaluate(saved, hash_ids=True, ids=["MRN-9"])
    assert "MRN-9" not in str(raised.value)


def test_reasons_quote_only_what_the_package_wrote() -> None:
    from dynamask_mlflow.masks.errors import ModelError

    def wrapped() -> Exception:
        try:
            raise RuntimeError(f"value {VALUE}")
        except RuntimeError as inner:
            error: Any = ModelError(f"Expected a model, but it failed with {inner}")
            error.__cause__ = inner
            return error

    assert reason_of(ModelError("Expected finite outputs.")) == "ModelError: Expected finite outputs."
    assert reason_of(wrapped()) == "RuntimeError in the model or the fit"
    assert reason_of(KeyError(VALUE)) == "KeyError in the model or the fit"


def test_a_password_in_a_datasets_source_is_not_stored() -> None:
    dataset = mlflow.data.from_sequences(X, source="http://ann:hunter2@host/stays.npz")
    assert "hunter2" not in str(dataset.to_dict())
