"""What is of the whole process (random numbers, environment, a network's mode) is changed by one thread at a time."""

from __future__ import annotations

import os
import threading
from contextlib import AbstractContextManager

_lock = threading.RLock()


def one_thread() -> AbstractContextManager[bool]:
    """The lock to hold from a change until it is undone; a thread that holds it may take it again.

    >>> with one_thread(), one_thread():
    ...     print("alone")
    alone
    """
    return _lock


def _renew() -> None:
    global _lock
    _lock = threading.RLock()  # who held it may be a thread that a forked process has not


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
