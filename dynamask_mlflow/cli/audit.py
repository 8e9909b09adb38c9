"""`dynamask-mlflow audit run | reference | show | compare | reconcile`, and the commands of `audit_records`.

Exit codes: 0 ok, 1 drift, 2 inconclusive, 3 error, 4 warning.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dynamask_mlflow._model_uri import ModelUri
from dynamask_mlflow._states import EXIT_ERROR
from dynamask_mlflow.audit.config import AuditConfig
from dynamask_mlflow.audit.identity import DEFAULT_SITE
from dynamask_mlflow.cli.audit_records import COMMANDS, EXPERIMENT
from dynamask_mlflow.cli.common import AS_JSON, TRACKING, Command, parse_settings, read_settings, reported, tell, track
from dynamask_mlflow.cli.setting_flags import given_settings, setting_flags

if TYPE_CHECKING:
    from dynamask_mlflow.audit import ShardResult, Verdict

SHOWN_FLAGS = ("instances", "alpha", "effect", "tolerance", "by", "events", "events_source")
_SITE = click.option(
    "--site", default=DEFAULT_SITE, show_default=True, help="Where the stays come from, e.g. a hospital."
)

_SHARED = [
    click.option("--data", required=True, help="Folder of a built dataset."),
    click.option("--store", default=None, help="Folder of the shards. [default: DYNAMASK_STORE or ~/.cache]"),
    TRACKING,
    click.option("--config", "config_file", type=click.Path(path_type=Path), help="Settings as JSON or YAML."),
    click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="One setting, for instance alpha=0.05."),
    click.option(
        "--trust", multiple=True, metavar="NAME", help="Whose code may run: a model, signed, or all. [default: none]"
    ),
    click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True, help="Of torch, a process."),
    click.option("--processes", type=click.IntRange(min=1), help="That fit. [default: the cores, if it pays, up to 4]"),
    AS_JSON,
]


def shared_options(command: Command) -> Command:
    """Options of every command that fits, and a flag for each setting of an audit."""
    for option in reversed(_SHARED):
        command = option(command)
    return setting_flags(AuditConfig, shown=SHOWN_FLAGS)(command)


@click.group()
def audit() -> None:
    """Does a registered model still look at the same things, and predict the same?

    Exit codes: 0 ok, 1 drift, 2 inconclusive, 3 error, 4 warning.
    """


for _command in COMMANDS:
    audit.add_command(_command)


@audit.command()
@click.option("--model", required=True, help="models:/name@alias or models:/name/version.")
@click.option("--window", required=True, help="2026-03, 2026-03-05, 2026-01..2026-03, or all.")
@click.option("--split", default=None, help="Only stays of this split of the dataset.")
@_SITE
@click.option("--reference-run", default=None, help="Run of another reference than the version's own.")
@EXPERIMENT
@shared_options
def run(
    model: str,
    window: str,
    split: str | None,
    site: str,
    reference_run: str | None,
    **options: Any,
) -> None:
    """Audit a window against the version's reference.

    \b
    dynamask-mlflow audit run --model models:/icu-mortality@champion --data icu --window 2026-03 --by sex,age_group
    """
    as_json: bool = options.pop("as_json")
    with reported(as_json):
        from dynamask_mlflow.audit import run_audit
        from dynamask_mlflow.audit.workers import default_processes

        processes = options.pop("processes")
        what = {name: options.pop(name) for name in ("data", "store", "experiment")}
        config = open_settings(**options)
        verdict = run_audit(
            model,
            window=window,
            site=site,
            split=split,
            config=config,
            **what,
            reference_run_id=reference_run,
            progress=None if as_json else tell_shard,
            processes=processes or default_processes(config.instances, config),
        )
        show_verdict(verdict, as_json)
    sys.exit(verdict.exit_code)


@audit.command()
@click.option("--model", required=True, help="models:/name@alias or models:/name/version.")
@click.option("--window", default="all", show_default=True, help="The window that is taken for normal.")
@click.option("--split", default=None, help="Only stays of this split, for instance test.")
@_SITE
@EXPERIMENT
@shared_options
def reference(
    model: str,
    window: str,
    split: str | None,
    site: str,
    experiment: str,
    data: str,
    store: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Build a version's reference and pin it to the version.

    \b
    dynamask-mlflow audit reference --model models:/icu-mortality@champion --data icu --window 2025 --split test
    """
    with reported(as_json):
        from dynamask_mlflow.audit import build_reference
        from dynamask_mlflow.audit.workers import default_processes

        processes = options.pop("processes")
        config = open_settings(**options)
        done = build_reference(
            model,
            data,
            window,
            site=site,
            split=split,
            config=config,
            store=store,
            experiment=experiment,
            progress=None if as_json else tell_shard,
            processes=processes or default_processes(config.reference_instances, config),
        )
    if as_json:
        click.echo(json.dumps(done.to_dict()))
        return
    tell(f"Reference of {done.model.name} version {done.model.version}: {done.instances} sequences.")
    click.echo(f"Run {done.run_id}.")


