"""An audit with the raw tables at hand: the fault is traced to the code under which it was charted."""

from __future__ import annotations

import json

import numpy as np
import torch
from click.testing import CliRunner
from torch import Tensor, nn

from dynamask_mlflow import log_model
from dynamask_mlflow.cli import main
from dynamask_mlflow.data import BuildConfig, build, open_source
from dynamask_mlflow.data.hospital import HospitalConfig, synthesize


class Late(nn.Module):
    """A weighted sum of the last day."""

    def __init__(self, weights: Tensor) -> None:
        super().__init__()
        self.weights = nn.Parameter(weights)

    def forward(self, x: Tensor) -> Tensor:
        score = (x[:, 24:] * self.weights).mean(dim=(1, 2)) * x.shape[2]
        return torch.stack([torch.zeros_like(score), score], dim=1)


def test_a_month_in_fahrenheit_is_traced_to_its_item_by_the_command(place, tmp_path):
    tables = tmp_path / "hospital"
    synthesize(tables, HospitalConfig(stays=800, months=21, seed=5))  # the fault is in the last month, 2024-09
    config = BuildConfig(until="2023-12", shares=(0.2, 0.1, 0.7), threads=1)
    stays = build(open_source("synthetic", str(tables)), config)
    data = str(stays.save(tmp_path / "stays"))
    weights = torch.zeros(len(stays.channel_names))
    for name in ("HeartRate", "SpO2", "RespRate"):
        weights[stays.channel_names.index(name)] = 1.0
    log_model(
        Late(weights),
        name="model",
        task="classification",
        input_example=np.zeros((2, *stays.x.shape[1:]), dtype=np.float32),
        channel_names=stays.channel_names,
        registered_model_name="late",
    )
    settings = {
        "progress": "false", "device": "cpu", "minimum": 15, "instances": 40, "reference_instances": 60, "anchors": 0,
        "permutations": 499, "audits_per_year": 1, "report_instances": 0,
    }  # fmt: skip
    where = ["--model", "models:/late/1", "--data", data, "--store", str(tmp_path / "store")]
    where += [f"--set={key}={value}" for key, value in settings.items()]
    runner = CliRunner()
    assert runner.invoke(main, ["audit", "reference", *where, "--window", "2023", "--split", "test"]).exit_code == 0
    raw = ["--events", str(tables), "--events-source", "synthetic", "--json"]
    result = runner.invoke(main, ["audit", "run", *where, "--window", "2024-09", *raw])
    assert result.exit_code in (1, 4), result.output
    verdict = json.loads(result.output[result.output.index("{") :])
    assert any(v["kind"] == "inputs" and v["subject"] == "Temp" for v in verdict["violations"])
    # The proven cause comes first, with both medians; SpO2, though more rests on it, after it.
    assert verdict["diagnosis"][0].startswith("This fits another unit for Temp: it is measured, but with other values")
    assert "median 9" in verdict["diagnosis"][0]
    assert "before 37" in verdict["diagnosis"][0]
    assert any(step.startswith("Temp: correct the unit") for step in verdict["steps"])
    told = " ".join(verdict["places"])
    assert "Temp (gaps)" in told
    # Celsius codes hold Fahrenheit: 98 instead of 37 degrees; the Fahrenheit codes are gone.
    assert "the median of the stays' means is 9" in told
    assert "is gone" in told
