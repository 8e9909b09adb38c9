"""The committed bundle is that of the sources in `frontend/`."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FRONTEND = ROOT / "frontend"
ASSETS = ROOT / "dynamask_mlflow" / "report" / "assets"


def source_digest() -> str:
    """As `frontend/build.mjs` computes it: sources, the build script and the versions of its tools."""
    names = [f"src/{path.name}" for path in sorted((FRONTEND / "src").iterdir(), key=lambda path: path.name)]
    digest = hashlib.sha256()
    for name in [*names, "build.mjs", "package-lock.json"]:
        digest.update(name.encode() + b"\0" + (FRONTEND / name).read_bytes() + b"\0")
    return digest.hexdigest()


def test_bundle_was_built_from_the_sources_as_they_are() -> None:
    stored = (ASSETS / "sources.sha256").read_text().strip()
    assert source_digest() == stored, "the sources have changed: run `make frontend` and commit the bundle"


def test_types_lint_units_and_bundle_hold_where_node_is_set_up() -> None:
    if shutil.which("npm") is None or not (FRONTEND / "node_modules").is_dir():
        pytest.skip("node is not set up; the digest above holds: `make frontend` sets it up")
    done = subprocess.run(["npm", "run", "check"], cwd=FRONTEND, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
