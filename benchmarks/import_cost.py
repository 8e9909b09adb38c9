"""How much longer `import mlflow` takes because this package is installed.

Fresh interpreters take turns with and without this package's entry points: processor time of `import mlflow` in
milliseconds, over 15 starts each. The growth is the difference of these rows; a second-long import is noisy, least so
in its fastest starts. The last row is what the package adds, loaded by itself once MLflow is there.
"""

from __future__ import annotations

import statistics
import subprocess
import sys

_SCRIPT = """
import importlib.metadata, sys, time
every, hidden = importlib.metadata.entry_points, sys.argv[1]
def some(**chosen):
    return [e for e in every(**chosen) if not e.value.startswith(hidden)]
importlib.metadata.entry_points = some
begin = time.process_time()
import mlflow
took = time.process_time() - begin
if hasattr(mlflow.data, "from_sequences") == (hidden == "dynamask_mlflow"):
    raise SystemExit("Expected the entry points to be hidden from MLflow, or to be found by it.")
begin = time.process_time()
for entry in every(group="mlflow.dataset_constructor"):
    entry.load()
print(1000 * took, 1000 * (time.process_time() - begin))
"""
STARTS = 15


def _start(hidden: str) -> tuple[float, float]:
    done = subprocess.run([sys.executable, "-c", _SCRIPT, hidden], capture_output=True, text=True, check=True)
    took, ours = map(float, done.stdout.split()[-2:])
    return took, ours


def run(starts: int = STARTS) -> dict[str, dict[str, float]]:
    """Rows: with and without the entry points, the growth, and the entry points by themselves."""
    pairs = [(_start("nothing"), _start("dynamask_mlflow")) for _ in range(starts)]
    ours, theirs, alone = (
        {"fastest, ms": round(min(values), 1), "median, ms": round(statistics.median(values), 1)}
        for values in (
            [took for (took, _), _ in pairs],
            [took for _, (took, _) in pairs],
            [took for _, (_, took) in pairs],
        )
    )
    growth = {name: round(ours[name] - theirs[name], 1) for name in ours}
    return {"with": ours, "without": theirs, "growth": growth, "the entry points alone": alone}