@audit.command()
@click.option("--model", required=True, help="Name of the registered model.")
@click.option("--version", default=None, help="Only this version.")
@click.option("--site", default=None, help="Only this site.")
@click.option("--all", "everything", is_flag=True, help="Also audits that a later one of the same window superseded.")
@EXPERIMENT
@TRACKING
@AS_JSON
def show(
    model: str,
    version: str | None,
    site: str | None,
    everything: bool,
    experiment: str,
    tracking_uri: str | None,
    as_json: bool,
) -> None:
    """All audits of a model, oldest first.

    \b
    dynamask-mlflow audit show --model icu-mortality
    """
    with reported(as_json):
        from dataclasses import asdict

        from dynamask_mlflow.audit import AuditError, audit_history
        from dynamask_mlflow.audit.history import settings_labels

        track(tracking_uri)
        name = ModelUri.parse(model).name if model.startswith("models:") else model
        entries = audit_history(experiment, name, version, site=site, superseded=everything)
        if not entries:
            raise AuditError(f"Expected audits of {name!r} in the experiment {experiment!r}, but there are none.")
    if as_json:
        click.echo(json.dumps([asdict(entry) for entry in entries]))
        return
    width = max(8, *(len(entry.site) + 2 for entry in entries))
    click.echo(
        f"{'window':<24}{'version':>8}  {'site':<{width}}{'verdict':<14}{'channels':>9}{'hours':>9}{'p':>9}"
        f"{'predicted':>11}{'number':>7}"
    )
    labels = settings_labels(entries)
    for entry in entries:
        told = [labels[entry.run_id], "superseded" if entry.superseded else ""]
        notes = "".join(f"  {note}" for note in told if note)
        shown = [entry.metrics.get(key) for key in ("moved_channels", "moved_hours")]
        moved = "".join("        -" if value is None else f"{100 * value:>7.1f} %" for value in shown)
        p, predicted = entry.metrics.get("p_value"), entry.metrics.get("predicted")
        tell(
            f"{entry.window:<24}{entry.version:>8}  {entry.site:<{width}}{entry.verdict:<14}{moved}"
            f"{'-' if p is None else format(p, '.4f'):>9}{'-' if predicted is None else format(predicted, '.3f'):>11}"
            f"{entry.metrics.get('instances', 0):>7.0f}{notes}"
        )


@audit.command()
@click.option("--model", required=True, help="The new version.")
@click.option("--against", required=True, help="The old version.")
@click.option("--window", required=True, help="The window of now.")
@click.option("--before", required=True, help="The window that was normal.")
@click.option("--split", default=None, help="Only stays of this split now.")
@click.option("--split-before", default=None, help="Only stays of this split before.")
@shared_options
def compare(against: str, before: str, split_before: str | None, as_json: bool, **options: Any) -> None:
    """Two versions x two windows: did the data or the model change where attention goes?

    \b
    dynamask-mlflow audit compare --model models:/icu-mortality/4 --against models:/icu-mortality/3 \\
                                  --data icu --before 2025-12 --window 2026-03
    """
    with reported(as_json):
        from dynamask_mlflow.audit import AuditSource, compare_audits
        from dynamask_mlflow.audit.workers import default_processes

        processes = options.pop("processes")
        what = {name: options.pop(name) for name in ("model", "window", "data", "store", "split")}
        config = open_settings(**options)
        verdict = compare_audits(
            AuditSource(**what),
            against,
            before,
            split_before=split_before,
            config=config,
            progress=None if as_json else tell_shard,
            processes=processes or default_processes(config.instances, config),
        )
        show_verdict(verdict, as_json)
        if not as_json:
            parts = {k.removeprefix("cause_"): v for k, v in verdict.metrics.items() if k.startswith("cause_")}
            click.echo("Share of attention moved by " + ", ".join(f"{k}: {100 * v:.1f} %" for k, v in parts.items()))
    sys.exit(verdict.exit_code)


