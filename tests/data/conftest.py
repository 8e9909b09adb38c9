"""Real tables where they are found, and a hospital of a few stays that a test can bend as it likes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from open_data import open_data

pytest.importorskip("duckdb")

INTIME = pd.Timestamp("2150-03-01 10:20:00")


@pytest.fixture(scope="session")
def mimic3_demo() -> Path:
    return open_data("mimic3-demo")


@pytest.fixture(scope="session")
def physionet() -> Path:
    return open_data("physionet2012-set-a")


def hospital(stays: int = 40) -> dict[str, pd.DataFrame]:
    """Like MIMIC-III: heart rate 60 + stay in hours 0 and 5, creatinine 1 in hour 2; every fourth dies."""
    number = pd.Series(range(stays))
    intime = INTIME + pd.to_timedelta(number, unit="D")
    dies = number % 4 == 0
    chart = pd.concat(
        [
            pd.DataFrame({"subject_id": 100 + number, "itemid": 220045, "charttime": intime +
            pd.Timedelta(hours=h),
                          "valuenum": 60.0 + number, "valueuom": "bpm", "error": 0})
            for h in (0.5, 5.25)
        ]
    )  # fmt: skip
    return {
        "PATIENTS": pd.DataFrame({"subject_id": 100 + number, "gender": "F", "dob": pd.Timestamp("2090-01-01")}),
        "ADMISSIONS": pd.DataFrame(
            {
                "hadm_id": 1000 + number,
                "deathtime": (intime + pd.Timedelta(hours=100)).where(dies),
                "hospital_expire_flag": dies.astype(int),
                "ethnicity": "WHITE",
            }
        ),
        "ICUSTAYS": pd.DataFrame(
            {
                "subject_id": 100 + number,
                "hadm_id": 1000 + number,
                "icustay_id": 10000 + number,
                "intime": intime,
                "outtime": intime + pd.Timedelta(hours=72),
                "dbsource": "metavision",
            }
        ),
        "CHARTEVENTS": chart,
        "LABEVENTS": pd.DataFrame(
            {
                "subject_id": 100 + number,
                "itemid": 50912,
                "charttime": intime + pd.Timedelta(hours=2.1),
                "valuenum": 1.0 + number / 100,
                "valueuom": "mg/dL",
            }
        ),
    }


def write(tables: dict[str, pd.DataFrame], folder: Path, suffix: str = ".csv") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, frame in tables.items():
        if suffix == ".parquet":
            frame.to_parquet(folder / f"{name}{suffix}", index=False)
        else:
            frame.to_csv(folder / f"{name}{suffix}", index=False)
    return folder


@pytest.fixture
def make_hospital() -> Callable[[int], dict[str, pd.DataFrame]]:
    return hospital


@pytest.fixture
def tables() -> dict[str, pd.DataFrame]:
    return hospital()


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., str]:
    """Write tables into a fresh folder and return its path."""

    def _write(frames: dict[str, pd.DataFrame], suffix: str = ".csv") -> str:
        return str(write(frames, tmp_path / f"tables{len(list(tmp_path.iterdir()))}", suffix))

    return _write
