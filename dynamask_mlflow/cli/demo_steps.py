"""The steps of the demo, in order.

Each takes the state, says what it found, and returns the state with more in it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dynamask_mlflow.cli import common
from dynamask_mlflow.cli.demo_messages import say_masks, say_truth

if TYPE_CHECKING:
    from dynamask_mlflow.data import BuildConfig, StayDataset
    from dynamask_mlflow.training import TrainConfig

MODEL, ALIAS, EXPERIMENT = "icu-mortality", "champion", "demo"
# Half of the paper's units: the same AUROC on this hospital, and all that follows takes half as long.
UNITS = 100
TRAINING_MONTHS = 12
FAULTY_MONTH = 20


@dataclass(frozen=True)
class DemoSettings:
    folder: Path
    stays: int
    months: int
    seed: int
    instances: int
    fresh: bool

    @property
    def until(self) -> str:
        """The last month of training: a year before anything changes, or half of a short calendar."""
        count = TRAINING_MONTHS if self.months > TRAINING_MONTHS else max(self.months // 2, 1)
        return f"{2023 + (count - 1) // 12}-{(count - 1) % 12 + 1:02d}"

    @property
    def changed(self) -> str:
        """The month of the unit fault in a long calendar, or the last month of a short one."""
        month = min(self.months, FAULTY_MONTH + 1) - 1
        return f"{2023 + month // 12}-{month % 12 + 1:02d}"


@dataclass(frozen=True)
class DemoState:
    """What the steps so far have made."""

    settings: DemoSettings
    hospital: Path | None = None
    hospital_is_new: bool = True
    dataset: StayDataset | None = None
    model_uri: str | None = None
    evaluation_run: str | None = None

    @property
    def built(self) -> StayDataset:
        if self.dataset is None:
            raise RuntimeError("Expected the dataset to be built before this step, but it is not.")
        return self.dataset


def make_hospital(state: DemoState) -> DemoState:
    from dynamask_mlflow.data.hospital import HospitalConfig, synthesize

    settings = state.settings
    target = settings.folder / "hospital"
    config = HospitalConfig(stays=settings.stays, months=settings.months, seed=settings.seed)
    stored = target / "truth" / "calendar.json"
    known = json.loads(stored.read_text())["settings"] if stored.is_file() else None
    new = known != asdict(config) or settings.fresh
    if not new:
        click.echo(f"      {target} is there and fits.")
    else:
        synthesize(target, config, overwrite=True)
        click.echo(f"      {config.stays} stays over {config.months} months, MIMIC-III-shaped, in {target}.")
    return replace(state, hospital=target, hospital_is_new=new)


def build_dataset(state: DemoState) -> DemoState:
    from dynamask_mlflow.cli.data import print_report, progress
    from dynamask_mlflow.data import BuildConfig, build, open_source

    settings = state.settings
    target = settings.folder / "dataset"
    config = BuildConfig(until=settings.until, seed=settings.seed)
    dataset = None if state.hospital_is_new else _known_dataset(target, config)
    if dataset is None:
        with progress() as tell:
            dataset = build(open_source("synthetic", str(state.hospital)), config, progress=tell)
        dataset.save(target, overwrite=True)
    else:
        click.echo(f"      {target} is there and fits.")
    print_report(dataset)
    return replace(state, dataset=dataset)


def _known_dataset(target: Path, config: BuildConfig) -> StayDataset | None:
    """The dataset of an earlier run, if it is whole and was built with these settings."""
    from dynamask_mlflow.data import DataError, StayDataset

    try:
        dataset = StayDataset.load(target)
    except DataError:
        return None
    return dataset if dataset.report["config"] == json.loads(json.dumps(asdict(config))) else None


def train_model(state: DemoState) -> DemoState:
    import mlflow

    from dynamask_mlflow.cli.train import describe_scores, print_epoch
    from dynamask_mlflow.training import TrainConfig, train_and_register

    settings, dataset = state.settings, state.built
    uri = store_uri(settings.folder)
    mlflow.set_tracking_uri(uri)
    mlflow.set_registry_uri(uri)
    if mlflow.get_experiment_by_name(EXPERIMENT) is None:
        mlflow.create_experiment(EXPERIMENT, artifact_location=(settings.folder / "artifacts").as_uri())
    config = TrainConfig(units=UNITS, seed=settings.seed)
    version = None if settings.fresh else _trained(dataset.digest, config)
    if version is not None:
        click.echo(f"      {MODEL} version {version} was trained on these data with these settings.")
        return replace(state, model_uri=f"models:/{MODEL}/{version}")
    done = train_and_register(
        dataset,
        config,
        experiment=EXPERIMENT,
        registered_model_name=MODEL,
        alias=ALIAS,
        on_epoch=print_epoch,
    )
    click.echo(f"      Test stays: {describe_scores(done.scores)}")
    click.echo(f"      Registered as {MODEL} version {done.version}, alias {ALIAS}.")
    return replace(state, model_uri=done.model_uri)


def evaluate_model(state: DemoState) -> DemoState:
    import mlflow

    from dynamask_mlflow.tracking.dataset import from_sequences

    test = state.built.part("test")
    # Without `observed`: filled-in values may be salient, as in the audits; the network was trained on them.
    data = from_sequences(
        **test.sequence_arrays(observed=False),
        source=str(state.settings.folder / "dataset"),
        name=f"test stays until {state.settings.until}",
    )
    words = {"title": "ICU mortality, synthetic hospital", "log_inputs": True}  # classes, hours and units: of the model
    sample = {"instances": state.settings.instances, "sampling": "risk", "progress": False, "change_since": 24}
    mlflow.set_experiment(EXPERIMENT)
    with mlflow.start_run(run_name="evaluate") as run:
        result = mlflow.models.evaluate(  # type: ignore[no-untyped-call]
            model=state.model_uri,
            data=data,
            model_type="classifier",
            evaluators=["default", "dynamask"],
            evaluator_config={"default": {"log_model_explainability": False}, "dynamask": {**sample, **words}},
        )
    profile = mlflow.artifacts.load_dict(f"runs:/{run.info.run_id}/dynamask/profile.json")
    say_masks(result.metrics, profile)
    return replace(state, evaluation_run=run.info.run_id)


def compare_with_truth(state: DemoState) -> DemoState:
    from dynamask_mlflow import load_model
    from dynamask_mlflow.cli.demo_truth import find_truth
    from dynamask_mlflow.data.hospital import load_truth

    found = find_truth(load_model(str(state.model_uri)), state.built.part("test"), load_truth(str(state.hospital)))
    say_truth(found)
    if state.evaluation_run is not None:
        import mlflow

        metrics = {
            f"truth/{method}/{name}{suffix}": value
            for suffix, band in {"": found.overall, **{f"/{band}": at for band, at in found.bands.items()}}.items()
            for method, scores in band.scores.items()
            for name, value in scores.items()
        }
        with mlflow.start_run(run_id=state.evaluation_run):
            mlflow.log_metrics(metrics)
    return state


def audit_windows(state: DemoState) -> DemoState:
    """A window in which nothing happened, and the latest one in which something was planted."""
    from dynamask_mlflow.audit import AuditConfig, AuditError, build_reference, run_audit

    settings = state.settings
    raw: dict[str, Any] = {"events": str(settings.folder / "hospital"), "events_source": "synthetic"}
    config = AuditConfig(reference_instances=200, instances=100, progress=False, time_unit="hour", **raw)
    where: dict[str, Any] = {"config": config, "store": str(settings.folder / "shards"), "experiment": EXPERIMENT}
    data, normal = str(settings.folder / "dataset"), f"2023-01..{settings.until}"
    try:
        build_reference(str(state.model_uri), data, normal, split="test", **where)
        for window, split in ((normal, "validation"), (settings.changed, "later")):
            verdict = run_audit(str(state.model_uri), data, window, split=split, **where)
            click.echo(f"      {window} ({split} stays): {verdict.state.upper()}")
            for title, sentences in verdict.sections:
                if title != "Evidence":  # the page has it
                    click.echo("\n".join([f"        {title}", *(f"          {text}" for text in sentences)]))
    except AuditError as error:
        click.echo(f"      Not audited: {error}")
    return state


STEPS: list[tuple[str, Callable[[DemoState], DemoState]]] = [
    ("A synthetic hospital, with known truth", make_hospital),
    ("Its tables as tensors", build_dataset),
    ("A GRU, trained and registered", train_model),
    ("Evaluated by MLflow, with masks", evaluate_model),
    ("The masks against the planted truth", compare_with_truth),
    ("Audited: a quiet window and a changed one", audit_windows),
]


def store_uri(folder: Path) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    return f"sqlite:///{folder / 'mlflow.db'}"


def last_evaluation(uri: str) -> tuple[str, str] | None:
    """Experiment and run of the newest evaluation."""
    import mlflow

    client = mlflow.MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name(EXPERIMENT)
    if experiment is None:
        return None
    where = "attributes.run_name = 'evaluate' AND attributes.status = 'FINISHED'"
    runs = client.search_runs([experiment.experiment_id], where, order_by=["start_time DESC"], max_results=1)
    return (experiment.experiment_id, runs[0].info.run_id) if runs else None


def has_champion(uri: str) -> bool:
    """Whether the demo's model is registered in this store, with its alias."""
    import mlflow
    from mlflow.exceptions import MlflowException

    try:
        mlflow.MlflowClient(tracking_uri=uri, registry_uri=uri).get_model_version_by_alias(MODEL, ALIAS)
    except MlflowException:
        return False
    return True


def _trained(digest: str, config: TrainConfig) -> str | None:
    """The champion's version, if it was trained on these data with these settings."""
    import mlflow
    from mlflow.exceptions import MlflowException

    from dynamask_mlflow.training.register import DIGEST_TAG

    client = mlflow.MlflowClient()
    try:
        version = client.get_model_version_by_alias(MODEL, ALIAS)
        run = client.get_run(str(version.run_id))
    except MlflowException:
        return None
    same = all(run.data.params.get(name) == str(value) for name, value in config.to_dict().items())
    return str(version.version) if same and run.data.tags.get(DIGEST_TAG) == digest else None


@contextmanager
def quiet() -> Iterator[None]:
    """As of every command; and one thread of torch, which disturbs nobody."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    try:
        with common.quiet():
            yield
    finally:
        torch.set_num_threads(threads)
