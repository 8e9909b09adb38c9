"""Which tests run which line of the core, and how long each takes: measured once, then asked for every mutant."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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
)
SLOWEST = 20.0


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
    """A plugin of pytest: how long each test took, its fixtures included, and whether it passed."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.unfit: set[str] = set()

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.seconds[report.nodeid] += report.duration
        if not report.passed:
            self.unfit.add(report.nodeid)


def measure(tests: tuple[str, ...] = TESTS) -> CoveringTests:
    """Run the tests in a process of their own, each line noted with the test that ran it."""
    import coverage

    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        (where / "rc").write_text("[run]\nsource_pkgs = dynamask_mlflow\n", encoding="utf-8")
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
    return CoveringTests({test: s for test, s in seconds.items() if s <= SLOWEST}, _quick(by_line, seconds))


def _quick(by_line: dict[str, dict[int, set[str]]], seconds: dict[str, float]) -> dict[str, dict[int, set[str]]]:
    return {
        file: {line: {test for test in tests if seconds[test] <= SLOWEST} for line, tests in lines.items()}
        for file, lines in by_line.items()
    }


def save(found: CoveringTests, path: Path) -> None:
    lines = {file: {line: sorted(tests) for line, tests in each.items()} for file, each in found.by_line.items()}
    path.write_text(json.dumps({"seconds": found.seconds, "by_line": lines}), encoding="utf-8")


def load(path: Path) -> CoveringTests:
    found = json.loads(path.read_text(encoding="utf-8"))
    by_line = {file: {int(line): set(tests) for line, tests in each.items()} for file, each in found["by_line"].items()}
    return CoveringTests(found["seconds"], by_line)


def main() -> None:
    import pytest

    where, *tests = sys.argv[1:]
    durations = Durations()
    options = ["-q", "-p", "no:cacheprovider", "-m", "not slow and not server and not browser"]
    covered = ["--cov", f"--cov-config={where}/rc", "--cov-context=test", "--cov-report="]
    pytest.main([*options, *covered, *tests], plugins=[durations])
    found = {"seconds": durations.seconds, "unfit": sorted(durations.unfit)}
    (Path(where) / "durations.json").write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
