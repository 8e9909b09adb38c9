"""A synthetic hospital worth auditing: MIMIC-III-shaped tables whose saliency, risk and drift are known."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import numpy as np

from dynamask_mlflow.data.errors import DataError
from dynamask_mlflow.data.hospital.charting import chart_vitals, draw_labs
from dynamask_mlflow.data.hospital.config import CALENDAR, CHARTED_HOURS, Drift, HospitalConfig
from dynamask_mlflow.data.hospital.motifs import DETERIORATIONS, apply, log_odds, plant
from dynamask_mlflow.data.hospital.outcome import conclude
from dynamask_mlflow.data.hospital.people import admit
from dynamask_mlflow.data.hospital.physiology import baseline_signals, settle
from dynamask_mlflow.data.hospital.tables import dictionaries, event_table, hours_of, stay_tables, write_table
from dynamask_mlflow.data.hospital.truth import Truth, load_truth, write_truth

__all__ = ["CALENDAR", "Drift", "HospitalConfig", "Truth", "load_truth", "synthesize"]


def synthesize(out: str | Path, config: HospitalConfig | None = None, overwrite: bool = False) -> Path:
    """Write the tables of a hospital, and its truth in `truth/`, into `out`, whole or not at all."""
    config = config or HospitalConfig()
    target = Path(out)
    if target.exists() and not overwrite:
        raise DataError(f"Expected no hospital at {target}, but there is something; ask to overwrite it.")
    if target.exists() and not (target / "truth" / "calendar.json").is_file() and any(target.iterdir()):
        raise DataError(f"Expected a synthetic hospital or nothing at {target}, but there is something else.")
    # One stream of random numbers for each concern: changing one leaves the others as they were.
    streams = [np.random.default_rng([config.seed, concern]) for concern in range(6)]
    people = admit(config, streams[0])
    plan = plant(people, streams[1])
    outcome = conclude(log_odds(plan, people, config), streams[2])
    signals = baseline_signals(people, streams[3])
    apply(plan, signals)
    signals = settle(signals)
    charted = np.minimum(outcome.los_hours, CHARTED_HOURS)
    sick = np.isin(plan.motif, DETERIORATIONS)
    unwell = hours_of(plan.stay[sick], plan.active()[sick], len(people))
    vitals, vital_units = chart_vitals(people, config, signals, charted, streams[4])
    labs, lab_units = draw_labs(people, config, signals, charted, unwell, streams[5])

    target.parent.mkdir(parents=True, exist_ok=True)
    building = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.building-"))
    try:
        tables = stay_tables(people, outcome) | dictionaries()
        tables["CHARTEVENTS"] = event_table(people, vitals, vital_units, True, streams[4])
        tables["LABEVENTS"] = event_table(people, labs, lab_units, False, streams[5])
        for name, table in tables.items():
            write_table(table, building, name, config.format)
        write_truth(building, config, people, plan, outcome)
        building.chmod(0o755)
        if target.exists():
            shutil.rmtree(target)
        building.rename(target)
    except BaseException:
        shutil.rmtree(building, ignore_errors=True)
        raise
    return target
