"""What is tried again: the network, a lost worker, a full disk; not what will fail the same way every time."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from airflow.sdk import ExceptionRetryPolicy, RetryAction, RetryRule

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
_PASSING = [
    "json.JSONDecodeError",  # a ValueError, but from a proxy's error page
    "dynamask_mlflow.audit.errors.DataLostError",  # an AuditError, but a mount may come back
    "dynamask_mlflow.data.errors.DatasetMissingError",  # the same
]
_LASTING = [
    "dynamask_mlflow.audit.errors.AuditError",
    "dynamask_mlflow.data.errors.DataError",
    "builtins.ValueError",
    "builtins.TypeError",
    "builtins.LookupError",
    "builtins.AttributeError",
    "builtins.NotImplementedError",
    "builtins.ImportError",
]


def retry_policy() -> ExceptionRetryPolicy:
    """Fail at the first try what a second try cannot mend."""
    return ExceptionRetryPolicy(
        rules=[
            RetryRule(exception=list(_PASSING), action=RetryAction.RETRY, reason="This may pass"),
            RetryRule(exception=list(_LASTING), action=RetryAction.FAIL, reason="Trying again would end the same way"),
        ]
    )


def refusals_fail(step: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """MLflow has one exception for everything; where it says no for good, the task fails at the first try."""

    @wraps(step)
    def plainly(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        from dynamask_mlflow._secrets import without_secrets
        from dynamask_mlflow.audit.errors import AuditError, is_lasting

        try:
            return step(*args, **kwargs)
        except Exception as error:
            if is_lasting(error):
                raise AuditError(f"MLflow refused: {without_secrets(error)}") from error
            raise

    return plainly
