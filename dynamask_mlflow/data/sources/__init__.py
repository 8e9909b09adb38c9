"""Sources by name: where hospital tables come from."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path

from dynamask_mlflow.data.errors import DataError
from dynamask_mlflow.data.postgres import PostgresTables
from dynamask_mlflow.data.sources.base import STAY_COLUMNS, Source
from dynamask_mlflow.data.sources.long import LongTable
from dynamask_mlflow.data.sources.meds import Meds
from dynamask_mlflow.data.sources.mimic import Mimic
from dynamask_mlflow.data.sources.ricu import Ricu
from dynamask_mlflow.data.tables import FolderTables, Tables

__all__ = ["SOURCES", "STAY_COLUMNS", "LongTable", "Meds", "Mimic", "Ricu", "Source", "open_source"]

SOURCES = ("mimic3", "mimic4", "meds", "ricu", "long", "synthetic")
_FOLDERS = {"mimic3": ("",), "mimic4": ("", "hosp", "icu"), "synthetic": ("",)}
_SCHEMAS = {
    "mimic3": ("mimiciii", "public"),
    "mimic4": ("mimiciv_icu", "mimiciv_hosp", "public"),
    "synthetic": ("public",),
}


def open_source(
    name: str,
    path: str,
    *,
    stays: str | None = None,
    columns: Mapping[str, str] | None = None,
    clock: str = "auto",
    schemas: tuple[str, ...] | None = None,
    one_calendar: bool = False,
) -> Source:
    """Open a source.

    Args:
        name: "mimic3", "mimic4", "meds", "ricu", "long" or "synthetic".
        path: a folder, a file (long), or `postgresql://...` for MIMIC in Postgres.
        stays: for "long": the table of stays. For "meds": label files, as ACES writes them.
        columns: for "long": canonical name to the table's own.
        clock: for "long" and "ricu": what the time column holds, one of `dynamask_mlflow.data.clock.CLOCKS`.
        schemas: for Postgres: where to look for tables.
        one_calendar: dates are comparable across patients (a live feed): windows go by month of admission.

    >>> from dynamask_mlflow.data.hospital import HospitalConfig, synthesize
    >>> tables = synthesize("tables", HospitalConfig(stays=80), overwrite=True)
    >>> open_source("synthetic", str(tables)).name
    'synthetic'
    """
    if name not in SOURCES:
        near = difflib.get_close_matches(name, SOURCES, n=1, cutoff=0.5)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise DataError(f"Expected a source, one of {', '.join(SOURCES)}, but got {name!r}.{hint}")
    if name == "long":
        return LongTable(Path(path), Path(stays) if stays else None, dict(columns or {}), clock)
    if columns:
        raise DataError(f"Expected columns with the source long only, but got them with {name}.")
    if name == "meds":
        return Meds(Path(path), one_calendar, Path(stays) if stays else None)
    if stays:
        raise DataError(f"Expected stays with the sources long and meds only, but got them with {name}.")
    if name == "ricu":
        return Ricu(Path(path), clock)
    tables: Tables
    if path.startswith(("postgresql://", "postgres://")):
        tables = PostgresTables(path, schemas or _SCHEMAS[name])
    else:
        tables = FolderTables(Path(path), _FOLDERS[name])
    release = "mimic3" if name == "synthetic" else name
    return Mimic(tables, release, one_calendar=one_calendar or name == "synthetic")
