"""Parquet to tensors for 40,000 stays and 48 million events: time and peak memory, ours against pandas in
chunks.

`python -m benchmarks.data_build --events 48000000` writes the tables once, then runs both readers in
processes of their own, so that the peak memory of each is its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

HOURS = 48
EVENTS_A_HOUR = 25
VITALS = (220045, 220179, 220180, 220181, 220210, 220277, 225664, 223762)
LABS = (50868, 50862, 50882, 50885, 50912, 50902, 50931, 51221, 51222, 50813, 50960, 50970, 51265, 50971,
        51275, 51237, 51274)  # fmt: skip
UNITS = dict.fromkeys((*VITALS, *LABS), "mg/dL") | {
    220045: "bpm", 220179: "mmHg", 220180: "mmHg", 220181: "mmHg", 220210: "insp/min", 220277: "%",
    223762: "?C",
    50868: "mEq/L", 50862: "g/dL", 50882: "mEq/L", 50902: "mEq/L", 51221: "%", 51222: "g/dL", 50813: "mmol/L",
    51265: "K/uL", 50971: "mEq/L", 51275: "sec", 51274: "sec",
}  # fmt: skip
MEAN = 40.0  # within the range of every code used
MEMORY_BAR = 2_000_000_000


def run(events: int = 48_000_000, folder: Path | None = None) -> dict[str, Any]:
    """Write the tables, build the tensor both ways, compare the tensors and return the figures."""
    with tempfile.TemporaryDirectory() as temporary:
        where = folder or Path(temporary)
        stays = max(events // (HOURS * EVENTS_A_HOUR), 1)
        write_hospital(where, stays)
        size = sum(file.stat().st_size for file in where.glob("*.parquet"))
        ours = _measured("ours", where)
        pandas = _measured("pandas", where)
    same = abs(ours["checksum"] - pandas["checksum"]) <= 1e-6 * abs(pandas["checksum"])
    return {
        "events": stays * HOURS * EVENTS_A_HOUR,
        "stays": stays,
        "parquet_bytes": size,
        "seconds": ours["seconds"],
        "pandas_seconds": pandas["seconds"],
        "cpu_seconds": ours["cpu_seconds"],
        "pandas_cpu_seconds": pandas["cpu_seconds"],
        "times_faster_than_pandas": pandas["seconds"] / ours["seconds"],
        "peak_bytes": ours["peak_bytes"],
        "pandas_peak_bytes": pandas["peak_bytes"],
        "within_2_gb": ours["peak_bytes"] <= MEMORY_BAR,
        "same_cells": same,
    }


def write_hospital(folder: Path, stays: int) -> None:
    """MIMIC-III-shaped tables: every hour of every stay has one event of each of 25 codes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    subject = np.arange(stays)
    intime = np.datetime64("2150-01-01T00:00:00") + rng.integers(0, 10**8, stays) * np.timedelta64(1, "s")
    pq.write_table(
        pa.table({"subject_id": subject, "gender": ["F"] * stays, "dob": intime - np.timedelta64(60 * 365, "D")}),
        folder / "PATIENTS.parquet",
    )
    died = (subject % 8 == 0).astype(np.int64)
    death = np.where(died == 1, intime + np.timedelta64(90, "h"), np.datetime64("NaT", "s"))
    pq.write_table(
        pa.table({"hadm_id": subject, "deathtime": death, "hospital_expire_flag": died}),
        folder / "ADMISSIONS.parquet",
    )
    pq.write_table(
        pa.table(
            {
                "subject_id": subject,
                "hadm_id": subject,
                "icustay_id": subject,
                "intime": intime,
                "outtime": intime + np.timedelta64(80, "h"),
                "dbsource": ["metavision"] * stays,
            }
        ),
        folder / "ICUSTAYS.parquet",
    )
    for name, codes in (("CHARTEVENTS", VITALS), ("LABEVENTS", LABS)):
        writer = None
        for start in range(0, stays, 1000):
            table = _events(subject[start : start + 1000], intime[start : start + 1000], codes, rng)
            writer = writer or pq.ParquetWriter(folder / f"{name}.parquet", table.schema, compression="zstd")
            writer.write_table(table)
        if writer is not None:
            writer.close()


