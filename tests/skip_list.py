"""Which skips are allowed, and what a run that left tests out says at its end."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

LIST: dict[str, Any] = tomllib.loads((Path(__file__).parent / "allowed_skips.toml").read_text(encoding="utf-8"))


def entry_for(reason: str) -> dict[str, Any] | None:
    """The entry of the list that allows a skip for this reason."""
    return next((entry for entry in LIST["allowed"] if any(known in reason for known in entry["reasons"])), None)


def reason_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    return str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else str(report.longrepr)


def forbidden(reports: Iterable[pytest.TestReport | pytest.CollectReport]) -> list[str]:
    """Tests that were skipped for a reason that is not on the list."""
    return [f"{report.nodeid}: {reason_of(report)}" for report in reports if entry_for(reason_of(report)) is None]


def left_out(reports: Iterable[pytest.TestReport | pytest.CollectReport]) -> list[str]:
    """One line for each kind of tests that did not run, with how to have them run."""
    entries = [entry for report in reports if (entry := entry_for(reason_of(report))) is not None]
    counts = Counter(entry["what"] for entry in entries)
    how = {entry["what"]: entry["run"] for entry in entries}
    return [f"{what} ({count}): {how[what]}" for what, count in counts.items()]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was not run and how to have it run."""
    skipped = terminalreporter.stats.get("skipped", [])
    lines = left_out(skipped)
    if lines:
        terminalreporter.section("not run, and how to run it")
        for line in lines:
            terminalreporter.write_line(line)
    for line in forbidden(skipped):
        terminalreporter.write_line(f"Expected to run, but was skipped: {line}", red=True)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """A skip that is not on the list fails the run."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = [] if reporter is None else reporter.stats.get("skipped", [])
    if session.exitstatus == pytest.ExitCode.OK and forbidden(skipped):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
