"""Which tests run which line of the core, and how long each takes: measured once, then asked for every mutant."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[1]
# Tests of the core that need no server, no browser and no registered model.
TESTS = (
    "tests/masks",
    "tests/metrics",
    "tests/evaluation",
    "tests/audit/test_audit_statistics.py",
    "tests/audit/test_audit_predictions.py",
    "tests/audit/test_audit_verdict.py",
    "tests/audit/test_audit_power.py",
    "tests/audit/test_audit_subgroups.py",
    "tests/audit/test_statistics_by_hand.py",
)
SLOWEST = 4.0  # seconds of CPU: a test that takes longer is stopped, and never chosen
SUBPACKAGES = ("masks", "metrics", "audit.statistics")  # whose lines are noted


@dataclass(frozen=True)
class CoveringTests:
    """Tests by file and line, as they passed without a mutant."""

    seconds: dict[str, float]
    by_line: dict[str, dict[int, set[str]]]
    _by_file: dict[str, set[str]] = field(default_factory=dict)

    def of_lines(self, file: str, lines: Iterator[int] | range | set[int]) -> set[str]:
        """Tests that run one of these lines."""
        found = self.by_line.get(file, {})
        return set().union(*(found.get(line, set()) for line in lines))

    def of_file(self, file: str) -> set[str]:
        """Tests that run any line of the file."""
        if file not in self._by_file:
            self._by_file[file] = set().union(*self.by_line.get(file, {}).values())
        return self._by_file[file]

    def within(self, tests: set[str], stem: str, budget: float) -> list[str]:
        """The tests to be run: those of the file's own name first, then the quick ones, as time allows."""
        ordered = sorted(tests, key=lambda test: (f"test_{stem}.py" not in test, self.seconds[test], test))
        chosen: list[str] = []
        spent = 0.0
        for test in ordered:
            spent += self.seconds[test]
            if chosen and spent > budget:
                break
            chosen.append(test)
        return chosen


class Durations:
    """A plugin of pytest: the CPU time of each test, and whether it passed.

    The first test of a module pays for what its fixtures share with the next; run alone, each would. So every test
    counts with the dearest set-up among those of its module that have the same fixtures.
    """

    def __init__(self) -> None:
        self.calls: dict[str, float] = {}
        self.set_ups: dict[tuple[str, ...], float] = {}
        self.fixtures: dict[str, tuple[str, ...]] = {}
        self.unfit: set[str] = set()

    @property
    def seconds(self) -> dict[str, float]:
        return {test: own + self.set_ups[self.fixtures[test]] for test, own in self.calls.items()}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Any:
        key = (item.nodeid.partition("::")[0], *getattr(item, "fixturenames", ()))
        begin = time.process_time()
        result = yield
        self.fixtures[item.nodeid] = key
        self.set_ups[key] = max(self.set_ups.get(key, 0.0), time.process_time() - begin)
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Any:
        signal.signal(signal.SIGPROF, _stop)
        signal.setitimer(signal.ITIMER_PROF, SLOWEST)
        begin = time.process_time()
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            self.calls[item.nodeid] = time.process_time() - begin

    def pytest_runtest_logreport(self, report: Any) -> None:
        if not report.passed:
            self.unfit.add(report.nodeid)


def _stop(*_: Any) -> None:
    raise TimeoutError(f"Expected a test of at most {SLOWEST} seconds of CPU.")


def measure(tests: tuple[str, ...] = TESTS) -> CoveringTests:
    """Run the tests in a process of their own, each line noted with the test that ran it."""
    import coverage

    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        packages = "".join(f"\n    dynamask_mlflow.{name}" for name in SUBPACKAGES)
        (where / "rc").write_text(f"[run]\nsource_pkgs ={packages}\n", encoding="utf-8")
        command = [sys.executable, "-m", "benchmarks.covering_tests", str(where), *tests]
        environment = os.environ | {"COVERAGE_FILE": str(where / "lines")}
        subprocess.run(command, cwd=REPOSITORY, env=environment, check=True, stdout=subprocess.DEVNULL)
        measured = json.loads((where / "durations.json").read_text(encoding="utf-8"))
        data = coverage.CoverageData(str(where / "lines"))
        data.read()
        seconds = {test: s for test, s in measured["seconds"].items() if test not in measured["unfit"]}
        by_line: dict[str, dict[int, set[str]]] = {}
        for file in data.measured_files():
            found = data.contexts_by_lineno(file)
            by_line[str(Path(file).relative_to(REPOSITORY))] = {
                line: {context.partition("|")[0] for context in contexts} & seconds.keys()
                for line, contexts in found.items()
            }
    return CoveringTests(seconds, by_line)


def save(found: CoveringTests, path: Path) -> None:
    lines = {file: {line: sorted(tests) for line, tests in each.items()} for file, each in found.by_line.items()}
    path.write_text(json.dumps({"seconds": found.seconds, "by_line": lines}), encoding="utf-8")


def load(path: Path) -> CoveringTests:
    found = json.loads(path.read_text(encoding="utf-8"))
    by_line = {file: {int(line): set(tests) for line, tests in each.items()} for file, each in found["by_line"].items()}
    return CoveringTests(found["seconds"], by_line)


def main() -> None:
    where, *tests = sys.argv[1:]
    durations = Durations()
    options = ["-q", "-p", "no:cacheprovider", "-m", "not slow and not server and not browser"]
    covered = ["--cov", f"--cov-config={where}/rc", "--cov-context=test", "--cov-report="]
    pytest.main([*options, *covered, *tests], plugins=[durations])
    found = {"seconds": durations.seconds, "unfit": sorted(durations.unfit)}
    (Path(where) / "durations.json").write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
