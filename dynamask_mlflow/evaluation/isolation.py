"""One bad instance must not cost the others: on an error a batch is halved until the culprits are alone."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

_logger = logging.getLogger(__name__)

Rows = NDArray[np.intp]
Result = TypeVar("Result")


@dataclass(frozen=True)
class Isolated(Generic[Result]):
    """Results in order, each with the rows it is for, and what happened to the other rows."""

    parts: list[tuple[Rows, Result]]
    failures: dict[int, Exception]

    @property
    def rows(self) -> Rows:
        return np.concatenate([np.empty(0, dtype=np.intp), *(rows for rows, _ in self.parts)])


def isolate(job: Callable[[Rows], Result], rows: Rows) -> Isolated[Result]:
    """Run `job` on rows whose results do not depend on each other; raises only if every single one fails."""
    parts: list[tuple[Rows, Result]] = []
    failures: dict[int, Exception] = {}

    # A stack, not a function that calls itself: that would be a cycle, and hold all results until they are collected.
    waiting = [rows]
    while waiting:
        some = waiting.pop()
        try:
            parts.append((some, job(some)))
        except Exception as error:
            if len(some) == 1:
                failures[int(some[0])] = error
                continue
            half = len(some) // 2
            waiting += [some[half:], some[:half]]
    if not parts:
        first = next(iter(failures.values()))
        if len({str(error) for error in failures.values()}) > 1:
            _logger.warning("All %d instances failed, for different reasons; the first is raised.", len(rows))
        raise first
    return Isolated(parts, failures)
