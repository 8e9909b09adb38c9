"""Evaluations and audits for hours, with random kills of client, worker and server: `python -m benchmarks.soak`.

Real processes: an MLflow server on SQLite, clients that evaluate and audit, SIGKILL to one of them at a random moment
of what it takes undisturbed; every other evaluation is hit while its results are uploaded. Audits start without fitted
shards. After each kill the server is started again, results on disk are uploaded by `dynamask-mlflow upload`, and a
killed audit is run again. At the end everything in the store is counted.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests

from benchmarks.pages import write_figures

MODEL, EXPERIMENT = "icu-mortality", "soak"
WINDOWS = ("2023-05", "2023-06", "2023-07", "2023-08")
REFERENCE = "2023-04"
FAULTS = {"evaluate": ("none", "client", "server"), "audit": ("none", "client", "worker", "server")}
SETTINGS = {
    "instances": 60,
    "minimum": 20,
    "reference_instances": 80,
    "permutations": 499,
    "audits_per_year": 1,
    "progress": False,
}
MARK = "DYNAMASK_SOAK"
# Seconds in which the workers of a killed client must have ended.
PATIENCE = 30


@dataclass
class Place:
    """The folder of one soak, and the address of its server."""

    folder: Path
    port: int
    server: subprocess.Popen[bytes] | None = None

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def spools(self) -> Path:
        return self.folder / "spools"

    def environment(self) -> dict[str, str]:
        return {
            **os.environ, "MLFLOW_TRACKING_URI": self.uri, "OMP_NUM_THREADS": "1", MARK: str(self.folder),
            "DYNAMASK_STORE": str(self.folder / "store"), "XDG_CACHE_HOME": str(self.folder / "cache"),
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        }  # fmt: skip

    def start_server(self) -> None:
        command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(self.port),
                   "--backend-store-uri", f"sqlite:///{self.folder}/mlflow.db", "--workers", "1",
                   "--artifacts-destination", str(self.folder / "artifacts")]  # fmt: skip
        with (self.folder / "server.log").open("ab") as log:
            self.server = subprocess.Popen(
                command, stdout=log, stderr=log, env=self.environment(), start_new_session=True
            )
        for _ in range(600):
            try:
                if requests.get(f"{self.uri}/health", timeout=2).ok:
                    return
            except requests.RequestException:
                time.sleep(0.3)
        raise RuntimeError(f"Expected the server to answer, but it did not; see {self.folder}/server.log.")

    def kill_server(self) -> None:
        if self.server is not None:
            os.killpg(self.server.pid, signal.SIGKILL)
            self.server.wait()

    def client(self, job: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "benchmarks.soak", "--job", job, "--folder", str(self.folder), *arguments]
        with (self.folder / "clients.log").open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, env=self.environment(), start_new_session=True)

    def processes(self) -> dict[int, str]:
        """pid -> command line of every process of this soak but the server's and this one."""
        found = {}
        for entry in Path("/proc").iterdir():
            try:
                pid = int(entry.name)
                ours = f"{MARK}={self.folder}".encode() in (entry / "environ").read_bytes().split(b"\0")
                session = os.getsid(pid)
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            except (ValueError, OSError):
                continue
            if ours and line and (self.server is None or session != self.server.pid) and pid != os.getpid():
                found[pid] = line
        return found

    def server_megabytes(self) -> float:
        total = 0
        for entry in Path("/proc").iterdir():
            try:
                if self.server is not None and os.getsid(int(entry.name)) == self.server.pid:
                    total += int((entry / "statm").read_text().split()[1])
            except (ValueError, OSError):
                continue
        return total * os.sysconf("SC_PAGE_SIZE") / 2**20


@dataclass
class Tally:
    """What happened, and what was found wrong."""

    rounds: Counter[str] = field(default_factory=Counter)
    kills: Counter[str] = field(default_factory=Counter)
    longest: dict[str, float] = field(default_factory=dict)
    uploads: int = 0
    uploaded: set[str] = field(default_factory=set)
    orphans: int = 0
    wrong: list[str] = field(default_factory=list)
    server_megabytes: list[float] = field(default_factory=list)
    client_megabytes: list[float] = field(default_factory=list)


# --- what a client does, in a process of its own ---------------------------------------------------------------------


def prepare(folder: Path) -> None:
    import torch

    from dynamask_mlflow.audit import AuditConfig, build_reference
    from dynamask_mlflow.data import BuildConfig, build, open_source
    from dynamask_mlflow.data.hospital import HospitalConfig, synthesize
    from dynamask_mlflow.training import TrainConfig, train_and_register

    torch.set_num_threads(1)
    synthesize(folder / "hospital", HospitalConfig(stays=1000, months=8, seed=0))
    dataset = build(open_source("synthetic", str(folder / "hospital")), BuildConfig(until="2023-03", seed=0))
    dataset.save(folder / "dataset")
    train_and_register(
        dataset, TrainConfig(seed=0, epochs=6), experiment=EXPERIMENT, registered_model_name=MODEL, alias="champion"
    )
    build_reference(
        f"models:/{MODEL}@champion", str(folder / "dataset"), REFERENCE, config=AuditConfig.from_mapping(SETTINGS)
    )


