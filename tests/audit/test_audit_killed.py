"""An audit that is killed at any point, and run again, is the audit that was never killed."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import mlflow
import pytest

from dynamask_mlflow.audit import audit_history, run_audit

MODEL = "models:/icu@champion"
SCRIPT = """
import json, sys, warnings
warnings.filterwarnings("ignore")
import mlflow, torch
torch.set_num_threads(1)
uri, settings, data, store = sys.argv[1:]
mlflow.set_tracking_uri(uri)
from dynamask_mlflow.audit import AuditConfig, run_audit
print("started", flush=True)
config = AuditConfig.from_mapping(json.loads(settings))
print(json.dumps(dict(run_audit("models:/icu@champion", data, "2026-02", config=config, store=store).metrics)))
"""


@pytest.mark.slow
def test_kills_at_random_points_leave_one_finished_audit_with_one_value_each(place):
    command = [sys.executable, "-c", SCRIPT, place.uri, json.dumps(place.config.to_dict()), place.data, place.shards]

    def start() -> subprocess.Popen[str]:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"  # imports are done; from here on it may die
        return process

    random.seed(0)
    longest = 4.0
    for _ in range(8):
        process = start()
        time.sleep(random.uniform(0, longest))
        process.send_signal(signal.SIGKILL)
        process.wait()
    process = start()
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    found = json.loads(output.strip().splitlines()[-1])
    (entry,) = audit_history("dynamask-audits", "icu")
    client = mlflow.MlflowClient()
    assert client.get_run(entry.run_id).info.status == "FINISHED"
    assert entry.metrics == pytest.approx(found, abs=1e-5)  # a verdict holds six digits
    for name in entry.metrics:
        assert len(client.get_metric_history(entry.run_id, f"dynamask/audit/{name}")) == 1, name
    home = client.get_experiment_by_name("dynamask-audits").experiment_id
    (run,) = client.search_runs([home], "tags.`dynamask.kind` = 'audit'")
    assert run.info.run_id == entry.run_id
    assert client.get_model_version("icu", "1").tags["dynamask.verdict"] == "ok"


DIES_BEFORE_ITS_CONCLUSION = """
import os, signal
from dynamask_mlflow.audit import reporting
reporting.conclude_run = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_a_window_killed_before_its_conclusion_leaves_one_superseded_run_of_the_window_after_it(place):
    """Ten windows that are killed at random points may leave eleven runs: this is the eleventh."""
    config = place.config.with_options(trend_window=2)
    arguments = [place.uri, json.dumps(config.to_dict()), place.data, place.shards]
    killed = subprocess.run(
        [sys.executable, "-c", DIES_BEFORE_ITS_CONCLUSION + SCRIPT, *arguments], stderr=subprocess.DEVNULL, check=False
    )
    assert killed.returncode == -signal.SIGKILL
    for window in ("2026-06", "2026-02"):  # the later window is concluded first, without the earlier one in its trend
        run_audit(MODEL, place.data, window, config=config, store=place.shards)
    client = mlflow.MlflowClient()
    home = client.get_experiment_by_name("dynamask-audits").experiment_id
    runs = client.search_runs([home], "tags.`dynamask.kind` = 'audit'")
    assert len(runs) == 3
    assert {run.info.status for run in runs} == {"FINISHED"}
    entries = audit_history("dynamask-audits", "icu")
    (former,) = [entry for entry in entries if entry.superseded]
    (current,) = [entry for entry in entries if entry.window == "2026-06" and not entry.superseded]
    assert former.window == "2026-06"
    assert (former.trend, former.content) == ("", current.content)
    assert current.trend.startswith("2026-02:")
    assert client.get_run(former.run_id).data.tags["dynamask.superseded_by"] == current.run_id


PARENT = """
import time
from dynamask_mlflow.audit.workers import Workers
with Workers(2) as workers:
    pid = workers._pool.submit(__import__("os").getpid).result()
    print(pid, flush=True)
    time.sleep(300)
"""


@pytest.mark.slow
def test_a_worker_ends_with_its_killed_parent():
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    worker = Path(f"/proc/{int(parent.stdout.readline())}")
    assert worker.exists()
    parent.kill()
    parent.wait()
    for _ in range(600):
        if not worker.exists():
            return
        time.sleep(0.1)
    pytest.fail("the worker outlived its parent")
