"""What is tried again: the network, a lost worker, a full disk; not what will fail the same way every time."""

from __future__ import annotations

from airflow.sdk import ExceptionRetryPolicy, RetryAction, RetryRule

_PASSING = ["json.JSONDecodeError"]  # a ValueError, but from a proxy's error page
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
            RetryRule(exception=list(_PASSING), action=RetryAction.RETRY, reason="An answer that was cut short"),
            RetryRule(exception=list(_LASTING), action=RetryAction.FAIL, reason="Trying again would end the same way"),
        ]
    )
