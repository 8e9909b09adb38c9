"""The data of a command, in any of the accepted forms, as an MLflow dataset of sequences."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from dynamask_mlflow._printable import printable
from dynamask_mlflow.cli.common import Command

if TYPE_CHECKING:
    import pandas as pd

    from dynamask_mlflow.data import StayDataset
    from dynamask_mlflow.tracking.dataset import SequenceDataset

TABLES = (".csv", ".csv.gz", ".tsv", ".parquet")
EXTRA = "extras/"  # arrays of further inputs of the model, such as extras/static
ARRAYS = ("targets", "ids", "channel_names", "times", "lengths", "observed")
FORMS = (
    "a folder of `data build`, an .npz with an array x (N, T, d), an .npy, a .csv or .parquet table with --id and "
    "--time, or a URI of a dataset that was saved"
)

_OPTIONS = [
    click.option("--split", default=None, help="Built dataset: only this split. [default: test, if there is one]"),
    click.option("--window", default=None, help="Built dataset: only this window: 2026-03, 2026, a range."),
    click.option("--id", "id_column", default=None, help="Table: the column that names the sequence."),
    click.option("--time", "time_column", default=None, help="Table: the column that names the step."),
    click.option(
        "--channels",
        default=None,
        help="Table: columns that are channels, separated by commas, or with --values the column that names the "
        "channel. [default: every numeric column that is left]",
    ),
    click.option("--values", default=None, help="Table with one row a measurement: the column of values."),
    click.option("--targets", default=None, help="Table: the column of targets."),
    click.option("--targets-per-step", is_flag=True, help="Table: the targets change with time."),
    click.option(
        "--since-start",
        type=click.Choice(["seconds", "minutes", "hours", "days"]),
        help="Table: count timestamps in whole units from the first row of their sequence.",
    ),
    click.option("--fill", default="error", show_default=True, help="Table: gaps: error, forward, a number, or nan."),
]


def data_options(command: Command) -> Command:
    """The options that say how to read the data."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How to read the data; the options of the same names."""

    split: str | None = None
    window: str | None = None
    id_column: str | None = None
    time_column: str | None = None
    channels: str | None = None
    values: str | None = None
    targets: str | None = None
    targets_per_step: bool = False
    since_start: str | None = None
    fill: str = "error"

    def refuse_others(self, where: str, *own: str) -> None:
        """Refuse options that this form of data does not have, which would go unheard; `own` are those that it has."""
        usual = Reading()
        given = [name for name in vars(usual) if name not in own and getattr(self, name) != getattr(usual, name)]
        if given:
            flags = ", ".join("--" + name.removesuffix("_column").replace("_", "-") for name in given)
            raise ValueError(
                f"Expected no {flags} with {where}: --split and --window choose from a built dataset (a folder), the "
                "others say how to read a table."
            )


_OF_FOLDERS = ("split", "window")
_OF_TABLES = tuple(name for name in Reading.__dataclass_fields__ if name not in _OF_FOLDERS)


def open_data(where: str, reading: Reading, model: str | None = None) -> SequenceDataset:
    """Read `where` in the form that it has; any other form is an error that lists those that are accepted.

    A model that takes the mask of measured cells gets it from a built dataset. A model that names its channels gets
    those of a table, in its own order.
    """
    from dynamask_mlflow.tracking.dataset import load_sequences

    if "://" in where or ":/" in where[:12]:
        reading.refuse_others(where)
        return load_sequences(where)
    path = Path(where)
    name = path.name.lower()
    if not path.exists():
        raise ValueError(f"Expected data at {where}, but there is nothing. Accepted: {FORMS}.")
    if path.is_dir():
        reading.refuse_others(where, *_OF_FOLDERS)
        return _from_built(path, reading, model)
    if name.endswith(TABLES):
        reading.refuse_others(where, *_OF_TABLES)
        return _from_table(path, reading, model)
    if name.endswith((".npz", ".npy")):
        reading.refuse_others(where)
        return _from_arrays(path)
    raise ValueError(f"Expected {FORMS}, but got {where}.")


def _from_built(path: Path, reading: Reading, model: str | None) -> SequenceDataset:
    from dynamask_mlflow.cli.open_model import takes_observed
    from dynamask_mlflow.data import StayDataset
    from dynamask_mlflow.tracking.dataset import from_sequences

    if not (path / "dataset.json").is_file():
        raise ValueError(f"Expected dataset.json in the folder {path}, but there is none. Accepted: {FORMS}.")
    stays = StayDataset.load(path)
    if reading.window is not None:
        stays = _of_window(stays, path, reading.window)
    split = reading.split or ("test" if reading.window is None and "test" in stays.splits else None)
    if split is not None:
        stays = stays.part(split)
    # Else without `observed`: values that were carried forward may be salient, since the network was trained on them.
    is_input = model is not None and takes_observed(model, stays.x[:2], stays.observed[:2])
    return from_sequences(
        **stays.sequence_arrays(observed=is_input),
        source=str(path.resolve()),
        name=" ".join(part for part in (path.resolve().name, split, reading.window) if part),
    )


