"""What keeps an audit from being done at all; an audit that was done ends in a verdict instead."""


class AuditError(Exception):
    """The audit cannot be done, and trying again will not help; the message says why and what to do."""


class NoDataError(AuditError):
    """There is not one stay to audit in the window."""


class DataLostError(AuditError):
    """Files that should be there are not: a wrong path, or a mount that is gone. The one kind of `AuditError` that
    waiting may mend, so that tasks are tried again.
    """


class TrackingLostError(Exception):
    """MLflow did not answer at the end of an audit. The fits are kept: trying again costs a few seconds."""


def is_lasting(error: BaseException) -> bool:
    """Whether MLflow said no, rather than nothing: a 4xx that waiting does not mend (no such run, a bad value, no
    permission). Too many requests, timeouts and conflicts pass.
    """
    status = getattr(error, "get_http_status_code", None)
    return callable(status) and 400 <= status() < 500 and status() not in (408, 409, 425, 429)
