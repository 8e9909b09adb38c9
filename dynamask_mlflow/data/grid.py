"""Events to hour blocks: block h of a stay is the mean of its values in [h, h + 1) hours after admission."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.data.codes import CodeTable, spelling
from dynamask_mlflow.data.engine import Engine
from dynamask_mlflow.data.sources.base import HOUR, Source

if TYPE_CHECKING:
    import pyarrow as pa

# Values are summed as integers of this resolution: the sum does not depend on the order in which rows arrive,
# so that CSV, Parquet and Postgres, on any number of threads, give the same tensor bit for bit.
RESOLUTION = 1e6
TALLIES = ("read", "kept", "time", "not_numeric", "missing", "low", "high", "unit")


@dataclass(eq=False)
class Grid:
    """Sums and counts of (stay, hour, channel) cells, and for each code what became of its events."""

    sums: NDArray[np.int64]
    counts: NDArray[np.int32]
    tallies: dict[str, NDArray[np.int64]]
    units: dict[tuple[int, str], int] = field(default_factory=dict)

    @classmethod
    def empty(cls, stays: int, hours: int, channels: int, codes: int) -> Grid:
        shape = (stays, hours, channels)
        tallies = {name: np.zeros(codes, dtype=np.int64) for name in TALLIES}
        return cls(np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int32), tallies)

    def means(self, rows: int = 2048) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """The mean of each observed cell (0 elsewhere) and which cells were observed.

        The means take over the memory of the counts, and the sums are let go: call once.
        """
        observed = self.counts > 0
        values = self.counts.view(np.float32)
        for start in range(0, len(values), rows):
            part = slice(start, start + rows)
            divisor = np.maximum(self.counts[part], 1) * RESOLUTION
            values[part] = self.sums[part] / divisor
        self.sums = np.empty(0, dtype=np.int64)
        return values, observed


def fill_grid(engine: Engine, source: Source, cohort: str, codes: CodeTable, grid: Grid) -> Iterator[tuple[str, int]]:
    """Stream every event of the cohort into `grid`; yields (table, rows so far) for a progress bar."""
    import pyarrow as pa

    rows = pa.array(range(len(codes)), pa.int16())
    usual = pa.array([[unit.lower() for unit in units] for units in codes.units], pa.list_(pa.string()))
    listed = engine.register("codes", pa.table({"code": list(codes.codes), "code_row": rows, "usual": usual}))
    for label, events in source.events(engine, cohort, codes):
        sql = (
            "SELECT CAST(e.stay_row AS INTEGER) AS stay_row, c.code_row, e.micros, e.value, "
            # Only unusual units travel: text is dear, and most rows have the usual one.
            "CASE WHEN len(c.usual) = 0 OR list_contains(c.usual, lower(e.unit)) THEN NULL ELSE e.unit END "
            f"AS unit FROM ({events}) e JOIN {listed} c ON c.code = e.code"
        )
        read = 0
        for batch in engine.batches(sql, label):
            add_batch(grid, batch, codes)
            read += len(batch)
            yield label, read


def add_batch(grid: Grid, batch: pa.RecordBatch, codes: CodeTable) -> None:
    """Check a batch of events against the codes and add what is valid."""
    _, hours, channels = grid.sums.shape
    stay = batch.column("stay_row").to_numpy(zero_copy_only=False).astype(np.int64)
    row = batch.column("code_row").to_numpy(zero_copy_only=False).astype(np.int64)
    micros = batch.column("micros")
    value = batch.column("value").to_numpy(zero_copy_only=False)
    timed = micros.is_valid().to_numpy(zero_copy_only=False)
    block = micros.fill_null(0).to_numpy(zero_copy_only=False) // HOUR

    numeric = np.isfinite(value)
    missing = value == codes.missing[row]
    low = numeric & ~missing & (value <= codes.low[row])
    high = numeric & ~missing & (value > codes.high[row])
    kept = timed & numeric & ~missing & ~low & ~high & (block >= 0) & (block < hours)
    lost = np.flatnonzero(~kept)
    outcomes = {
        "time": ~timed[lost],
        "not_numeric": timed[lost] & ~numeric[lost],
        "missing": timed[lost] & missing[lost],
        "low": timed[lost] & low[lost],
        "high": timed[lost] & high[lost],
    }
    read = np.bincount(row, minlength=len(codes))
    grid.tallies["read"] += read
    grid.tallies["kept"] += read - np.bincount(row[lost], minlength=len(codes))
    for name, chosen in outcomes.items():
        grid.tallies[name] += np.bincount(row[lost[chosen]], minlength=len(codes))
    _tally_units(grid, batch, row, codes)

    if len(lost):
        stay, row, block, value = stay[kept], row[kept], block[kept], value[kept]
    cell = (stay * hours + block) * channels + codes.channel[row]
    converted = np.rint((value * codes.scale[row] + codes.offset[row]) * RESOLUTION).astype(np.int64)
    np.add.at(grid.sums.reshape(-1), cell, converted)
    np.add.at(grid.counts.reshape(-1), cell, np.int32(1))  # a Python 1 would take a path 60 times slower


def _tally_units(grid: Grid, batch: pa.RecordBatch, row: NDArray[np.int64], codes: CodeTable) -> None:
    column = batch.column("unit")
    if column.null_count == len(column):
        return
    encoded = column.dictionary_encode()
    names = encoded.dictionary.to_pylist()
    index = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    pairs, counts = _count_pairs(row[index >= 0], index[index >= 0], len(names))
    for (code, unit), count in zip(pairs, counts, strict=True):
        accepted = {spelling(known) for known in codes.units[code]}
        if accepted and spelling(names[unit]) not in accepted:
            grid.tallies["unit"][code] += count
            key = (code, names[unit])
            grid.units[key] = grid.units.get(key, 0) + count


def _count_pairs(
    first: NDArray[np.int64], second: NDArray[np.int64], width: int
) -> tuple[Iterable[tuple[int, int]], list[int]]:
    table = np.bincount(first * max(width, 1) + second) if len(first) else np.zeros(0, dtype=np.int64)
    seen = np.flatnonzero(table)
    return [(int(key) // width, int(key) % width) for key in seen], [int(table[key]) for key in seen]
