"""Audits, through their commands, of models without gradients and of models of several inputs."""

from __future__ import annotations

import json

import mlflow
import numpy as np
import pytest
import torch
from audit_hospital import STEPS
from click.testing import CliRunner
from mlflow.models import ModelSignature
from mlflow.types import Schema, TensorSpec
from torch import Tensor, nn

from dynamask_mlflow import log_model
from dynamask_mlflow.cli import main
from dynamask_mlflow.cli.inputs import Reading, open_data


def audited(place, name: str, *options: str) -> dict[str, str]:
    """State of February, where nothing changed, and of March, where lactate is never high."""
    states = {}
    given = [f"--set={each}" for each in ("instances=50", "reference_instances=100", *options)]
    model = ["--model", f"models:/{name}/1"]
    reference = CliRunner().invoke(main, place.command("reference", *model, "--window", "2026-01", *given))
    assert reference.exit_code == 0, reference.output
    for window in ("2026-02", "2026-03"):
        done = CliRunner().invoke(main, place.command("run", *model, "--window", window, "--json", *given))
        states[window] = json.loads(done.output[done.output.index("{") :])["state"]
    return states


class Risk(mlflow.pyfunc.PythonModel):
    """Lactate and heart rate late in the stay, from windows in one row, without gradients."""

    def predict(self, context, model_input, params=None):  # type: ignore[no-untyped-def]
        late = np.log1p(np.exp(2 * np.asarray(model_input).reshape(-1, STEPS, 4)[:, STEPS // 2 :])) / 2
        return 1 / (1 + np.exp(2.0 - late[:, :, 1].sum(1) - 0.6 * late[:, :, 0].sum(1)))


def test_a_model_that_only_predicts_is_audited_by_forward_passes(place) -> None:
    signature = ModelSignature(Schema([TensorSpec(np.dtype("float32"), (-1, STEPS * 4))]))
    mlflow.pyfunc.log_model(
        name="flat",
        python_model=Risk(),
        registered_model_name="flat",
        pip_requirements=["mlflow"],
        signature=signature,
    )
    states = audited(place, "flat", "task=classification", "forward_budget=70")
    assert states == {"2026-02": "ok", "2026-03": "drift"}
    command = ["explain", "models:/flat/1", place.data, "--task", "classification", "--instances", "2", "--json"]
    explained = CliRunner().invoke(main, command)
    assert explained.exit_code == 0, explained.output
    first = json.loads(explained.output[explained.output.index('{"target"') :])["instances"][0]["cells"][0]
    assert first["channel"] in ("Lactate", "HeartRate")
    assert first["time"] >= STEPS // 2


class FromDictionary(nn.Module):
    """Lactate and heart rate late in the stay, as far as they were measured."""

    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        late = (nn.functional.softplus(batch["values"], beta=2) * batch["charted"])[:, STEPS // 2 :]
        score = late[:, :, 1].sum(1) + 0.6 * late[:, :, 0].sum(1) - 2.0
        return torch.stack([torch.zeros_like(score), score], dim=1)


def test_a_model_of_several_inputs_is_audited_as_it_was_logged(place) -> None:
    example = {"x": np.zeros((2, STEPS, 4), dtype=np.float32), "observed": np.ones((2, STEPS, 4), dtype=bool)}
    log_model(
        FromDictionary(),
        name="dictionary",
        task="classification",
        input_example=example,
        inputs={"values": "x", "charted": "observed"},
        serialization_format="pickle",
        registered_model_name="dictionary",
    )
    assert audited(place, "dictionary") == {"2026-02": "ok", "2026-03": "drift"}
    # The commands give it the mask of measured cells as well, which other models do not get.
    told = open_data(place.data, Reading(), "models:/dictionary/1").sequences
    assert told.observed is not None
    assert open_data(place.data, Reading(), "models:/icu@champion").sequences.observed is None


def test_words_as_labels_cannot_be_audited(place) -> None:
    class Words(mlflow.pyfunc.PythonModel):
        def predict(self, context, model_input, params=None):  # type: ignore[no-untyped-def]
            return np.where(np.asarray(model_input)[:, -1, 1] > 0, "dies", "survives")

    mlflow.pyfunc.log_model(name="w", python_model=Words(), registered_model_name="words", pip_requirements=["mlflow"])
    arguments = ["reference", "--model", "models:/words/1", "--window", "2026-01"]
    done = CliRunner().invoke(main, place.command(*arguments, "--set", "task=classification"))
    assert done.exit_code == 3
    assert "which of them is the risk cannot be told" in done.output


@pytest.fixture(autouse=True)
def _trust(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNAMASK_TRUST", "all")
