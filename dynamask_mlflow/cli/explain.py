"""`dynamask-mlflow explain`: which cells moved the answers of a registered model, as a table; no run is made."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dynamask_mlflow.cli.common import (
    AS_JSON,
    TRACKING,
    check_address,
    parse_settings,
    quiet,
    read_settings,
    reported,
    tell,
    track,
)
from dynamask_mlflow.cli.explain_since import Times, explain_since, say_change, top_moves
from dynamask_mlflow.cli.inputs import Reading, data_options, open_data
from dynamask_mlflow.cli.open_model import logged_settings, open_model
from dynamask_mlflow.cli.setting_flags import given_settings, setting_flags
from dynamask_mlflow.evaluation.model_settings import as_the_model_names_them
from dynamask_mlflow.masks.config import ExplainConfig

if TYPE_CHECKING:
    import pandas as pd

    from dynamask_mlflow.evaluation.sequences import Sequences
    from dynamask_mlflow.masks.change.result import Change
    from dynamask_mlflow.masks.result import Masks

WORDS = {1: "raised", -1: "lowered", 0: "as its reference"}
FILES = (".npz", ".csv", ".parquet")


@click.command()
@click.argument("model")
@click.argument("data")
@data_options
@click.option("--task", type=click.Choice(["classification", "regression"]), help="For models that do not say.")
@click.option("--ids", default=None, help="Exactly these, separated by commas.")
@click.option(
    "--instances", type=click.IntRange(min=0), default=8, show_default=True, help="Without --ids: the first; 0 for all."
)
@click.option("--top", type=click.IntRange(min=1), default=5, show_default=True, help="Cells to print of each.")
@setting_flags(ExplainConfig, shown=("target", "method", "area", "fast"))
@click.option("--config", "config_file", type=click.Path(path_type=Path), help="Settings as JSON or YAML.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="One setting, for instance target=class:1.")
@click.option(
    "--since", default=None, help="Tell what changed since this time: a number of steps, or a time of the data."
)
@click.option("--until", default=None, help="With --since: the later time. [default: the end]")
@click.option(
    "--padding", default=None, help="With --since: carry, shorter or a number. [default: as the model was logged]"
)
@click.option("--out", type=click.Path(path_type=Path), help="Write the masks (.npz) or all cells (.csv, .parquet).")
@TRACKING
@AS_JSON
def explain(model: str, data: str, as_json: bool, **options: Any) -> None:
    """Print which cells of DATA moved the answers of the registered MODEL, and which way. Nothing is logged.

    DATA is a folder of `data build`, an .npz with an array x (N, T, d), an .npy, a .csv or .parquet table with --id and
    --time, or a URI of a saved dataset.

    Exit codes: 0 done, 2 wrong usage, 3 error.

    \b
    dynamask-mlflow explain models:/icu-mortality@champion icu --ids 200001,200047
    dynamask-mlflow explain models:/icu-mortality@champion icu --ids 200001 --since 24 --until 36
    dynamask-mlflow explain models:/icu-mortality@champion stays.npz --instances 0 --out masks.npz
    dynamask-mlflow explain models:/pump-failure/3 sensors.csv --id pump --time second --task classification --json
    """
    with reported(as_json):
        out, asked = options["out"], _asked(options)
        if out is not None and out.suffix not in FILES:
            raise ValueError(f"Expected --out to end in {', '.join(FILES)}, but got {out}.")
        check_address(model)
        track(options["tracking_uri"])
        given = {name: options[name] for name in Reading.__dataclass_fields__}
        with quiet():
            opened = open_data(data, Reading(**given), model).sequences
            everything = as_the_model_names_them(opened, logged_settings(model))
            chosen = _choose(everything, options["ids"], options["instances"])
            settings = {"progress": False if as_json else None, **read_settings(options["config_file"])}
            settings |= parse_settings(options["settings"]) | given_settings()
            if asked is None:
                masks, is_risk = explain_sequences(model, chosen, options["task"], settings)
                rows = [top_cells(masks, chosen, row, options["top"]) for row in range(len(masks))]
                if is_risk:
                    rows = [{**row, **_risks(row)} for row in rows]
                found: Masks | Change = masks
            else:
                change = explain_since(model, chosen, options["task"], settings, asked)
                rows = [top_moves(change, chosen, row, options["top"]) for row in range(len(change))]
                found = change
        if out is not None:
            _write(found, chosen, out)
        if as_json:
            click.echo(json.dumps({"target": found.target, "instances": rows}))
        else:
            (_say if asked is None else say_change)(rows)
            if out is not None:
                click.echo(f"Written to {out}.")


def _asked(options: dict[str, Any]) -> Times | None:
    if options["since"] is not None:
        return Times(since=options["since"], until=options["until"], padding=options["padding"])
    given = [f"--{name}" for name in ("until", "padding") if options[name] is not None]
    if given:
        raise ValueError(f"Expected --since with {' and '.join(given)}, but it is not given.")
    return None


def explain_sequences(uri: str, sequences: Sequences, task: str | None, settings: dict[str, Any]) -> tuple[Masks, bool]:
    """Masks of all the sequences by the model behind `uri`, and whether their answers are the log-odds of a risk."""
    import numpy as np

    from dynamask_mlflow.evaluation.explain_and_score import Explainer

    model = open_model(uri, task, settings, sequences)
    explainer = Explainer(model.network, model.task, model.config, model.reference)
    masks, first = explainer.masks_of(sequences), sequences.take(np.arange(1))
    is_risk = model.task == "classification" and masks.target == "auto"
    return masks, is_risk and explainer.predict(first.x, first).shape[1:] == (2,)


def _risks(row: dict[str, Any]) -> dict[str, float]:
    """Risks of the answer and of its reference answer, which are log-odds."""
    names = {"answer": "risk", "reference_answer": "reference_risk"}
    return {risk: round((1 + math.tanh(row[name] / 2)) / 2, 6) for name, risk in names.items() if name in row}


def top_cells(masks: Masks, sequences: Sequences, row: int, count: int) -> dict[str, Any]:
    """One sequence in plain values: the answer, its reference answer, the direction, and the cells that rank first."""
    import numpy as np

    order = np.argsort(-masks.scores[row], axis=None, kind="stable")[:count]
    cells = []
    for flat in order:
        step, channel = (int(i) for i in np.unravel_index(flat, masks.scores[row].shape))
        cell = {
            "time": sequences.times[step],
            "channel": sequences.channel_names[channel],
            "value": round(float(sequences.x[row, step, channel]), 6),
            "coefficient": round(float(masks.masks[row, step, channel]), 6),
        }
        if masks.attributions is not None:
            cell["attribution"] = round(float(masks.attributions[row, step, channel]), 6)
        cells.append(cell)
    answers = {
        name: float(masks.diagnostics[name][row])
        for name in ("answer", "reference_answer")
        if name in masks.diagnostics and np.isfinite(masks.diagnostics[name][row])
    }
    described = {"id": sequences.ids[row], "direction": int(masks.direction[row]), **answers}
    return {**described, "salient_cells": int(masks.binary[row].sum()), "cells": cells}


def _choose(sequences: Sequences, ids: str | None, count: int) -> Sequences:
    import numpy as np

    if ids is None:
        return sequences.take(np.arange(min(count or len(sequences), len(sequences))))
    wanted = [name.strip() for name in ids.split(",") if name.strip()]
    places = {name: place for place, name in enumerate(sequences.ids)}
    unknown = [name for name in wanted if name not in places]
    if unknown or not wanted:
        some = ", ".join(sequences.ids[:5]) + (", ..." if len(sequences) > 5 else "")
        raise ValueError(f"Expected ids among {some}, but got {', '.join(unknown) or 'none'}.")
    return sequences.take(np.array([places[name] for name in wanted], dtype=np.intp))


def _write(found: Masks | Change, sequences: Sequences, out: Path) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    if out.suffix == ".npz":
        found.save(out)
        return
    frame: pd.DataFrame = found.to_frame(sequences.ids, sequences.channel_names, sequences.times)
    if out.suffix == ".csv":
        frame.to_csv(out, index=False)
    else:
        frame.to_parquet(out, index=False)


def _say(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        moved = WORDS[row["direction"]]
        if "answer" in row and "reference_answer" in row:
            moved = f"{row['answer']:.3g}, {moved} from {row['reference_answer']:.3g}"
        if "risk" in row and "reference_risk" in row:
            moved = (
                f"risk {row['risk']:.3g}, {WORDS[row['direction']]} from {row['reference_risk']:.3g} "
                f"(log-odds {row['answer']:.3g} from {row['reference_answer']:.3g})"
            )
        tell(f"{row['id']}: {moved}; {row['salient_cells']} salient cells", bold=True)
        click.echo(f"  {'time':>8}  {'channel':<20}{'value':>10}{'attribution':>13}{'coefficient':>13}")
        for cell in row["cells"]:
            given = cell.get("attribution")
            signed = "-" if given is None else f"{given:+.3g}" if given else "0"
            tell(
                f"  {cell['time']!s:>8}  {cell['channel']:<20}{cell['value']:>10.3g}{signed:>13}"
                f"{cell['coefficient']:>13.2f}"
            )