def _events(subject: NDArray[Any], intime: NDArray[Any], codes: tuple[int, ...], rng: np.random.Generator) -> Any:
    import pyarrow as pa

    stay, hour, code = (
        axis.reshape(-1) for axis in np.meshgrid(np.arange(len(subject)), np.arange(HOURS), codes, indexing="ij")
    )
    second = hour * 3600 + rng.integers(0, 60, len(hour)) * 60
    names = sorted(set(UNITS.values()))
    index = np.zeros(max(UNITS) + 1, dtype=np.int8)
    index[list(UNITS)] = [names.index(unit) for unit in UNITS.values()]
    unit = pa.DictionaryArray.from_arrays(pa.array(index[code]), pa.array(names))
    return pa.table(
        {
            "subject_id": subject[stay],
            "itemid": code.astype(np.int32),
            "charttime": intime[stay] + second * np.timedelta64(1, "s"),
            "valuenum": np.round(rng.uniform(MEAN - 5, MEAN + 5, len(hour)), 1),
            "valueuom": unit,
        }
    )


def build_ours(folder: Path) -> float:
    """The whole build: cohort, blocks, split, statistics, fill, standardisation."""
    from dynamask_mlflow.data import build, open_source

    dataset = build(open_source("mimic3", str(folder)))
    measured = [dataset.channel_names.index(name) for name in ("HeartRate", "CREATININE")]
    mean, std = (np.asarray(values)[measured] for values in (dataset.preprocessing.mean, dataset.preprocessing.std))
    return float((dataset.x[..., measured].astype(np.float64) * std + mean).sum())


def build_pandas(folder: Path) -> float:
    """The same blocks, fill and standardisation in pandas, two million rows at a time."""
    import pandas as pd
    import pyarrow.parquet as pq

    stays = pd.read_parquet(folder / "ICUSTAYS.parquet", columns=["subject_id", "intime"])
    stays["row"] = np.arange(len(stays))
    codes = {code: column for column, code in enumerate((*LABS, *VITALS))}
    shape = (len(stays), HOURS, len(codes))
    total, count = np.zeros(shape), np.zeros(shape)
    for name in ("LABEVENTS", "CHARTEVENTS"):
        file = pq.ParquetFile(folder / f"{name}.parquet")
        columns = ["subject_id", "itemid", "charttime", "valuenum"]
        for batch in file.iter_batches(batch_size=2_000_000, columns=columns):
            events = batch.to_pandas().merge(stays, on="subject_id")
            events["channel"] = events["itemid"].map(codes)
            events["hour"] = (events["charttime"] - events["intime"]) // pd.Timedelta(hours=1)
            valid = events["hour"].between(0, HOURS - 1) & events["valuenum"].between(0, 1000)
            cells = events[valid].groupby(["row", "hour", "channel"])["valuenum"].agg(["sum", "count"])
            place = tuple(cells.index.get_level_values(level).to_numpy() for level in range(3))
            total[place] += cells["sum"].to_numpy()
            count[place] += cells["count"].to_numpy()
    x = np.where(count > 0, total / np.maximum(count, 1), np.nan).reshape(-1, len(codes))
    frame = pd.DataFrame(x).groupby(np.repeat(np.arange(len(stays)), HOURS)).ffill()
    mean, std = frame.mean(), frame.std()
    standard = ((frame.fillna(mean) - mean) / std).to_numpy(dtype=np.float32)
    measured = [codes[220045], codes[50912]]
    raw = standard[:, measured].astype(np.float64) * std.to_numpy()[measured] + mean.to_numpy()[measured]
    return float(raw.sum())


def _measured(which: str, folder: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.data_build", "--child", which, "--folder", str(folder)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path(__file__).parents[1])
    answer: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return answer


def _child(which: str, folder: Path) -> None:
    import resource

    started = time.perf_counter()
    checksum = {"ours": build_ours, "pandas": build_pandas}[which](folder)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    figures = {
        "seconds": time.perf_counter() - started,
        "cpu_seconds": time.process_time(),
        "peak_bytes": peak,
        "checksum": checksum,
    }
    print(json.dumps(figures))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=48_000_000)
    parser.add_argument("--folder", type=Path, default=None, help="keep the tables here")
    parser.add_argument("--child", choices=("ours", "pandas"), default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        _child(options.child, options.folder)
        return
    print(json.dumps(run(options.events, options.folder), indent=2))


if __name__ == "__main__":
    main()
