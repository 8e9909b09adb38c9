"""What an audit by the command line costs beside its fits, and how it grows with the stays.

Untrained GRUs on the synthetic hospital (T = 48, d = 32), default settings; every audit in a process of its own, with a
canary of 50 stays. The fits are `dynamask_mlflow.explain` on the same stays in a process of their own, imports, the
model's loading and the stays' reading not counted; in "with imports" they are. Wall time is that of the whole command,
from the shell's point of view, and is disturbed by neighbours on the machine; processor time hardly is.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

MODEL, WINDOW = "bench", "2024"
BARE = """
import json, sys, time
import mlflow, numpy as np, torch
torch.set_num_threads(1)
uri, model, data, count = sys.argv[1:]
mlflow.set_tracking_uri(uri)
import dynamask_mlflow
from dynamask_mlflow.audit import AuditConfig
from dynamask_mlflow.audit.windows import draw, find_rows, load_stays, parse_window
config = AuditConfig(instances=int(count), progress=False)
span = parse_window("2024")
stays, _ = load_stays(data, draw(find_rows(data, span), config.instances, config.seed, span.label))
network = dynamask_mlflow.load_model(model).network
wall, cpu = time.perf_counter(), time.process_time()
dynamask_mlflow.explain(network, stays.x, task="classification", config=config.fit_config())
print(json.dumps({"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}))
"""


def run() -> dict[str, Any]:
    rows = {}
    # A child's peak memory counts from its parent's, so that everything large is made apart.
    apart = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
    with tempfile.TemporaryDirectory() as folder, apart:
        root = Path(folder)
        data = apart.submit(_hospital, root).result()
        for units, count, processes in ((200, 1000, 1), (200, 1000, 2), (64, 1000, 1), (64, 10_000, 1)):
            uri = apart.submit(_register, root, data, units).result()
            row = _audit(root, uri, data, units, count, processes)
            rows[f"{units} units, N = {count}, {processes} process{'es' if processes > 1 else ''}"] = row
    return rows


def _audit(root: Path, uri: str, data: Path, units: int, count: int, processes: int) -> dict[str, float]:
    model = f"models:/{MODEL}-{units}@champion"
    shared = ["--data", str(data), "--store", str(root / f"store-{count}-{processes}"), "--tracking-uri", uri]
    command = [sys.executable, "-c", "from dynamask_mlflow.cli import main; main()", "audit"]
    _measured([*command, "reference", "--model", model, *shared, "--window", "2023", "--split", "test"])
    whole = _measured(
        [*command, "run", "--model", model, *shared, "--window", WINDOW, "--set", f"instances={count}",
         "--processes", str(processes), "--set", "progress=false"]
    )  # fmt: skip
    bare = _measured([sys.executable, "-c", BARE, uri, model, str(data), str(count)])
    fits = json.loads(bare["output"].strip().splitlines()[-1])
    return {
        "wall, s": whole["wall"],
        "fits, wall, s": fits["wall"],
        "wall / fits": whole["wall"] / fits["wall"],
        "wall / fits with imports": whole["wall"] / bare["wall"],
        "cpu, s": whole["cpu"],
        "cpu / fits": whole["cpu"] / fits["cpu"],
        "cpu / fits with imports": whole["cpu"] / bare["cpu"],
        "peak MB": whole["peak"],
    }


def _measured(command: list[str]) -> dict[str, Any]:
    env = {**os.environ, "OMP_NUM_THREADS": "1", "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false"}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(command, env=env, stdout=output, stderr=errors)
        _, status, used = os.wait4(child.pid, 0)
        wall = time.perf_counter() - start
        output.seek(0)
        errors.seek(0)
        code = os.waitstatus_to_exitcode(status)
        if code not in (0, 1, 2):  # the verdict is not what is measured
            raise RuntimeError(
                f"Expected {command[3:5]} to end in a verdict, but it ended with {code}: {errors.read()}"
            )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return {"wall": wall, "cpu": cpu, "peak": used.ru_maxrss / 1024, "output": output.read()}


def _hospital(root: Path) -> Path:
    from dynamask_mlflow.data import BuildConfig, build, open_source
    from dynamask_mlflow.data.hospital import HospitalConfig, synthesize

    tables = synthesize(root / "tables", HospitalConfig(stays=28_000))
    dataset = build(
        open_source("synthetic", str(tables)), BuildConfig(until="2023-12", shares=(0.5, 0.1, 0.4), threads=1)
    )
    return Path(dataset.save(root / "data"))


def _register(root: Path, data: Path, units: int) -> str:
    import mlflow
    import torch

    import dynamask_mlflow
    from dynamask_mlflow.data.dataset import StayDataset
    from dynamask_mlflow.training.model import GRUClassifier

    uri, name = f"sqlite:///{root}/mlflow.db", f"{MODEL}-{units}"
    mlflow.set_tracking_uri(uri)
    client = mlflow.MlflowClient()
    if client.search_registered_models(f"name = '{name}'"):
        return uri
    for experiment in ("dynamask-audits", "training"):
        if client.get_experiment_by_name(experiment) is None:
            client.create_experiment(experiment, artifact_location=(root / experiment).as_uri())
    mlflow.set_experiment("training")
    dataset = StayDataset.load(data)
    torch.manual_seed(0)
    with mlflow.start_run():
        dynamask_mlflow.log_model(
            GRUClassifier(dataset.x.shape[2], units).eval(), name="model", task="classification",
            input_example=dataset.x[:2], channel_names=dataset.channel_names, times=list(dataset.times),
            registered_model_name=name,
        )  # fmt: skip
    client.set_registered_model_alias(name, "champion", "1")
    return uri
