"""What a user sees while masks are fitted."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any

from dynamask_mlflow.masks.fitted import Tick


class Progress:
    """A bar over the instances; by default only where somebody watches.

    Args:
        wanted: show it, or not; None: where standard error is a terminal.
        instances: how many there are.
    """

    def __init__(self, wanted: bool | None, instances: int) -> None:
        self._shown = sys.stderr.isatty() if wanted is None else wanted
        self._instances = instances
        self._steps = 0
        self._bar: Any = None
        self.tick: Tick = self._tick if self._shown else lambda: None

    def done(self, instances: int) -> None:
        """So many more instances are explained."""
        self._steps = 0
        if self._bar is not None:
            self._bar.set_postfix_str("", refresh=False)
            self._bar.update(instances)

    def _tick(self) -> None:
        """One more step of the batch at hand, which may take long."""
        self._steps += 1
        if self._bar is not None:
            self._bar.set_postfix_str(f"step {self._steps} of this batch", refresh=False)
            self._bar.update(0)

    def __enter__(self) -> Progress:
        if self._shown:
            from tqdm import tqdm

            # miniters=0: steps show, too, though no instance is done.
            self._bar = tqdm(total=self._instances, desc="explaining", unit=" instances", leave=False, miniters=0)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.close()
