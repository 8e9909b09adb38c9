"""`make matrix`: the quick start and a part of the suite with other versions of what the package stands on.

Each row is an environment that takes everything from the present one but the packages it names, which are installed
over it without their dependencies. torch is not varied: its other builds would pull in CUDA.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- matrix: begin -->", "<!-- matrix: end -->"
TESTS = ("tests/metrics", "tests/tracking/test_sequence_dataset.py", "tests/tracking/test_flavor.py")
ROWS: tuple[tuple[str, ...], ...] = (
    (),
    ("mlflow==3.14.0", "mlflow-skinny==3.14.0", "mlflow-tracing==3.14.0"),
    ("mlflow==3.18.0", "mlflow-skinny==3.18.0", "mlflow-tracing==3.18.0"),
    ("pandas==2.2.3",),
    ("numpy==2.0.2", "pandas==2.2.3"),
    ("numpy==1.26.4", "pandas==2.2.3"),
    ("pyarrow==15.0.2", "pandas==2.2.3", "numpy==1.26.4"),
)
PYTHONS = ("python3.12", "python3.13")


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
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(overlay), *packages]
        done = subprocess.run(install, capture_output=True, text=True)
        if done.returncode:
            return Outcome(what, "not installable here", "-")
    path = f"{overlay}:{ROOT}"
    quick = _run([sys.executable, "-m", "tests.distribution.run_quick_start"], path, folder)
    suite = _run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS], path, ROOT)
    return Outcome(what, quick, suite)


def _run(command: list[str], path: str, cwd: Path) -> str:
    import os

    env = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=1200)
    if done.returncode == 0:
        counted = [line for line in done.stdout.splitlines() if " passed" in line]
        return counted[-1].split(" in ")[0].strip("= ") if counted else "runs"
    lines = (done.stdout + done.stderr).strip().splitlines()
    reasons = [line.strip() for line in lines if "Error" in line or " failed" in line] or lines[-1:]
    return f"fails: {reasons[-1][:100].replace('|', '/')}"


def other_pythons() -> list[Outcome]:
    """Pythons beside this one: whether they are on the path, and what to type then."""
    there = "on the path; run `make PYTHON={name} VENV=.venv-{name} test`"
    return [Outcome(n, there.format(name=n) if shutil.which(n) else "not installed here", "-") for n in PYTHONS]


def page(outcomes: list[Outcome]) -> str:
    version = sysconfig.get_python_version()
    head = f"On Python {version}:\n\n| versions | quick start | tests of metrics, dataset and flavor |\n|---|---|---|\n"
    return head + "\n".join(f"| {row.what} | {row.quick_start} | {row.tests} |" for row in outcomes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--update", type=Path, help="Write the table between the marks of this page.")
    parser.add_argument("--only", type=int, nargs="*", help="Numbers of rows.")
    options = parser.parse_args()
    outcomes = []
    for number, packages in enumerate(ROWS):
        if options.only is not None and number not in options.only:
            continue
        with tempfile.TemporaryDirectory(prefix="dynamask-matrix-") as folder:
            outcomes.append(run_row(packages, Path(folder)))
        print(outcomes[-1], flush=True)
    text = page([*outcomes, *other_pythons()])
    if options.update is None:
        print(text)
        return
    before, _, rest = options.update.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    options.update.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
