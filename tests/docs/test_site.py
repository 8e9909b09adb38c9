"""The site is built, and every warning is an error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from blocks import ROOT


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    reference = (tmp_path / "site" / "reference" / "index.html").read_text(encoding="utf-8")
    assert "Which cells of each sequence moved" in reference
    assert (tmp_path / "site" / "security" / "index.html").is_file()