@audit.command()
@click.option("--model", required=True, help="models:/name@alias or models:/name/version.")
@click.option("--period", type=click.Choice(["day", "month", "year"]), default="month", show_default=True)
@click.option("--split", default=None, help="Only stays of this split.")
@_SITE
@EXPERIMENT
@click.option("--dry-run", is_flag=True, help="Only say which windows.")
@shared_options
def reconcile(
    model: str, period: str, data: str, store: str | None, dry_run: bool, as_json: bool, **options: Any
) -> None:
    """Audit every window that has stays and no finished audit of them. Ends with the most severe of their exit codes.

    \b
    dynamask-mlflow audit reconcile --model models:/icu-mortality@champion --data icu
    """
    with reported(as_json):
        from dynamask_mlflow._states import State, worst
        from dynamask_mlflow.audit import AuditSource, pending_windows
        from dynamask_mlflow.audit import reconcile as run_all
        from dynamask_mlflow.audit.workers import default_processes

        what = {name: options.pop(name) for name in ("site", "split", "experiment")}
        processes = options.pop("processes")
        config = open_settings(**options)
        if dry_run:
            source = AuditSource(model=model, data=data, **what)
            found = dict.fromkeys(pending_windows(source, period=period, config=config), "pending")
        else:
            processes = processes or default_processes(config.instances, config)
            found = run_all(model, data, period=period, config=config, store=store, processes=processes, **what)
        click.echo(
            json.dumps(found) if as_json else "\n".join(f"{k}  {v}" for k, v in found.items()) or "Nothing to do."
        )
        if any(state.startswith("error") for state in found.values()):
            sys.exit(EXIT_ERROR)
        states = [State(state) for state in found.values() if state in set(State)]
    sys.exit(worst(states).exit_code if states else 0)


def open_settings(
    tracking_uri: str | None,
    config_file: Path | None,
    settings: tuple[str, ...],
    threads: int,
    trust: tuple[str, ...] = (),
) -> AuditConfig:
    """The settings of a file, then of --set, then of flags; MLflow and torch are set as the options say."""
    import torch

    from dynamask_mlflow.audit.workers import leave_quickly

    leave_quickly()
    if trust:
        os.environ["DYNAMASK_TRUST"] = ",".join(trust)  # processes that fit beside this one inherit it
    track(tracking_uri)
    torch.set_num_threads(threads)
    return AuditConfig.from_mapping({**read_settings(config_file), **parse_settings(settings), **given_settings()})


def tell_shard(done: ShardResult) -> None:
    """One line on stderr after each shard, so that nobody waits for minutes without a word."""
    how = "was there" if done.skipped else f"{done.seconds:.1f} s"
    click.echo(f"  {done.instances} sequences, {done.failures} failed ({how})", err=True)


def show_verdict(verdict: Verdict, as_json: bool) -> None:
    if as_json:
        click.echo(verdict.to_json())
        return
    place = "" if verdict.site == DEFAULT_SITE else f"{verdict.site}, "
    line = f"{verdict.state.upper()}  {verdict.model} version {verdict.version}, {place}{verdict.window}"
    tell(line, fg=verdict.state.colour, bold=True)
    for title, sentences in verdict.sections:
        click.echo(f"  {title}")
        for sentence in sentences:
            tell(f"    {sentence}")