def evaluate(folder: Path, seed: int) -> None:
    import mlflow
    import numpy as np
    import torch

    from dynamask_mlflow.data import StayDataset
    from dynamask_mlflow.tracking.dataset import from_sequences

    torch.set_num_threads(1)
    part = StayDataset.load(folder / "dataset").part("test")
    data = from_sequences(
        part.x, targets=part.labels.astype(np.int64), ids=[str(stay) for stay in part.ids],
        channel_names=part.channel_names,
    )  # fmt: skip
    mlflow.set_experiment(EXPERIMENT)
    settings = {"instances": 20, "seed": seed, "progress": False, "spool": str(folder / "spools"), "images": 0}
    with mlflow.start_run(tags={"soak": "evaluation"}):
        mlflow.models.evaluate(  # type: ignore[no-untyped-call]
            model=f"models:/{MODEL}@champion", data=data, model_type="classifier", evaluators="dynamask",
            evaluator_config=settings,
        )  # fmt: skip


def audit(folder: Path, window: str) -> None:
    from dynamask_mlflow.audit import AuditConfig, run_audit

    run_audit(
        f"models:/{MODEL}@champion", str(folder / "dataset"), window, config=AuditConfig.from_mapping(SETTINGS),
        processes=2,
    )  # fmt: skip


# --- the soak --------------------------------------------------------------------------------------------------------


def finish(process: subprocess.Popen[bytes], tally: Tally, seconds: float = 900) -> int:
    """Wait for a client and note the memory that it took at most."""
    deadline, most = time.monotonic() + seconds, 0.0
    while process.poll() is None and time.monotonic() < deadline:
        try:
            found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text())
            most = max(most, int(found.group(1)) / 1024 if found else 0.0)
        except OSError:
            pass
        time.sleep(0.2)
    if process.poll() is None:
        process.kill()
        tally.wrong.append("a client took more than 15 minutes")
    tally.client_megabytes.append(round(most))
    return process.wait()


def one_round(place: Place, tally: Tally, rng: random.Random) -> None:
    job = rng.choice(list(FAULTS))
    fault = rng.choice(FAULTS[job])
    argument = rng.choice(WINDOWS) if job == "audit" else str(rng.randrange(1000))
    if job == "audit":
        shutil.rmtree(place.folder / "store", ignore_errors=True)  # else nothing is left to fit
    begin, process = time.monotonic(), place.client(job, argument)
    if fault != "none":
        if job == "evaluate" and rng.random() < 0.5:
            wait_for_upload(place, process)
            time.sleep(rng.uniform(0, 1))
        else:
            time.sleep(rng.uniform(0, tally.longest[job]))
        strike(place, process, fault, tally, rng)
    code = finish(process, tally)
    if fault == "none":
        tally.longest[job] = max(tally.longest.get(job, 0.0), time.monotonic() - begin)
    tally.rounds[f"{job}, {fault}"] += 1
    if fault == "none" and code != 0:
        tally.wrong.append(f"{job} {argument} ended with {code} though nothing was killed")
    left = place.processes()
    deadline = time.monotonic() + PATIENCE
    while left and time.monotonic() < deadline:
        time.sleep(1)
        left = place.processes()
    tally.orphans += len(left)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    recover(place, tally)
    if job == "audit" and code != 0 and finish(place.client("audit", argument), tally) != 0:
        tally.wrong.append(f"the audit of {argument} could not be repeated after: {fault}")
    tally.server_megabytes.append(round(place.server_megabytes()))


def wait_for_upload(place: Place, process: subprocess.Popen[bytes]) -> None:
    """Until the results of a client are complete on disk."""
    while process.poll() is None and not list(place.spools.glob("*/manifest.json")):
        time.sleep(0.02)


def strike(place: Place, process: subprocess.Popen[bytes], fault: str, tally: Tally, rng: random.Random) -> None:
    """Kill what is to be killed, if the client still runs and it is there."""
    if process.poll() is not None:
        return
    if fault == "server":
        place.kill_server()
        time.sleep(rng.uniform(0, 5))
        place.start_server()
    elif fault == "client":
        process.kill()
    else:
        workers = [pid for pid, line in place.processes().items() if "spawn_main" in line]
        if not workers:
            return
        os.kill(rng.choice(workers), signal.SIGKILL)
    tally.kills[fault] += 1


def recover(place: Place, tally: Tally) -> None:
    """Upload what lies on disk, with the command that the message names."""
    from dynamask_mlflow.tracking.spool import find_spools

    for spool in find_spools([place.spools]):
        if spool.complete:
            run_id = str(json.loads((spool.path / "manifest.json").read_text())["run_id"])
            command = [sys.executable, "-c", "from dynamask_mlflow.cli import main; main()", "upload", str(spool.path)]
            done = subprocess.run(command, env=place.environment(), capture_output=True, text=True)
            tally.uploads += 1
            tally.uploaded.add(run_id)
            if done.returncode != 0:
                tally.wrong.append(f"upload: {done.stderr.strip().splitlines()[-1:]}")


