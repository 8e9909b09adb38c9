"""`dynamask-mlflow explain --since`: what changed between two times, as a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from dynamask_mlflow.cli.common import tell
from dynamask_mlflow.cli.open_model import open_model

if TYPE_CHECKING:
    from dynamask_mlflow.evaluation.sequences import Sequences
    from dynamask_mlflow.masks.change.result import Change


@dataclass(frozen=True, kw_only=True)
class Times:
    """The two times and how a shorter sequence is filled up; the options of the same names."""

    since: str
    until: str | None = None
    padding: str | None = None


def explain_since(uri: str, sequences: Sequences, task: str | None, settings: dict[str, Any], asked: Times) -> Change:
    """What changed in the sequences between the two times, by the model behind `uri`."""
    from dynamask_mlflow.evaluation.changes import numeric_times, refuse_other_models, whole_steps
    from dynamask_mlflow.masks.change.explain_change import explain_change

    model = open_model(uri, task, settings, sequences)
    refuse_other_models(model.network, sequences.side, model.config)
    times = numeric_times(sequences.times)
    return explain_change(
        model.network,
        sequences.x,
        since=whole_steps(number_or_text(asked.since), times),
        until=None if asked.until is None else whole_steps(number_or_text(asked.until), times),
        times=times,
        lengths=sequences.lengths,
        padding=model.padding if asked.padding is None else number_or_text(asked.padding),
        task=model.task,
        config=model.config,
    )


def number_or_text(text: str) -> float | str:
    """A number of steps, an hour or a padding value; else a timestamp or a word."""
    try:
        return float(text)
    except ValueError:
        return text


def top_moves(change: Change, sequences: Sequences, row: int, count: int) -> dict[str, Any]:
    """One sequence in plain values: the answer at both times, the channels and the new cells that moved it most."""
    import numpy as np

    by_channel = change.by_channel[row]
    channels = [int(c) for c in np.argsort(-np.abs(by_channel), kind="stable")[:count] if by_channel[c]]
    order = np.argsort(-np.abs(change.contributions[row]), axis=None, kind="stable")[:count]
    cells = []
    for flat in order:
        step, channel = (int(i) for i in np.unravel_index(flat, change.contributions[row].shape))
        cells.append(
            {
                "time": sequences.times[step],
                "channel": sequences.channel_names[channel],
                "value": round(float(sequences.x[row, step, channel]), 6),
                "contribution": round(float(change.contributions[row, step, channel]), 6),
                "coefficient": round(float(change.masks[row, step, channel]), 6),
            }
        )
    return {
        "id": sequences.ids[row],
        "since": int(change.since[row]),
        "until": int(change.until[row]),
        "direction": int(change.direction[row]),
        "before": round(float(change.before[row]), 6),
        "after": round(float(change.after[row]), 6),
        "elapsed": round(float(change.elapsed[row]), 6),
        "outputs_before": change.outputs_before[row].round(6).tolist(),
        "outputs_after": change.outputs_after[row].round(6).tolist(),
        "channels": {sequences.channel_names[c]: round(float(by_channel[c]), 6) for c in channels},
        "cells": [cell for cell in cells if cell["contribution"]],
    }


def say_change(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        moved = {1: "raised", -1: "lowered", 0: "unchanged"}[row["direction"]]
        tell(
            f"{row['id']}: {_answer(row['outputs_before'])} after {row['since']} steps, "
            f"{_answer(row['outputs_after'])} after {row['until']}; {moved} by {row['after'] - row['before']:+.3g}",
            bold=True,
        )
        if row["elapsed"]:
            click.echo(f"  time alone {row['elapsed']:+.3g}")
        tell("  " + ", ".join(f"{name} {value:+.3g}" for name, value in row["channels"].items()))
        click.echo(f"  {'time':>8}  {'channel':<20}{'value':>10}{'contribution':>14}{'coefficient':>13}")
        for cell in row["cells"]:
            tell(
                f"  {cell['time']!s:>8}  {cell['channel']:<20}{cell['value']:>10.3g}{cell['contribution']:>+14.3g}"
                f"{cell['coefficient']:>13.2f}"
            )


def _answer(outputs: list[float]) -> str:
    """The risk of two classes, else all outputs."""
    shown = outputs[1:] if len(outputs) == 2 else outputs
    return ", ".join(f"{value:.3g}" for value in shown[:4]) + (", ..." if len(shown) > 4 else "")
