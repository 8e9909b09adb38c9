"""Wheel and sdist are whole, and the README's quick start runs from the installed wheel, in a path with spaces."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEEDED = (
    "dynamask_mlflow/py.typed",
    "dynamask_mlflow/data/feature_sets/ricu.yaml",
    "dynamask_mlflow/orchestration/example_dags/explanation_audit.py",
    "dynamask_mlflow/orchestration/example_dags/dataset_build.py",
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from what git knows, with the tools of this environment."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        if name.startswith(("dynamask_mlflow/", "setup.cfg", "pyproject.toml", "README.md", "LICENSE")):
            target = source / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((ROOT / name).read_bytes())
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return out


def test_wheel_and_sdist_are_whole(built: Path) -> None:
    (wheel,), (sdist,) = built.glob("*.whl"), built.glob("*.tar.gz")
    inside = set(zipfile.ZipFile(wheel).namelist())
    assert set(NEEDED) <= inside
    assert any(name.startswith("dynamask_mlflow/report/assets/") for name in inside)
    assert not [name for name in inside if name.startswith(("tests", "benchmarks", "dags"))]
    with tarfile.open(sdist) as archive:
        assert any(name.endswith("/README.md") for name in archive.getnames())


@pytest.mark.slow
def test_the_quick_start_runs_from_the_installed_wheel(built: Path, tmp_path: Path) -> None:
    home = tmp_path / "a path with spaces"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home / "env")], check=True)
    python = home / "env" / "bin" / "python"
    (wheel,) = built.glob("*.whl")
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", str(wheel)]
    subprocess.run(install, check=True, env={**os.environ, "PIP_NO_INDEX": "1"})
    # Everything but this package comes from here: a path in a .pth does not bring the links of an editable install.
    (packages,) = (home / "env").glob("lib/python*/site-packages")
    (packages / "shared.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH" and not name.startswith("MLFLOW")}
    script = Path(__file__).with_name("run_quick_start.py")
    command = [str(python), str(script), "--without-airflow"]
    done = subprocess.run(command, cwd=home, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    assert Path(done.stdout.strip().splitlines()[-1]).is_relative_to(home.resolve())
