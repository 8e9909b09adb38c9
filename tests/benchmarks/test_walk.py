"""The files that one evaluation goes through: few, in one direction, and on the page."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
MOST_FILES = 20


@pytest.mark.slow
def test_an_evaluation_goes_through_few_files_and_comes_back_to_tracking_for_logging_alone() -> None:
    command = [sys.executable, "-m", "benchmarks.walk"]
    printed = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    after = printed.partition("From evaluate to artifact")[2].splitlines()
    line = next(each for each in after if each.startswith("`"))
    files = re.findall(r"`([^`]+)`", line)
    assert files[0] == "tracking/loading"
    assert len(files) <= MOST_FILES, files
    afterwards = files[files.index("evaluation/evaluate") :]
    assert [file for file in afterwards if file.startswith("tracking/")] == ["tracking/spool", "tracking/upload"]
    assert line in (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8"), "Run `make walk`"
