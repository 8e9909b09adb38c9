"""Which of MLflow's errors pass, and which will not."""

from __future__ import annotations

import pytest
from mlflow.exceptions import MlflowException, RestException
from mlflow.protos import databricks_pb2 as codes

from dynamask_mlflow.audit.errors import is_lasting


@pytest.mark.parametrize("code", ["RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE", "PERMISSION_DENIED"])
def test_a_refusal_will_not_pass(code):
    assert is_lasting(MlflowException("no", error_code=getattr(codes, code)))
    assert is_lasting(RestException({"error_code": code, "message": "no"}))


@pytest.mark.parametrize(
    "error",
    [
        MlflowException("API request failed with exception: connection refused"),
        MlflowException("wait", error_code=codes.REQUEST_LIMIT_EXCEEDED),
        MlflowException("busy", error_code=codes.TEMPORARILY_UNAVAILABLE),
        ConnectionError("gone"),
        ValueError("mlflow has no part in this"),
    ],
)
def test_silence_and_crowding_may_pass(error):
    assert not is_lasting(error)
