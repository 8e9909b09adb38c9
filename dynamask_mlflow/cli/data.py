"""`dynamask-mlflow data build | synthesize | describe`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dynamask_mlflow.cli.common import AS_JSON, reported

if TYPE_CHECKING:
    from dynamask_mlflow.data import StayDataset
    from dynamask_mlflow.data.preprocess import Preprocessing


@click.group()
def data() -> None:
    """Build datasets from hospital tables, or synthesize a hospital."""


@data.command()
@click.option("--source", required=True, help="mimic3, mimic4, meds, ricu, long or synthetic.")
@click.option("--path", required=True, help="A folder, a file (long), or postgresql://... for MIMIC in Postgres.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="The dataset's folder.")
@click.option(
    "--features", default=None, help="fit32, fit31, physionet2012, ricu or a YAML file. [default: fit32 or ricu]"
)
@click.option("--label", default="hospital", show_default=True, help="hospital or icu mortality after the window.")
@click.option(
    "--require",
    default="none",
    show_default=True,
    help="Channels that must be observed: none, all, vitals, named, or a comma-separated list.",
)
@click.option("--until", default=None, help="Last window (such as 2023-12) to train on; the rest is split 'later'.")
@click.option(
    "--preprocessing",
    default=None,
    help="Statistics of a trained model: a JSON file or a model URI. Nothing is fitted then.",
)
@click.option("--stays", default=None, help="long: the table of stays. meds: label files of ACES.")
@click.option("--column", "columns", multiple=True, metavar="NAME=OWN", help="long: say what a column is called.")
@click.option("--clock", default="auto", show_default=True, help="long, ricu: what times count, such as hours.")
@click.option("--schema", "schemas", multiple=True, help="Postgres: where to look for tables.")
@click.option("--one-calendar", is_flag=True, help="Dates are comparable across patients: windows are months.")
@click.option("--drop-contradictory-deaths", is_flag=True, help="Drop stays that go on after a recorded death.")
@click.option("--memory-limit", default="512MB", show_default=True, help="Of the query engine; tensors come on top.")
@click.option("--threads", type=int, default=None, help="Of the query engine. [default: all cores]")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the split.")
@click.option("--overwrite", is_flag=True, help="Replace a dataset that is there.")
@click.option("--strict", is_flag=True, help="Treat warnings as errors: nothing is written.")
@AS_JSON
def build(out: Path, overwrite: bool, strict: bool, preprocessing: str | None, as_json: bool, **options: Any) -> None:
    """Hospital tables to tensors (N, 48, d), with splits, labels and a report.

    \b
    dynamask-mlflow data build --source mimic3 --path mimic-iii-1.4 --out icu
    dynamask-mlflow data build --source long --path events.parquet --stays outcomes.csv \\
        --features physionet2012 --out physionet
    dynamask-mlflow data build --source ricu --path yaib/mortality24/eicu --out eicu
    dynamask-mlflow data build --source meds --path meds --stays labels/mortality --features own.yaml --out omop
    """
    from dynamask_mlflow.data import BuildConfig, DataError, open_source
    from dynamask_mlflow.data import build as build_dataset

    columns = dict(_pair(text) for text in options["columns"])
    features = options["features"] or ("ricu" if options["source"] == "ricu" else None)
    own: dict[str, Any] = {"features": features} if features else {}
    shared = ("label", "require", "until", "seed", "drop_contradictory_deaths", "memory_limit", "threads")
    with reported(as_json):
        if out.exists() and not overwrite:
            raise DataError(f"Expected nothing at {out}, but there is something; --overwrite replaces a dataset.")
        source = open_source(
            options["source"],
            options["path"],
            stays=options["stays"],
            columns=columns,
            clock=options["clock"],
            schemas=options["schemas"] or None,
            one_calendar=options["one_calendar"],
        )
        config = BuildConfig(**own, **{key: options[key] for key in shared})
        with progress() as tell:
            dataset = build_dataset(source, config, _statistics(preprocessing), tell)
        warnings = [f for f in dataset.report["findings"] if f["level"] == "warning"]
        if strict and warnings:
            raise DataError("\n".join(finding["message"] for finding in warnings))
        dataset.save(out, overwrite=overwrite)
    if as_json:
        click.echo(json.dumps({"out": str(out), **summary(dataset)}, indent=2))
        return
    print_report(dataset)
    click.echo(f"Written to {out} (digest {dataset.digest}).")


@data.command()
@click.option("--stays", type=int, default=4000, show_default=True, help="ICU stays.")
@click.option("--months", type=int, default=24, show_default=True, help="Over which they are spread.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of every draw.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="The folder of the tables.")
@click.option("--format", default="parquet", show_default=True, help="parquet, csv or csv.gz.")
@click.option("--no-drift", is_flag=True, help="Leave the calendar of changes out.")
@click.option("--overwrite", is_flag=True, help="Replace a hospital that is there.")
@AS_JSON
def synthesize(out: Path, overwrite: bool, no_drift: bool, as_json: bool, **options: Any) -> None:
    """A synthetic hospital: MIMIC-III-shaped tables with known saliency and a planted calendar of drift.

    \b
    dynamask-mlflow data synthesize --stays 4000 --months 24 --out hospital
    """
    from dynamask_mlflow.data.hospital import HospitalConfig
    from dynamask_mlflow.data.hospital import synthesize as write_hospital

    with reported(as_json):
        config = HospitalConfig(drift=not no_drift, **options)
        write_hospital(out, config, overwrite=overwrite)
    if as_json:
        found = {"out": str(out), "truth": str(out / "truth"), **asdict(config)}
        click.echo(json.dumps({**found, "calendar": [asdict(drift) for drift in config.calendar]}, indent=2))
        return
    click.echo(f"{config.stays} stays over {config.months} months in {out}, the truth in {out / 'truth'}.")
    for drift in config.calendar:
        until = "on" if drift.last_month is None else f"to {drift.last_month}"
        click.echo(f"  month {drift.first_month} {until}: {drift.what}")


@data.command()
@click.argument("path", type=click.Path(path_type=Path))
@AS_JSON
def describe(path: Path, as_json: bool) -> None:
    """What is in a built dataset: stays, splits, labels, gaps, exclusions, findings.

    \b
    dynamask-mlflow data describe icu
    dynamask-mlflow data describe icu --json
    """
    from dynamask_mlflow.data import StayDataset

    with reported(as_json):
        dataset = StayDataset.load(path)
    if as_json:
        click.echo(json.dumps(summary(dataset), indent=2))
        return
    print_report(dataset)
    click.echo(f"Digest {dataset.digest}.")
    click.echo(f"{'channel':<20}{'observed':>10}{'mean':>10}{'std':>10}  unit")
    share = dataset.observed.mean(axis=(0, 1))
    stored = dataset.preprocessing
    for index, name in enumerate(dataset.channel_names):
        row = f"{name:<20}{share[index]:>10.1%}{stored.mean[index]:>10.4g}{stored.std[index]:>10.4g}"
        click.echo(f"{row}  {stored.units[index]}")


def summary(dataset: StayDataset) -> dict[str, Any]:
    """The report of a dataset, with its digest and shape."""
    return {"digest": dataset.digest, "shape": dataset.x.shape, **dataset.report}


def print_report(dataset: StayDataset) -> None:
    """Counts and findings in plain words."""
    import numpy as np

    report = dataset.report
    n, steps, channels = dataset.x.shape
    click.echo(f"{report['stays_in']} stays in, {n} out: {n} x {steps} h x {channels} channels.")
    for exclusion in report["exclusions"]:
        if exclusion["count"]:
            click.echo(f"  left out: {exclusion['count']:>6}  {exclusion['reason']}")
    for name in ("train", "validation", "test", "later"):
        part = dataset.splits == name
        if part.any():
            known = dataset.labels[part][np.isfinite(dataset.labels[part])]
            rate = f", {known.mean():.1%} died" if len(known) else ""
            click.echo(f"  {name:<10} {part.sum():>6} stays{rate}")
    for finding in report["findings"]:
        if finding["level"] != "note":
            click.secho(f"  {finding['level']}: {finding['message']}", fg="yellow")
    notes = sum(finding["level"] == "note" for finding in report["findings"])
    if notes:
        click.echo(f"  {notes} notes are in the report (data describe --json).")


@contextmanager
def progress() -> Iterator[Any]:
    """A bar for each table that is read."""
    from tqdm import tqdm

    bars: dict[str, Any] = {}

    def tell(stage: str, count: int) -> None:
        if stage not in bars:
            for bar in bars.values():
                bar.close()
            bars[stage] = tqdm(desc=stage, unit=" rows", unit_scale=True, leave=False, disable=None)
        bars[stage].update(count - bars[stage].n)

    try:
        yield tell
    finally:
        for bar in bars.values():
            bar.close()


def _pair(text: str) -> tuple[str, str]:
    name, _, own = text.partition("=")
    if not own:
        raise click.BadParameter(f"Expected NAME=OWN, but got {text!r}.", param_hint="--column")
    return name, own


def _statistics(where: str | None) -> Preprocessing | None:
    from dynamask_mlflow.data import DataError, Preprocessing

    if where is None:
        return None
    if ":/" in where:
        from dynamask_mlflow import load_model

        stored = load_model(where).settings.preprocessing
        if stored is None:
            raise DataError(f"Expected preprocessing stored with the model {where}, but it has none.")
        return Preprocessing.from_dict(stored)
    if not Path(where).is_file():
        raise DataError(f"Expected preprocessing in {where}, but there is no such file.")
    return Preprocessing.from_json(Path(where).read_text(encoding="utf-8"))