def _of_window(stays: StayDataset, path: Path, window: str) -> StayDataset:
    """The stays of a window by its own name, or, as audits read it, of a day, a month, a year or a range of them."""
    from dynamask_mlflow.audit.windows import find_rows, parse_window

    if window in stays.windows:
        return stays.window(window)
    return stays.select(find_rows(str(path), parse_window(window)))


def _from_arrays(path: Path) -> SequenceDataset:
    from dynamask_mlflow._npz import load_arrays
    from dynamask_mlflow.tracking.dataset import from_sequences, load_sequences

    if path.name.lower().endswith(".npy"):
        return from_sequences(np.load(path, allow_pickle=False), source=str(path.resolve()), name=path.stem)
    found = load_arrays(path)
    if "meta" in found:
        return load_sequences(path)
    if "x" not in found:
        raise ValueError(f"Expected an array x (N, T, d) in {path}, but it holds {', '.join(found) or 'nothing'}.")
    extras = {name.removeprefix(EXTRA): found.pop(name) for name in list(found) if name.startswith(EXTRA)}
    unknown = set(found) - {"x", "y", *ARRAYS}
    if unknown:
        raise ValueError(f"Expected the arrays x, {', '.join(ARRAYS)} in {path}, but got {', '.join(sorted(unknown))}.")
    given: dict[str, Any] = {name: found[name] for name in ARRAYS if name in found}
    if extras:
        given["extras"] = extras
    if "y" in found:
        given.setdefault("targets", found["y"])
    for name in ("ids", "channel_names", "times"):
        if name in given:
            given[name] = given[name].tolist()
    return from_sequences(found["x"], source=str(path.resolve()), name=path.stem, **given)


def _from_table(path: Path, reading: Reading, model: str | None) -> SequenceDataset:
    from dynamask_mlflow.cli.open_model import logged_settings
    from dynamask_mlflow.tracking.dataset import from_long_frame

    table = _read_table(path)
    named = {"--id": reading.id_column, "--time": reading.time_column}
    missing = [option for option, column in named.items() if column is None]
    if missing:
        raise ValueError(
            f"Expected {' and '.join(missing)} for the table {path}: which of its columns "
            f"{', '.join(map(str, table.columns))} name the sequence and the step?"
        )
    settings = None if model is None else logged_settings(model)
    wanted = list(settings.channel_names) if settings and settings.channel_names else None
    channels: str | list[str]
    if reading.values is not None:
        if reading.channels is None:
            raise ValueError(f"Expected --channels, the column of {path} that names the channel, beside --values.")
        channels = reading.channels
        table = table if wanted is None or channels not in table else _only(table, channels, wanted, path)
    elif reading.channels is not None:
        channels = [name.strip() for name in reading.channels.split(",") if name.strip()]
    elif wanted is not None and set(wanted) <= set(map(str, table.columns)):
        channels = wanted
    else:
        other = {reading.id_column, reading.time_column, reading.targets}
        channels = [str(name) for name in table.select_dtypes("number").columns if name not in other]
        click.echo(printable(f"Channels: {', '.join(channels)} (every numeric column; see --channels)."), err=True)
    return from_long_frame(
        table,
        id=str(reading.id_column),
        time=str(reading.time_column),
        channels=channels,
        values=reading.values,
        targets=reading.targets,
        targets_per_step=reading.targets_per_step,
        since_start=reading.since_start,
        fill=_fill(reading.fill),
        source=str(path.resolve()),
        name=path.name.split(".")[0],
    )


def _only(table: pd.DataFrame, column: str, wanted: list[str], path: Path) -> pd.DataFrame:
    """The rows of the model's channels; their order is that of the model."""
    import pandas as pd

    found = set(table[column].astype(str))
    missing = [name for name in wanted if name not in found]
    if missing:
        raise ValueError(
            f"Expected the model's channels in column {column} of {path}, but {', '.join(missing)} are not among "
            f"{', '.join(sorted(found)[:20])}."
        )
    kept = table[table[column].astype(str).isin(wanted)]
    return kept.assign(**{column: pd.Categorical(kept[column].astype(str), categories=wanted, ordered=True)})


def _read_table(path: Path) -> pd.DataFrame:
    import pandas as pd

    if path.name.lower().endswith(".parquet"):
        try:
            return pd.read_parquet(path)
        except ImportError as error:
            raise ValueError("Expected pyarrow to read Parquet: pip install 'dynamask_mlflow[data]'.") from error
    return pd.read_csv(path, sep="\t" if ".tsv" in path.name.lower() else ",")


def _fill(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text
