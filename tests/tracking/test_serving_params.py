"""Parameters of `predict`: a misspelt one is an error, not an answer to another question."""

from __future__ import annotations

from pathlib import Path

import mlflow
import numpy as np
import pytest
import torch
from mlflow.exceptions import MlflowException

from dynamask_mlflow import save_model


def test_a_misspelt_parameter_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(8, 2))
    save_model(network, tmp_path / "model", task="classification", input_example=np.zeros((2, 4, 2)))
    model = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    x = np.zeros((2, 4, 2), dtype=np.float32)
    with pytest.raises(MlflowException, match=r"but got aera\. Did you mean 'area'\?"):
        model.predict(x, params={"explain": True, "aera": 0.1})
    assert len(model.predict(x)) == 2
