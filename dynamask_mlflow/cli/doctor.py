"""`dynamask-mlflow doctor`: what works on this machine and what does not. Reads only; creates and changes nothing."""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, distribution, entry_points, version
from pathlib import Path
from urllib.parse import urlsplit

import click

from dynamask_mlflow._secrets import without_secrets
from dynamask_mlflow._states import EXIT_ERROR
from dynamask_mlflow._version import __version__
from dynamask_mlflow.cli.common import AS_JSON, quiet

PACKAGE = "dynamask_mlflow"
MARKS = {"ok": ("ok", "green"), "absent": ("--", "yellow"), "broken": ("!!", "red")}
FREE_SPACE = 1 << 30


@dataclass(frozen=True)
class Check:
    """One line: "ok", "absent" (optional, with the way to get it) or "broken" (with the way out)."""

    name: str
    state: str
    detail: str
    way_out: str = ""


@click.command()
@AS_JSON
def doctor(as_json: bool) -> None:
    """Say what works here and what does not: versions, device, MLflow, Airflow, browser, data.

    Nothing is created or changed. Exit codes: 0 everything that must work does, 3 something is broken.

    \b
    dynamask-mlflow doctor
    dynamask-mlflow doctor --json
    """
    found = list(run_checks())
    if as_json:
        click.echo(json.dumps([asdict(check) for check in found], indent=1))
    else:
        for check in found:
            mark, colour = MARKS[check.state]
            click.echo(f"{click.style(mark, fg=colour, bold=True)}  {check.name:<12} {check.detail}")
            if check.way_out:
                click.echo(f"    {'':<12} {check.way_out}")
    sys.exit(EXIT_ERROR if any(check.state == "broken" for check in found) else 0)


def run_checks() -> Iterator[Check]:
    """All checks in order; one that fails in an unforeseen way is broken, and does not end the others."""
    checks: list[tuple[str, Callable[[], Iterator[Check]]]] = [
        ("python", _python),
        ("packages", _packages),
        ("masks", _masks),
        ("mlflow", _mlflow),
        ("airflow", _airflow),
        ("browser", _browser),
        ("data", _data),
        ("folders", _folders),
    ]
    for name, check in checks:
        try:
            with quiet():
                yield from check()
        except Exception as error:
            first = (str(error).strip().splitlines() or [""])[0]
            yield Check(name, "broken", without_secrets(f"{type(error).__name__}: {first}"))


def _python() -> Iterator[Check]:
    home = Path(sys.prefix)
    where = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    yield Check("python", "ok", f"{where}, in {home}")
    yield Check("package", "ok", f"dynamask_mlflow {__version__}")


def _packages() -> Iterator[Check]:
    from packaging.requirements import Requirement

    wanted = [Requirement(text) for text in distribution(PACKAGE).requires or ()]
    extras = sorted(distribution(PACKAGE).metadata.get_all("Provides-Extra") or ())
    for extra in ["", *extras]:
        if extra in ("all", "dev", "docs"):
            continue
        own = [r for r in wanted if r.marker is None or r.marker.evaluate({"extra": extra})]
        if extra:
            own = [r for r in own if r.marker is not None and "extra" in str(r.marker)]
        missing, other = [], []
        for requirement in own:
            try:
                found = version(requirement.name)
            except PackageNotFoundError:
                missing.append(requirement.name)
                continue
            if not requirement.specifier.contains(found, prereleases=True):
                other.append(f"{requirement.name} {found} (wanted {requirement.specifier})")
        name = f"[{extra}]" if extra else "required"
        install = f"pip install '{PACKAGE}[{extra}]'" if extra else f"pip install {PACKAGE}"
        if other:
            yield Check(name, "broken", "other versions than supported: " + ", ".join(other), install)
        elif missing:
            yield Check(name, "absent" if extra else "broken", "not installed: " + ", ".join(missing), install)
        else:
            named = ", ".join(f"{r.name} {version(r.name)}" for r in own)
            yield Check(name, "ok", named or "nothing more needed")


def _masks() -> Iterator[Check]:
    import numpy as np
    import torch

    from dynamask_mlflow.masks.black_box import resolve_device
    from dynamask_mlflow.masks.explain import explain

    device = resolve_device("auto")
    named = torch.cuda.get_device_name(device) if device.type == "cuda" else f"{torch.get_num_threads()} threads"
    offered = {"CUDA": torch.cuda.is_available(), "MPS": torch.backends.mps.is_available()}
    listed = ", ".join(f"{name} {'yes' if there else 'no'}" for name, there in offered.items())
    yield Check("device", "ok", f"{device} ({named}); {listed}")
    x = np.random.default_rng(0).normal(size=(2, 6, 3)).astype(np.float32)
    masks = explain(lambda batch: batch[:, 3, 1], x, task="regression", progress=False)
    right = bool((masks.masks.reshape(2, -1).argmax(axis=1) == 3 * 3 + 1).all())
    yield Check("masks", "ok" if right else "broken", "a planted cell is " + ("found" if right else "not found"))


