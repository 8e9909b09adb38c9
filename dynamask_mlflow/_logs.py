"""The package's logger. Its warnings are seen whatever other libraries do to the root logger.

`import mlflow.pytorch` sets the root logger to ERROR, which would silence every logger without a level of its own.
Records go up to the root logger as well, so that task logs of Airflow have them.
"""

from __future__ import annotations

import logging
import sys
from typing import TextIO

PACKAGE = "dynamask_mlflow"


class _WhereNobodyPrints(logging.StreamHandler[TextIO]):
    """Writes to stderr what no handler of the root logger takes."""

    def emit(self, record: logging.LogRecord) -> None:
        if any(_takes(handler, record) for handler in logging.getLogger().handlers):
            return
        self.setStream(sys.stderr)  # as it is now: notebooks and tests replace it
        super().emit(record)


def _takes(handler: logging.Handler, record: logging.LogRecord) -> bool:
    return record.levelno >= handler.level and not isinstance(handler, logging.NullHandler)


def set_up_logging() -> None:
    """Give the package's logger a level and a handler, unless it has either already."""
    logger = logging.getLogger(PACKAGE)
    if logger.level != logging.NOTSET or logger.handlers:
        return
    logger.setLevel(logging.INFO)
    handler = _WhereNobodyPrints()
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    logger.addHandler(handler)


def say(message: str) -> None:
    """A warning that is seen on stderr whatever other libraries made of the logging configuration.

    `logging.config` disables loggers that exist already unless told otherwise, and `logging.disable` silences all of
    them: neither is meant for this package. A level that the user set on the package's logger holds.
    """
    set_up_logging()
    logger = logging.getLogger(PACKAGE)
    logger.disabled = False
    if logger.level > logging.WARNING:
        return
    handlers = [*logger.handlers, *(logging.getLogger().handlers if logger.propagate else ())]
    silenced = logger.manager.disable >= logging.WARNING
    if silenced or not any(handler.level <= logging.WARNING and _prints(handler) for handler in handlers):
        sys.stderr.write(f"WARNING {PACKAGE}: {message}\n")
    if not silenced:
        logger.warning("%s", message)


def _prints(handler: logging.Handler) -> bool:
    return not isinstance(handler, logging.NullHandler)
