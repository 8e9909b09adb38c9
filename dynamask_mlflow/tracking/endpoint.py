"""A model behind an address, as a function that `mlflow.models.evaluate` and `explain` take."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_SECONDS = 60.0


class Endpoint:
    """A served model (`mlflow models serve`, or any server of MLflow's scoring protocol) as a function of arrays.

    Args:
        url: of the server, with or without "/invocations".
        params: inference parameters of the model, for instance {"output": "probability"} for models of this package.
        headers: sent along, for instance {"Authorization": ...}.
        timeout: seconds that one request may take.

    Example:
        >>> from dynamask_mlflow import Endpoint
        >>> Endpoint("http://127.0.0.1:5001").url
        'http://127.0.0.1:5001/invocations'
    """

    def __init__(
        self,
        url: str,
        *,
        params: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        timeout: float = _SECONDS,
    ) -> None:
        url = url.rstrip("/")
        self.url = url if url.endswith("/invocations") else f"{url}/invocations"
        self._params, self._headers, self._timeout = params, headers, timeout

    def __call__(self, data: Any) -> NDArray[Any]:
        """Predictions for an array (B, T, d) or (B, T d), or for a table."""
        import requests

        if hasattr(data, "to_dict"):
            body: dict[str, Any] = {"dataframe_split": data.to_dict(orient="split", index=False)}
        else:
            body = {"inputs": np.asarray(data).tolist()}
        if self._params:
            body["params"] = self._params
        answer = requests.post(self.url, json=body, headers=self._headers, timeout=self._timeout)
        if answer.status_code != 200:
            raise ValueError(
                f"Expected predictions from {self.url}, but got status {answer.status_code}: {answer.text[:300]}"
            )
        found = answer.json()
        predictions = found["predictions"] if isinstance(found, dict) and "predictions" in found else found
        if isinstance(predictions, dict):
            raise ValueError(f"Expected one output from {self.url}, but got {sorted(predictions)}.")
        if predictions and isinstance(predictions[0], dict):
            predictions = [list(row.values()) for row in predictions]
        return np.asarray(predictions)