def _mlflow() -> Iterator[Check]:
    import mlflow

    groups = {"mlflow.model_evaluator": {"dynamask"}, "mlflow.dataset_constructor": {"from_sequences"}}
    for group, names in groups.items():
        lost = names - {point.name for point in entry_points(group=group)}
        if lost:
            yield Check("plugin", "broken", f"MLflow does not see {', '.join(lost)}", "install the package with pip")
            return
    yield Check("plugin", "ok", f"mlflow {mlflow.__version__} sees the evaluator and the dataset constructors")
    from dynamask_mlflow.tracking.mlflow_internals import missing_internals

    for text in missing_internals():
        yield Check("plugin", "broken", text, "install an mlflow of docs/versions.md")
    uri = mlflow.get_tracking_uri()
    shown = without_secrets(uri)
    if urlsplit(uri).scheme not in ("http", "https"):
        # To ask a database that is not there would create it.
        yield Check("tracking", "ok", f"{shown} (no server; MLFLOW_TRACKING_URI or --tracking-uri names one)")
        return
    import requests

    try:
        answer = requests.get(uri.rstrip("/") + "/health", timeout=5)
    except requests.RequestException as error:
        silent = f"{shown} does not answer: {type(error).__name__}"
        yield Check("tracking", "broken", silent, "start the server, or set MLFLOW_TRACKING_URI")
        return
    fine = answer.status_code < 400
    yield Check("tracking", "ok" if fine else "broken", f"{shown} answers {answer.status_code}")


def _airflow() -> Iterator[Check]:
    try:
        found = version("apache-airflow")
    except PackageNotFoundError:
        without = "not installed; audits also run without: dynamask-mlflow audit run"
        yield Check("airflow", "absent", without, f"pip install '{PACKAGE}[airflow]'")
        return
    home = Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser()
    database = os.environ.get("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "")
    kind = (urlsplit(database).scheme or "sqlite").split("+")[0]
    state = f"apache-airflow {found}, home {home} ({'there' if home.is_dir() else 'not made yet'}), {kind}"
    slow = "SQLite locks under load: use Postgres for more than a trial (docs/airflow.md)" if kind == "sqlite" else ""
    yield Check("airflow", "ok", state, slow)
    names = ("DYNAMASK_MODEL", "DYNAMASK_DATASET", "DYNAMASK_STORE")
    unset = [name for name in names if not os.environ.get(name)]
    if unset:
        yield Check("dags", "absent", f"not set: {', '.join(unset)}", "the shipped DAGs need them (docs/airflow.md)")
    dataset = os.environ.get("DYNAMASK_DATASET")
    if dataset and not (Path(dataset) / "dataset.json").is_file():
        yield Check("dags", "broken", f"DYNAMASK_DATASET={dataset} is no built dataset", "dynamask-mlflow data build")


def _browser() -> Iterator[Check]:
    names = ("chromium", "chromium-browser", "google-chrome", "firefox")
    found = next((path for path in map(shutil.which, names) if path), None)
    if found is None:
        yield Check("browser", "absent", "none found; reports are plain HTML files and open in any")
    else:
        yield Check("browser", "ok", found)


def _data() -> Iterator[Check]:
    try:
        import duckdb
        import pyarrow
    except ImportError as error:
        yield Check("data", "absent", f"tables cannot be built: {error}", f"pip install '{PACKAGE}[data]'")
        return
    (answer,) = duckdb.connect(":memory:").execute("SELECT 6 * 7").fetchone() or (None,)
    works = f"duckdb {duckdb.__version__}, pyarrow {pyarrow.__version__}"
    yield Check("data", "ok" if answer == 42 else "broken", works)


def _folders() -> Iterator[Check]:
    from dynamask_mlflow.tracking.spool import find_spools

    place = Path(tempfile.gettempdir())
    free = shutil.disk_usage(place).free
    state = "ok" if free > FREE_SPACE and os.access(place, os.W_OK) else "broken"
    yield Check("spool", state, f"{place}: {free / 2**30:.1f} GiB free", "" if state == "ok" else "set TMPDIR")
    waiting = [spool for spool in find_spools(None) if spool.complete]
    if waiting:
        yield Check("spool", "absent", f"{len(waiting)} results were never uploaded", "dynamask-mlflow upload --list")
