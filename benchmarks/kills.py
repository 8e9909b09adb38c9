"""Audits that are killed at random points: `python -m benchmarks.kills --kills 100`.

Every audit runs in a forked process and is killed after a random time, again and again, then finished by two processes
at once. The same audits run undisturbed in another store. Both must have the same numbers, one current audit a window,
one value a metric; no process and no spool may be left. A window that is finished before an earlier one is concluded
again when that one is there, since its trend was of fewer windows: the first conclusion stays as a superseded run.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.pages import write_figures

CHANNELS, STEPS = ("HeartRate", "Lactate", "SpO2", "Temp"), 12
STAYS = 60  # a month
REFERENCE = "2025-12"
SETTINGS: dict[str, Any] = {
    "progress": False,
    "device": "cpu",
    "minimum": 20,
    "instances": 40,
    "reference_instances": 60,
    "anchors": 8,
    "permutations": 499,
    "audits_per_year": 1,
    "report_instances": 3,
}
_fork = multiprocessing.get_context("fork")  # libraries are imported once; nothing else has run before the fork


def months(count: int) -> list[str]:
    return [str(np.datetime64("2026-01") + month) for month in range(count)]


def prepare(folder: str, windows: list[str]) -> None:
    """Dataset, registered model and reference."""
    import mlflow
    import torch

    import dynamask_mlflow
    from dynamask_mlflow.audit import AuditConfig, build_reference
    from dynamask_mlflow.data.dataset import StayDataset
    from dynamask_mlflow.data.preprocess import Preprocessing

    labels = [window for window in (REFERENCE, *windows) for _ in range(STAYS)]
    n, rng = len(labels), np.random.default_rng(0)
    ones = (1.0,) * len(CHANNELS)
    stays = StayDataset(
        x=rng.normal(size=(n, STEPS, len(CHANNELS))).astype(np.float32),
        observed=np.ones((n, STEPS, len(CHANNELS)), dtype=bool),
        ids=np.arange(n),
        patient_ids=np.arange(n),
        labels=rng.integers(0, 2, n).astype(np.float32),
        splits=np.full(n, "test"),
        windows=np.asarray(labels),
        admitted=np.asarray(labels, dtype="datetime64[M]").astype("datetime64[s]"),
        times=tuple(float(step) for step in range(STEPS)),
        channel_names=CHANNELS,
        preprocessing=Preprocessing(
            feature_set="kills", feature_set_version=1, feature_set_digest="0", hours=STEPS, channel_names=CHANNELS,
            units=("",) * 4, fill=("forward",) * 4, mean=ones, std=ones, default=ones, fitted_on_stays=n,
            fitted_on_patients=n,
        ),
    )  # fmt: skip
    stays.save(f"{folder}/icu")

    class Late(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            score = (x[:, 6:, 1] + 0.5 * x[:, 6:, 0]).sum(dim=1)
            return torch.stack([torch.zeros_like(score), score], dim=1)

    _track(folder)
    for name in ("models", "dynamask-audits"):
        mlflow.create_experiment(name, artifact_location=f"{folder}/artifacts")
    mlflow.set_experiment("models")
    with mlflow.start_run():
        dynamask_mlflow.log_model(
            Late(), name="model", task="classification", input_example=stays.x[:2], channel_names=CHANNELS,
            registered_model_name="icu",
        )  # fmt: skip
    build_reference(
        "models:/icu/1", f"{folder}/icu", REFERENCE, config=AuditConfig(**SETTINGS), store=f"{folder}/store"
    )


def audit(folder: str, window: str) -> None:
    from dynamask_mlflow.audit import AuditConfig, run_audit

    _track(folder)
    run_audit("models:/icu/1", f"{folder}/icu", window, config=AuditConfig(**SETTINGS), store=f"{folder}/store")


def read(folder: str, queue: Any) -> None:
    """window -> numbers of its current audit; how many audit runs there are; runs with a metric of several values."""
    import mlflow

    from dynamask_mlflow.audit import audit_history

    _track(folder)
    client = mlflow.MlflowClient()
    home = client.get_experiment_by_name("dynamask-audits")
    assert home is not None
    runs = client.search_runs([home.experiment_id], "tags.`dynamask.kind` = 'audit'", max_results=1000)
    entries = audit_history("dynamask-audits", "icu")
    double = [e.run_id for e in entries for name in e.metrics
              if len(client.get_metric_history(e.run_id, f"dynamask/audit/{name}")) != 1]  # fmt: skip
    unfinished = [run.info.run_id for run in runs if run.info.status != "FINISHED"]
    current = {entry.window: dict(entry.metrics) for entry in entries if not entry.superseded}
    kept = [entry for entry in entries if not entry.superseded]
    queue.put(
        {
            "current": current,
            "runs": len(runs),
            "superseded": sum(entry.superseded for entry in entries),
            "twice": sorted({entry.window for entry in kept if sum(e.window == entry.window for e in kept) > 1}),
            "double": double,
            "unfinished": unfinished,
        }
    )


def kill_audits(kills: int, seed: int, root: Path) -> dict[str, Any]:
    """Kill, finish, compare. Returns the figures; "wrong" says what is not as it should be."""
    rng, windows = random.Random(seed), months(max(1, kills // 10))
    spools = root / "tmp"
    spools.mkdir(parents=True)
    tempfile.tempdir = str(spools)
    os.environ |= {"TMPDIR": str(spools), "XDG_CACHE_HOME": str(root / "cache"), "OMP_NUM_THREADS": "1"}
    places = {name: str(root / name) for name in ("killed", "undisturbed")}
    for place in places.values():
        Path(place).mkdir()
        _finish(prepare, place, windows)
    longest = 0.0
    for window in windows:
        begin = time.monotonic()
        _finish(audit, places["undisturbed"], window)
        longest = max(longest, time.monotonic() - begin)
    done, ended = 0, 0
    while done < kills:
        window = windows[min(done // max(1, kills // len(windows)), len(windows) - 1)]
        process = _fork.Process(target=audit, args=(places["killed"], window))
        process.start()
        process.join(rng.uniform(0, longest))
        if process.is_alive():
            os.kill(process.pid or 0, signal.SIGKILL)
            done += 1
        else:
            ended += 1
            if ended > 3 * kills:
                break
        process.join()
    for window in windows:  # two at once, as a scheduler and a person would
        both = [_fork.Process(target=audit, args=(places["killed"], window)) for _ in range(2)]
        for process in both:
            process.start()
        for process in both:
            process.join()
    found = {name: _ask(place) for name, place in places.items()}
    return _figures(found, done, len(windows), spools)


def _figures(found: dict[str, Any], done: int, windows: int, spools: Path) -> dict[str, Any]:
    killed, undisturbed = found["killed"], found["undisturbed"]
    wrong = [f"{window}: other numbers" for window, numbers in undisturbed["current"].items()
             if not _same(numbers, killed["current"].get(window, {}))]  # fmt: skip
    wrong += [f"{run}: a metric has several values" for run in killed["double"]]
    wrong += [f"{run}: not finished" for run in killed["unfinished"]]
    wrong += [f"{window}: two current audits" for window in killed["twice"]]
    unknown = killed["runs"] - len(killed["current"]) - killed["superseded"]
    wrong += [f"{unknown} runs are neither current nor superseded"] if unknown else []
    left = [path.name for path in spools.glob("dynamask-*")]
    return {
        "kills": done,
        "windows": windows,
        "audits with the numbers of an undisturbed one": windows - sum("other numbers" in text for text in wrong),
        "current audits": len(killed["current"]),
        "superseded by a conclusion with one more window in its trend": killed["superseded"],
        "processes left": len(multiprocessing.active_children()),
        "spools left": len(left),
        "wrong": wrong + [f"{name} was left" for name in left],
    }


def _same(first: dict[str, float], second: dict[str, float]) -> bool:
    return first.keys() == second.keys() and all(abs(first[name] - second[name]) <= 1e-9 for name in first)


def _finish(job: Any, *arguments: Any) -> None:
    process = _fork.Process(target=job, args=arguments)
    process.start()
    process.join()
    if process.exitcode:
        raise RuntimeError(f"Expected {job.__name__} to succeed, but it ended with {process.exitcode}.")


def _ask(folder: str) -> dict[str, Any]:
    queue = _fork.SimpleQueue()
    process = _fork.Process(target=read, args=(folder, queue))
    process.start()
    found: dict[str, Any] = queue.get()
    process.join()
    return found


def _track(folder: str) -> None:
    import mlflow
    import torch

    torch.set_num_threads(1)
    os.environ["DYNAMASK_TRUST"] = "all"
    mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--page", type=Path, help="Markdown page with the marks <!-- kills --> and <!-- /kills -->.")
    given = parser.parse_args()
    import mlflow  # noqa: F401  (forked processes find it imported)
    import torch  # noqa: F401

    import dynamask_mlflow.audit.explain_window
    import dynamask_mlflow.audit.reporting  # noqa: F401

    with tempfile.TemporaryDirectory(prefix="dynamask-kills-") as folder:
        found = kill_audits(given.kills, given.seed, Path(folder).resolve() / "kills")
    print(json.dumps(found, indent=1))
    if given.page:
        write_figures(given.page, "kills", found)
    sys.exit(1 if found["wrong"] or found["processes left"] else 0)


if __name__ == "__main__":
    main()
