"""`mlflow models serve`: predictions and explanations over REST."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import requests
import torch
from local_servers import free_port, start
from small_networks import NAMES, STEPS, GRUClassifier, sequences

import dynamask_mlflow

X, _ = sequences(3)


@pytest.mark.server
def test_a_served_model_predicts_and_explains(tmp_path: Path, network: GRUClassifier) -> None:
    dynamask_mlflow.save_model(
        network,
        tmp_path / "m",
        task="classification",
        input_example=X[:2],
        channel_names=NAMES,
        explain={"steps": 40},
    )
    port = free_port()
    command = [
        "mlflow",
        "models",
        "serve",
        "-m",
        str(tmp_path / "m"),
        "--env-manager",
        "local",
        "--port",
        str(port),
    ]
    server = start([*command, "--host", "127.0.0.1", "--workers", "1"], port, tmp_path / "log", health="ping")

    def ask(**params: object) -> list[object]:
        body = {"inputs": X.tolist(), **({"params": params} if params else {})}
        answer = requests.post(f"{server.url}/invocations", json=body, timeout=60)
        assert answer.ok, answer.text
        return answer.json()["predictions"]

    try:
        with torch.no_grad():
            expected = network(torch.as_tensor(X)).softmax(-1).numpy()
        assert ask() == expected.argmax(1).tolist()
        np.testing.assert_allclose(ask(output="probability"), expected, atol=1e-5)
        rows = ask(explain=True, area=0.2)
        assert [row["prediction"] for row in rows] == expected.argmax(1).tolist()
        masks = np.array([row["mask"] for row in rows])
        assert masks.shape == (3, STEPS, len(NAMES))
        assert masks.min() >= 0
        assert masks.max() <= 1
        np.testing.assert_allclose([row["area"] for row in rows], 0.2)
        refused = requests.post(
            f"{server.url}/invocations",
            json={"inputs": X.tolist(), "params": {"explain": True, "method": "magic"}},
            timeout=60,
        )
        assert refused.status_code == 400
        assert "magic" in refused.text
        # The server gives no gradients: forward passes over REST find what gradients find.
        endpoint = dynamask_mlflow.Endpoint(server.url, params={"output": "probability"})
        served = dynamask_mlflow.explain(endpoint, X, forward_budget=60, progress=False)
        local = dynamask_mlflow.explain(network, X, progress=False)
        assert set(served.algorithm) == {"forward passes"}
        np.testing.assert_allclose(served.diagnostics["answer"], local.diagnostics["answer"], atol=1e-3)
        np.testing.assert_array_equal(served.direction, local.direction)
        with pytest.raises(ValueError, match="status 400"):
            dynamask_mlflow.Endpoint(server.url)(X[:, :2])
    finally:
        server.stop()
