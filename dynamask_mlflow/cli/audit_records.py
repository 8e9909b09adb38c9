"""`dynamask-mlflow audit evidence | verify | labels | references | prune`: what audits leave behind."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import click

from dynamask_mlflow._states import State, worst
from dynamask_mlflow.audit import identity
from dynamask_mlflow.cli.common import AS_JSON, TRACKING, reported, tell, track

_MODEL = click.option("--model", required=True, help="Name of the registered model.")
EXPERIMENT = click.option("--experiment", default=identity.EXPERIMENT, show_default=True)


@click.command()
@_MODEL
@click.option("--year", required=True, help="Of the windows.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), default=Path("evidence.zip"), show_default=True)
@EXPERIMENT
@TRACKING
@AS_JSON
def evidence(model: str, year: str, out: Path, experiment: str, tracking_uri: str | None, as_json: bool) -> None:
    """Everything about a year of audits in one sealed file, with a page in front.

    \b
    dynamask-mlflow audit evidence --model icu-mortality --year 2026 --out evidence.zip
    """
    with reported(as_json):
        from dynamask_mlflow.audit import write_evidence

        track(tracking_uri)
        seal = write_evidence(model, year, out, experiment)
    if as_json:
        click.echo(json.dumps({"out": str(out), "bytes": out.stat().st_size, "seal": seal}))
        return
    click.echo(f"{out}: {out.stat().st_size / 1024:.0f} KB. Note its seal elsewhere:\n{seal}")


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--expect", default=None, help="The seal that was noted when the bundle was made.")
@AS_JSON
def verify(bundle: Path, expect: str | None, as_json: bool) -> None:
    """Refuse a bundle that was changed, and compute every verdict again.

    Exit codes: 0 good, 1 a verdict differs, 3 refused.

    \b
    dynamask-mlflow audit verify evidence.zip
    """
    with reported(as_json):
        from dynamask_mlflow.audit import verify_evidence

        found = verify_evidence(bundle, expect)
    if as_json:
        click.echo(json.dumps({**asdict(found), "good": found.good}, indent=1))
    else:
        tell(f"{found.model}, {found.year}: {found.files} files as they were written, seal {found.seal}")
        for verdict in found.verdicts:
            colour = "green" if verdict.same else "red"
            tell(f"  {verdict.name}: {verdict.stored}, computed again {verdict.computed}", fg=colour)
            for text in verdict.differences:
                tell(f"    {text}")
    sys.exit(0 if found.good else 1)


@click.command()
@_MODEL
@click.option("--labels", "table", type=click.Path(path_type=Path, exists=True), required=True, help="CSV or Parquet.")
@click.option("--site", default=None, help="Whose stays they are; needed if there are several sites.")
@EXPERIMENT
@TRACKING
@AS_JSON
def labels(model: str, table: Path, site: str | None, experiment: str, tracking_uri: str | None, as_json: bool) -> None:
    """Outcomes that arrived later: conclude the audits of these stays again. Ends with the most severe exit code.

    The first column of the table names stays, the last is the outcome.

    \b
    dynamask-mlflow audit labels --model icu-mortality --labels deaths.csv
    """
    with reported(as_json):
        from dynamask_mlflow.audit import add_labels, read_labels

        track(tracking_uri)
        found = add_labels(model, read_labels(table), experiment, site=site)
    if as_json:
        click.echo(json.dumps([{**asdict(each), "verdict": each.verdict.to_dict()} for each in found], indent=1))
    else:
        for each in found:
            state = each.verdict.state
            text = (
                f"version {each.version}, {each.site}, {each.window}: {each.added} outcomes; {each.before}, now {state}"
            )
            tell(text, fg=state.colour)
        if not found:
            click.echo("No audit has stays with new outcomes.")
    states = [State(str(each.verdict.state)) for each in found]
    sys.exit(worst(states).exit_code if states else 0)


@click.command()
@_MODEL
@click.option("--prune", is_flag=True, help="Delete those that no version and no current audit needs.")
@EXPERIMENT
@TRACKING
@AS_JSON
def references(model: str, prune: bool, experiment: str, tracking_uri: str | None, as_json: bool) -> None:
    """All references of a model: which versions they are pinned to, and how many audits rest on them.

    `audit reference` builds another one and pins it in place of the former.

    \b
    dynamask-mlflow audit references --model icu-mortality --prune
    """
    with reported(as_json):
        from dynamask_mlflow.audit import list_references, prune_references

        track(tracking_uri)
        found = prune_references(model, experiment) if prune else list_references(model, experiment)
    if as_json:
        click.echo(json.dumps([asdict(each) for each in found], indent=1))
        return
    for each in found:
        pins = f"pinned to {', '.join(each.pinned_to)}" if each.pinned_to else "not pinned"
        gone = "deleted  " if prune else ""
        tell(f"{gone}{each.run_id}  {each.window}, {each.site}, version {each.version}: {pins}, {each.audits} audits")
    if not found:
        click.echo("Nothing to delete." if prune else "There is none.")


@click.command()
@click.option("--store", default=None, help="Folder of the shards. [default: DYNAMASK_STORE or ~/.cache]")
@click.option(
    "--days", type=click.FloatRange(min=0, min_open=True), required=True, help="Not read or written for so long."
)
@AS_JSON
def prune(store: str | None, days: float, as_json: bool) -> None:
    """Delete old files of a store. An audit that needs them later makes them again.

    \b
    dynamask-mlflow audit prune --days 90
    """
    with reported(as_json):
        from dynamask_mlflow.audit import prune_store

        files, size = prune_store(store, days)
    if as_json:
        click.echo(json.dumps({"files": files, "bytes": size}))
        return
    click.echo(f"{files} files, {size / 1024**2:.1f} MB deleted.")


COMMANDS = (evidence, verify, labels, references, prune)
