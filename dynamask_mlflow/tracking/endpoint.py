"""A model behind an address, as a function that `mlflow.models.evaluate` and `explain` take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dynamask_mlflow.tracking.forward_answers import as_array

_SECONDS = 60.0


class Endpoint:
    """A served model (`mlflow models serve`, or any server of MLflow's scoring protocol) as a function of arrays.

    Args:
        url: of the server, with or without "/invocations".
        params: inference parameters of the model, for instance {"output": "probability"} for models of this package.
        headers: sent along, for instance {"Authorization": ...}.
        timeout: seconds that one request may take.
        arguments: names of all inputs of a model that takes several, such as ("x", "lengths", "static").

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
        arguments: Sequence[str] = ("x",),
    ) -> None:
        url = url.rstrip("/")
        self.url = url if url.endswith("/invocations") else f"{url}/invocations"
        self._params, self._headers, self._timeout = params, headers, timeout
        self.arguments = tuple(arguments)

    def __call__(self, data: Any = None, **named: Any) -> NDArray[Any]:
        """Predictions for an array (B, T, d) or (B, T d), for a table, or for several inputs by name."""
        import requests

        if hasattr(data, "to_dict"):
            body: dict[str, Any] = {"dataframe_split": data.to_dict(orient="split", index=False)}
        elif named:
            body = {"inputs": {name: np.asarray(values).tolist() for name, values in named.items()}}
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
        count = len(next(iter(named.values()))) if named else len(data)
        if predictions and isinstance(predictions, list) and isinstance(predictions[0], dict):
            predictions = pd.DataFrame(predictions)
        return as_array(predictions, count)
