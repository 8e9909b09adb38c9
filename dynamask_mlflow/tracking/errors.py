"""What can go wrong between a fitted explanation and the tracking server."""

from __future__ import annotations

from mlflow.exceptions import MlflowException


class UntrustedModelError(ValueError):
    """The model could run code of its own when it is loaded; nothing of it was."""


class SpoolError(ValueError):
    """A folder cannot hold results, or does not hold what it should; the message says why."""


class UploadError(MlflowException):
    """The results were not uploaded. They are kept on disk: the message says where, and how to finish."""

    def __init__(self, message: str, cause: BaseException | None = None) -> None:
        from mlflow.protos.databricks_pb2 import INTERNAL_ERROR, ErrorCode

        named = str(getattr(cause, "error_code", ""))
        code = ErrorCode.Value(named) if named in ErrorCode.keys() else INTERNAL_ERROR  # noqa: SIM118
        super().__init__(message, error_code=code)
