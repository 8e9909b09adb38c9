"""What was planted: motifs, salient cells, true risks and the calendar, beside the tables."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.data.dataset import StayDataset
from dynamask_mlflow.data.errors import DataError
from dynamask_mlflow.data.hospital.config import CHARTED_HOURS, START, HospitalConfig
from dynamask_mlflow.data.hospital.motifs import MOTIFS, WINDOW, Plan
from dynamask_mlflow.data.hospital.outcome import Outcome
from dynamask_mlflow.data.hospital.people import People
from dynamask_mlflow.data.preprocess import carry_forward

if TYPE_CHECKING:
    import pyarrow as pa

FOLDER = "truth"
# A fall of the mean pressure with a narrower pulse is seen in all three pressures.
_SEEN_AS = {"PulsePressure": ("SysBP",), "MeanBP": ("MeanBP", "SysBP", "DiasBP")}


def channels_of(motif: str) -> tuple[str, ...]:
    """The channels in which a motif shows."""
    seen = [channel for signal in MOTIFS[motif] for channel in _SEEN_AS.get(signal, (signal,))]
    return tuple(dict.fromkeys(seen))


@dataclass(frozen=True, eq=False)
class Truth:
    """The planted truth of a hospital.

    Attributes:
        stay_ids: (M,) of every planted motif. motif: its name. start, stop: hours. matters: True if it raises
            the risk.
        risk_ids, risk: every stay and its true risk of death after 48 h.
        calendar: the changes, with the months they begin and end.
    """

    stay_ids: NDArray[np.int64]
    motif: NDArray[np.str_]
    start: NDArray[np.float64]
    stop: NDArray[np.float64]
    severity: NDArray[np.float64]
    matters: NDArray[np.bool_]
    risk_ids: NDArray[np.int64]
    risk: NDArray[np.float64]
    calendar: dict[str, Any]

    def risk_of(self, ids: NDArray[Any]) -> NDArray[np.float64]:
        """The true risk of each stay in `ids`."""
        position = np.searchsorted(self.risk_ids, ids)
        return self.risk[position]

    def salient_cells(self, dataset: StayDataset) -> NDArray[np.bool_]:
        """(N, T, d): cells of the tensor whose value was measured while a motif that matters was active.

        A value that is carried on is evidence for as long as it stands, so these cells follow the causal
        fill.
        """
        active = np.zeros(dataset.x.shape, dtype=np.float32)
        row_of = {int(stay): row for row, stay in enumerate(dataset.ids)}
        column_of = {name: column for column, name in enumerate(dataset.channel_names)}
        hours = Plan(self.stay_ids, self.motif, self.start, self.stop, self.severity).active()
        for index in np.flatnonzero(self.matters):
            row = row_of.get(int(self.stay_ids[index]))
            if row is not None:
                columns = [column_of[c] for c in channels_of(str(self.motif[index])) if c in column_of]
                during = hours[index, : dataset.x.shape[1]]
                active[row][:, columns] = np.maximum(active[row][:, columns], during[:, None])
        shown = carry_forward(active, dataset.observed, np.zeros(dataset.x.shape[2], dtype=np.float32))
        return np.asarray(shown > 0)


def write_truth(folder: Path, config: HospitalConfig, people: People, plan: Plan, outcome: Outcome) -> None:
    """`truth/motifs.parquet`, `truth/cells.parquet`, `truth/risk.parquet`, `truth/calendar.json`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    target = folder / FOLDER
    target.mkdir()
    motifs = pa.table(
        {
            "icustay_id": people.icustay[plan.stay],
            "motif": plan.motif,
            "start": plan.start,
            "stop": plan.stop,
            "severity": plan.severity,
            "matters": plan.matters,
        }
    )
    risk = pa.table({"icustay_id": people.icustay, "month": people.month, "risk": outcome.risk})
    pq.write_table(motifs, target / "motifs.parquet")
    pq.write_table(risk, target / "risk.parquet")
    pq.write_table(_cells(people, plan), target / "cells.parquet")
    calendar = {
        "settings": asdict(config),
        "first_month": str(START.astype("datetime64[M]")),
        "months": [str(START.astype("datetime64[M]") + month) for month in range(config.months)],
        "drift": [asdict(drift) for drift in config.calendar],
    }
    (target / "calendar.json").write_text(json.dumps(calendar, indent=2), encoding="utf-8")


def load_truth(folder: str | Path) -> Truth:
    """Read the truth beside the tables in `folder`."""
    import pyarrow.parquet as pq

    target = Path(folder) / FOLDER
    if not (target / "calendar.json").is_file():
        raise DataError(f"Expected the truth of a synthetic hospital in {target}, but there is none.")
    motifs = pq.read_table(target / "motifs.parquet").to_pydict()
    risk = pq.read_table(target / "risk.parquet").to_pydict()
    return Truth(
        stay_ids=np.asarray(motifs["icustay_id"], dtype=np.int64),
        motif=np.asarray(motifs["motif"], dtype=np.str_),
        start=np.asarray(motifs["start"]),
        stop=np.asarray(motifs["stop"]),
        severity=np.asarray(motifs["severity"]),
        matters=np.asarray(motifs["matters"], dtype=bool),
        risk_ids=np.asarray(risk["icustay_id"], dtype=np.int64),
        risk=np.asarray(risk["risk"]),
        calendar=json.loads((target / "calendar.json").read_text(encoding="utf-8")),
    )


def _cells(people: People, plan: Plan) -> pa.Table:
    """The salient cells before anything is charted: stay, hour, channel, for the motifs that matter."""
    import pyarrow as pa

    active = plan.active()[:, : min(WINDOW, CHARTED_HOURS)]
    stay, hour, channel = [], [], []
    for motif in MOTIFS:
        names = channels_of(motif)
        for index in np.flatnonzero(plan.matters & (plan.motif == motif)):
            hours = np.flatnonzero(active[index])
            for name in names:
                stay.append(np.full(len(hours), people.icustay[plan.stay[index]]))
                hour.append(hours)
                channel += [name] * len(hours)
    empty = np.zeros(0, dtype=np.int64)
    return pa.table(
        {
            "icustay_id": np.concatenate([*stay, empty]),
            "hour": np.concatenate([*hour, empty]),
            "channel": pa.array(channel, pa.string()),
        }
    )
