"""`make matrix`: the quick start and a part of the suite with other versions of what the package stands on.

Each row is an environment that takes everything from the present one but the packages it names, which are installed
over it without their dependencies (torch with them: its builds of the index come with CUDA, some gigabytes that are
deleted afterwards). For another Python a whole environment is made.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- matrix: begin -->", "<!-- matrix: end -->"
TESTS = ("tests/metrics", "tests/tracking/test_sequence_dataset.py", "tests/tracking/test_mlflow_internals.py")
ROWS: tuple[tuple[str, ...], ...] = (
    (),
    ("mlflow==3.14.0", "mlflow-skinny==3.14.0", "mlflow-tracing==3.14.0"),
    ("mlflow==3.18.0", "mlflow-skinny==3.18.0", "mlflow-tracing==3.18.0"),
    ("numpy==2.0.2", "pandas==2.2.3"),
    ("numpy==1.26.4", "pandas==2.2.3", "pyarrow==15.0.2"),
    ("torch==2.4.1",),
    ("torch==2.15.0",),
)
PYTHONS = ("python3.12", "python3.13")
TEST_TOOLS = ("pytest", "pytest-rerunfailures", "hypothesis")


@dataclass(frozen=True)
class Outcome:
    """One row of the table."""

    what: str
    quick_start: str
    tests: str


def run_row(packages: tuple[str, ...], folder: Path) -> Outcome:
    """Lay the packages over the present environment, then run."""
    what = ", ".join(name for name in packages if "-" not in name.split("==")[0]) or "as in constraints.txt"
    overlay = folder / "overlay"
    if packages:
        alone = [] if "torch" in packages[0] else ["--no-deps"]
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", *alone, "--target", str(overlay)]
        done = subprocess.run([*install, *packages], capture_output=True, text=True)
        if done.returncode:
            return Outcome(what, "not installable here", "-")
    return try_out(what, sys.executable, f"{overlay}:{ROOT}", folder)


def run_python(name: str, folder: Path) -> Outcome:
    """A whole environment for another Python, with the versions of constraints.txt."""
    try:
        subprocess.run([name, "--version"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return Outcome(Path(name).name, "not installed here", "-")
    python = str(folder / "env" / "bin" / "python")
    subprocess.run([name, "-m", "venv", str(folder / "env")], check=True)
    told = subprocess.run([python, "-c", "import platform; print(platform.python_version())"], capture_output=True)
    what = f"Python {told.stdout.decode().strip()}"
    install = [python, "-m", "pip", "install", "--quiet", "--no-compile", "--constraint", str(ROOT / "constraints.txt")]
    done = subprocess.run([*install, "torch", *TEST_TOOLS, f"{ROOT}[data]"], capture_output=True, text=True)
    if done.returncode:
        return Outcome(what, "not installable here", "-")
    return try_out(what, python, "", folder)


def try_out(what: str, python: str, path: str, folder: Path) -> Outcome:
    """The quick start and a part of the suite."""
    quick = _run([python, str(ROOT / "tests" / "distribution" / "run_quick_start.py")], path, folder)
    suite = _run([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS], path, ROOT)
    return Outcome(what, quick, suite)


def _run(command: list[str], path: str, cwd: Path) -> str:
    env = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=1200)
    if done.returncode == 0:
        counted = [line for line in done.stdout.splitlines() if " passed" in line]
        return counted[-1].split(" in ")[0].strip("= ") if counted else "runs"
    lines = (done.stdout + done.stderr).strip().splitlines()
    reasons = [line.strip() for line in lines if "Error" in line or " failed" in line] or lines[-1:]
    return f"fails: {reasons[-1][:100].replace('|', '/')}"


def page(outcomes: list[Outcome]) -> str:
    version = sysconfig.get_python_version()
    head = f"On Python {version}:\n\n| versions | quick start | tests of metrics, dataset, MLflow |\n|---|---|---|\n"
    return head + "\n".join(f"| {row.what} | {row.quick_start} | {row.tests} |" for row in outcomes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--update", type=Path, help="Write the table between the marks of this page.")
    parser.add_argument("--only", type=int, nargs="*", help="Numbers of rows; those of Pythons come last.")
    parser.add_argument("--python", nargs="*", default=list(PYTHONS), help="Other Pythons.")
    options = parser.parse_args()
    tries: list[Callable[[Path], Outcome]] = [partial(run_row, packages) for packages in ROWS]
    tries += [partial(run_python, name) for name in options.python]
    outcomes = []
    for number, attempt in enumerate(tries):
        if options.only is not None and number not in options.only:
            continue
        with tempfile.TemporaryDirectory(prefix="dynamask-matrix-") as folder:
            outcomes.append(attempt(Path(folder)))
        print(outcomes[-1], flush=True)
    text = page(outcomes)
    if options.update is None:
        print(text)
        return
    before, _, rest = options.update.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    options.update.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