def count(place: Place, tally: Tally, expected: dict[str, dict[str, float]]) -> dict[str, int]:
    """Read the whole store: every result once, complete, and the same as without kills."""
    import mlflow
    from mlflow import MlflowClient

    from dynamask_mlflow.audit import audit_history
    from dynamask_mlflow.tracking.spool import find_spools

    mlflow.set_tracking_uri(place.uri)
    client = MlflowClient()
    homes = [home.experiment_id for home in client.search_experiments(filter_string=f"name = '{EXPERIMENT}'")]
    runs = client.search_runs(homes, "tags.soak = 'evaluation'", max_results=5000)
    finished = [run for run in runs if run.info.status == "FINISHED"]
    lost = tally.uploaded - {run.info.run_id for run in finished}
    tally.wrong += [f"run {run_id} was uploaded, but is not finished" for run_id in sorted(lost)]
    for run in finished:
        names = {item.path for item in client.list_artifacts(run.info.run_id, "dynamask")}
        if not {"dynamask/masks.npz", "dynamask/config.json", "dynamask/report.html"} <= names:
            tally.wrong.append(f"run {run.info.run_id} is finished, but has only {sorted(names)}")
        for key in run.data.metrics:
            steps = [point.step for point in client.get_metric_history(run.info.run_id, key)]
            if len(set(steps)) < len(steps):
                tally.wrong.append(f"{key} of {run.info.run_id} is logged twice")
    entries = audit_history("dynamask-audits", MODEL)
    for window in WINDOWS:
        found = [entry for entry in entries if entry.window == window]
        if window in expected and len(found) != 1:
            tally.wrong.append(f"{window} has {len(found)} finished audits")
        for entry in found:
            if window in expected and {k: round(v, 6) for k, v in entry.metrics.items()} != expected[window]:
                tally.wrong.append(f"the audit of {window} is not the one without kills")
    waiting = [spool for spool in find_spools([place.spools]) if spool.complete]
    return {"evaluations finished": len(finished), "audits": len(entries), "spools left": len(waiting)}


def soak(minutes: float, seed: int, folder: Path) -> dict[str, Any]:
    from dynamask_mlflow.audit import audit_history
    from dynamask_mlflow.cli.airflow_local import free_port

    place, tally, rng = Place(folder, free_port()), Tally(), random.Random(seed)
    place.spools.mkdir(parents=True)
    try:
        place.start_server()
        for job, argument in [("prepare", ""), *(("audit", window) for window in WINDOWS), ("evaluate", "0")]:
            begin = time.monotonic()
            if finish(place.client(job, argument), tally) != 0:
                log = (folder / "clients.log").read_text()[-1500:]
                raise RuntimeError(f"Expected the first {job} to pass, but got:\n{log}")
            tally.longest[job] = max(tally.longest.get(job, 0.0), time.monotonic() - begin)
        os.environ["MLFLOW_TRACKING_URI"] = place.uri
        expected = {
            entry.window: {k: round(v, 6) for k, v in entry.metrics.items()}
            for entry in audit_history("dynamask-audits", MODEL)
        }
        tally.client_megabytes.clear()
        begin = time.monotonic()
        while time.monotonic() - begin < 60 * minutes:
            one_round(place, tally, rng)
            done = sum(tally.rounds.values())
            print(f"{(time.monotonic() - begin) / 60:6.1f} min  {done} rounds, {len(tally.wrong)} wrong", flush=True)
        counted = count(place, tally, expected)
    finally:
        place.kill_server()
    half = len(tally.server_megabytes) // 2 or 1
    return {
        "minutes": round(minutes), "rounds": sum(tally.rounds.values()),
        "kills": sum(tally.kills.values()),
        **{f"kills of a {name}": n for name, n in sorted(tally.kills.items())},
        **counted, "uploaded later": tally.uploads, "orphan processes": tally.orphans,
        "client MB at most": max(tally.client_megabytes, default=0),
        "server MB, first half": max(tally.server_megabytes[:half], default=0),
        "server MB, second half": max(tally.server_megabytes[half:], default=0),
        "wrong": tally.wrong,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--page", type=Path, help="Markdown page with the marks <!-- soak --> and <!-- /soak -->.")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--job", choices=["prepare", "evaluate", "audit"], help=argparse.SUPPRESS)
    parser.add_argument("argument", nargs="?", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.job == "prepare":
        prepare(given.folder)
    elif given.job == "evaluate":
        evaluate(given.folder, int(given.argument))
    elif given.job == "audit":
        audit(given.folder, given.argument)
    else:
        with tempfile.TemporaryDirectory(prefix="dynamask-soak-") as folder:
            found = soak(given.minutes, given.seed, Path(folder) / "soak")
        print(json.dumps(found, indent=1))
        if given.page:
            write_figures(given.page, "soak", found)
        sys.exit(1 if found["wrong"] or found["orphan processes"] or found["spools left"] else 0)


if __name__ == "__main__":
    main()
