"""What keeps an audit from being done at all; an audit that was done ends in a verdict instead."""


class AuditError(Exception):
    """The audit cannot be done, and trying again will not help; the message says why and what to do."""


class NoDataError(AuditError):
    """There is not one stay to audit in the window."""


class TrackingLostError(Exception):
    """MLflow did not answer at the end of an audit. The fits are kept: trying again costs a few seconds."""
