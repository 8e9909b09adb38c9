"""A misspelt parameter of `predict` is an error.

MLflow drops parameters that a signature does not know, with a warning that a client of the server never sees, before
the model is called. The warning is the only place where they can be noticed: for models of this flavor it is raised.
"""

from __future__ import annotations

import difflib
import logging

from dynamask_mlflow.tracking.mlflow_internals import (
    PARAMS_BEGIN,
    PARAMS_LOGGER,
    PARAMS_MIDDLE,
    check_params_warning,
)


class RefuseUnknownParams(logging.Filter):
    """Raises where MLflow warns that parameters of this flavor's models are ignored; other models keep the warning."""

    def __init__(self, known: frozenset[str]) -> None:
        super().__init__()
        self.known = known

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        if not message.startswith(PARAMS_BEGIN):
            return True
        given, _, supported = message.removeprefix(PARAMS_BEGIN).partition(PARAMS_MIDDLE)
        if any(repr(name) not in supported for name in self.known):
            return True
        from mlflow.exceptions import MlflowException

        names = [name.strip(" '\"") for name in given.strip("[]").split(",")]
        near = [match for name in names for match in difflib.get_close_matches(name, self.known, n=1)]
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise MlflowException.invalid_parameter_value(
            f"Expected params among {', '.join(sorted(self.known))}, but got {', '.join(names)}.{hint}"
        )


def refuse_unknown_params(known: frozenset[str]) -> None:
    """Have unknown parameters refused in this process; a second call changes nothing."""
    check_params_warning()
    logger = logging.getLogger(PARAMS_LOGGER)
    if not any(isinstance(found, RefuseUnknownParams) and found.known == known for found in logger.filters):
        logger.addFilter(RefuseUnknownParams(known))
