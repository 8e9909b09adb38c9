"""Large evaluations and long histories: `python -m benchmarks.load`.

`instances`: 100,000 sequences of 48 x 32 through `mlflow.models.evaluate` in a process of its own; the most memory that
it took, arrays of the caller included. `history`: 2,000 audits of one model in a store; the time that reading them
takes.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any


def evaluate(folder: Path, count: int) -> dict[str, Any]:
    import mlflow
    import numpy as np
    import torch
    from torch import nn

    from dynamask_mlflow import log_model
    from dynamask_mlflow.tracking.dataset import from_sequences

    class Risk(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gru, self.head = nn.GRU(32, 16, batch_first=True), nn.Linear(16, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            answer: torch.Tensor = self.head(self.gru(x)[0][:, -1])
            return answer

    torch.set_num_threads(1)
    torch.manual_seed(0)
    mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
    mlflow.create_experiment("load", artifact_location=(folder / "artifacts").as_uri())
    mlflow.set_experiment("load")
    x = np.random.default_rng(0).standard_normal((count, 48, 32), dtype=np.float32)
    y = (x[:, -6:, 0].mean(axis=1) > 0).astype(np.int64)
    with mlflow.start_run():
        info = log_model(Risk().eval(), name="model", task="classification", input_example=x[:2])
    before = _most_megabytes()
    begin = time.monotonic()
    with mlflow.start_run() as run:
        mlflow.models.evaluate(  # type: ignore[no-untyped-call]
            model=info.model_uri, data=from_sequences(x, targets=y), model_type="classifier", evaluators="dynamask",
            evaluator_config={"instances": 1000, "progress": False},
        )  # fmt: skip
    report = folder / "artifacts" / run.info.run_id / "artifacts" / "dynamask" / "report.html"
    return {
        "instances": count, "explained": 1000, "arrays MB": round(x.nbytes / 2**20), "before MB": before,
        "at most MB": _most_megabytes(), "seconds": round(time.monotonic() - begin),
        "report MB": round(report.stat().st_size / 2**20, 1),
    }  # fmt: skip


def history(folder: Path, count: int) -> dict[str, Any]:
    import mlflow
    from mlflow import MlflowClient

    from dynamask_mlflow.audit import audit_history

    mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
    client = MlflowClient()
    home = client.create_experiment("dynamask-audits", artifact_location=(folder / "artifacts").as_uri())
    for number in range(count):
        window = f"{2000 + number // 12 % 100}-{number % 12 + 1:02d}"
        tags = {
            "dynamask.kind": "audit", "dynamask.model": "icu", "dynamask.version": "1", "dynamask.window": window,
            "dynamask.site": f"site-{number // 1200}", "dynamask.verdict": "ok",
        }  # fmt: skip
        run = client.create_run(home, tags=tags, run_name=f"icu {window}")
        client.log_metric(run.info.run_id, "dynamask/audit/shift", 0.01)
        client.set_terminated(run.info.run_id)
    begin = time.monotonic()
    found = audit_history("dynamask-audits", "icu")
    return {"audits": count, "read": len(found), "seconds to read": round(time.monotonic() - begin, 1)}


def _most_megabytes() -> int:
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=["instances", "history"])
    parser.add_argument("--count", type=int)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.folder is not None:
        work = evaluate if given.part == "instances" else history
        print("RESULT" + json.dumps(work(given.folder, given.count)))
        return
    for part, usual in (("instances", 100_000), ("history", 2_000)):
        if given.part in (None, part):
            with tempfile.TemporaryDirectory(prefix="dynamask-load-") as folder:
                command = [sys.executable, "-m", "benchmarks.load", part, "--count", str(given.count or usual)]
                done = subprocess.run([*command, "--folder", folder], stdout=subprocess.PIPE, text=True, check=True)
            print(part, done.stdout.split("RESULT")[1].strip())


if __name__ == "__main__":
    main()
