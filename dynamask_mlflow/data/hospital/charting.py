"""What is written down: vitals hourly with gaps, labs in panels, by round and by need, in two systems."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.data.hospital.config import CHARTED_HOURS, HospitalConfig
from dynamask_mlflow.data.hospital.people import People

FloatArray = NDArray[np.float64]
HOURS = np.arange(CHARTED_HOURS)

# channel -> ((CareVue ids), (MetaVision ids), unit, decimals); the second id is the other device or site.
VITAL_CODES: dict[str, tuple[tuple[int, int], tuple[int, int], str, int]] = {
    "HeartRate": ((211, 211), (220045, 220045), "bpm", 0),
    "SysBP": ((455, 51), (220179, 220050), "mmHg", 0),
    "DiasBP": ((8441, 8368), (220180, 220051), "mmHg", 0),
    "MeanBP": ((456, 52), (220181, 220052), "mmHg", 0),
    "RespRate": ((618, 615), (220210, 224690), "insp/min", 0),
    "SpO2": ((646, 646), (220277, 220277), "%", 0),
    "Glucose": ((811, 807), (225664, 220621), "mg/dL", 0),
    "Temp": ((678, 676), (223761, 223762), "", 1),
}
# Panel -> (draws a day, share of stays that have it, how much more often in need, channels).
PANELS: dict[str, tuple[float, float, float, tuple[str, ...]]] = {
    "chemistry": (1.5, 1.0, 1.6, ("SODIUM", "POTASSIUM", "CHLORIDE", "BICARBONATE", "BUN", "CREATININE",
                                  "GLUCOSE", "ANION GAP", "MAGNESIUM", "PHOSPHATE")),
    "count": (1.3, 1.0, 1.3, ("HEMATOCRIT", "HEMOGLOBIN", "WBC", "PLATELET")),
    "clotting": (0.9, 0.9, 1.2, ("PT", "PTT", "INR")),
    "lactate": (1.0, 0.85, 5.0, ("LACTATE",)),
    "liver": (0.45, 0.6, 1.0, ("BILIRUBIN", "ALBUMIN")),
}  # fmt: skip
LAB_CODES: dict[str, tuple[int, str, int]] = {
    "ANION GAP": (50868, "mEq/L", 0), "ALBUMIN": (50862, "g/dL", 1), "BICARBONATE": (50882, "mEq/L", 0),
    "BILIRUBIN": (50885, "mg/dL", 1), "CREATININE": (50912, "mg/dL", 1), "CHLORIDE": (50902, "mEq/L", 0),
    "GLUCOSE": (50931, "mg/dL", 0), "HEMATOCRIT": (51221, "%", 1), "HEMOGLOBIN": (51222, "g/dL", 1),
    "LACTATE": (50813, "mmol/L", 1), "MAGNESIUM": (50960, "mg/dL", 1), "PHOSPHATE": (50970, "mg/dL", 1),
    "PLATELET": (51265, "K/uL", 0), "POTASSIUM": (50971, "mEq/L", 1), "PTT": (51275, "sec", 1),
    "INR": (51237, "", 1), "PT": (51274, "sec", 1), "SODIUM": (50983, "mEq/L", 0), "BUN": (51006, "mg/dL", 0),
    "WBC": (51301, "K/uL", 1),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Rows:
    """Events in long form: stay, seconds since its admission, code, value, unit, and the flag for errors."""

    stay: NDArray[np.int64]
    second: NDArray[np.int64]
    itemid: NDArray[np.int64]
    value: FloatArray
    unit: NDArray[np.int64]
    error: NDArray[np.int64]


def chart_vitals(
    people: People,
    config: HospitalConfig,
    signals: dict[str, FloatArray],
    charted: FloatArray,
    rng: np.random.Generator,
) -> tuple[Rows, list[str]]:
    """Vitals on the clock hour, with misses, trips off the unit, extra readings and a few absurd ones."""
    n = len(people)
    away = _trips(n, rng)
    into_hour = 3600 - (people.intime - people.intime.astype("datetime64[h]")).astype(np.int64)
    clock_hour = (people.intime.astype("datetime64[h]").astype(np.int64) % 24)[:, None] + 1 + HOURS[None, :]
    present = (HOURS[None, :] < charted[:, None]) & ~away
    arterial = rng.random(n) < 0.4
    units = sorted({unit for *_, unit, _ in VITAL_CODES.values()} | {"?C", "?F", "Deg. C", "Deg. F"})
    parts = []
    for channel, (carevue, metavision, unit, decimals) in VITAL_CODES.items():
        chance = np.full((n, CHARTED_HOURS), 0.955)
        if channel == "Temp":
            chance = np.where(clock_hour % 4 == 0, 0.92, 0.1)
        elif channel == "Glucose":
            chance = np.where(clock_hour % 6 == 0, 0.75, 0.09)
        elif channel == "SpO2":
            chance = np.where(config.touched("spo2_charting", people.month)[:, None], chance / 2, chance)
        for extra in (1.0, 0.06):
            stay, hour = np.nonzero(present & (rng.random((n, CHARTED_HOURS)) < chance * extra))
            jitter = rng.integers(0, 240, len(stay)) if extra == 1.0 else rng.integers(300, 3300, len(stay))
            second = hour * 3600 + (into_hour[stay] + jitter) % 3600
            value = signals[channel][stay, hour]
            second_id = arterial[stay] if channel in ("SysBP", "DiasBP", "MeanBP") else rng.random(len(stay)) < 0.08
            if channel == "Temp":
                second_id = rng.random(len(stay)) < 0.3
                fahrenheit_as_celsius = config.touched("fahrenheit", people.month)[stay]
                second_id |= fahrenheit_as_celsius
                value = np.where(second_id & ~fahrenheit_as_celsius, value, value * 1.8 + 32)
            column = second_id.astype(np.int64)
            code = np.where(people.metavision[stay], np.array(metavision)[column], np.array(carevue)[column])
            if channel == "Temp":
                names = np.where(
                    people.metavision[stay],
                    *(np.array(p)[column] for p in (("?F", "?C"), ("Deg. F", "Deg. C"))),
                )
                unit_code = np.searchsorted(units, names)
            else:
                unit_code = np.full(len(stay), units.index(unit))
            value = np.round(value, decimals)
            if channel == "SpO2":
                value = np.minimum(value, 100)
            parts.append((stay, second, code, value, unit_code))
    rows = _rows(parts, rng, errors=0.001)
    _slips(rows, rng)
    return rows, units


def draw_labs(
    people: People,
    config: HospitalConfig,
    signals: dict[str, FloatArray],
    charted: FloatArray,
    unwell: NDArray[np.bool_],
    rng: np.random.Generator,
) -> tuple[Rows, list[str]]:
    """Panels at the morning round (about 4 o'clock), in between at random, more often while `unwell`."""
    n = len(people)
    minute = rng.integers(0, 60, (n, CHARTED_HOURS))
    clock_hour = (people.intime.astype("datetime64[h]").astype(np.int64) % 24)[:, None] + HOURS[None, :]
    morning = np.exp(-0.5 * ((clock_hour % 24 - 4) / 1.2) ** 2)
    shift = np.where(config.touched("lactate_assay", people.month), 1.0, 0.0)
    units = sorted({unit for _, unit, _ in LAB_CODES.values()})
    parts = []
    for daily, share, urgency, channels in PANELS.values():
        has = rng.random(n) < share
        # Half of the draws of a day fall into the morning round, the rest anywhere.
        rate = daily * (0.5 * morning / 3.0 + 0.5 / 24)
        rate = np.where(unwell, np.maximum(rate, 0.5 * daily / 24) * urgency, rate)
        rate[:, 0] = 0.75
        chosen = (HOURS[None, :] < charted[:, None]) & has[:, None] & (rng.random((n, CHARTED_HOURS)) < rate)
        stay, hour = np.nonzero(chosen)
        second = hour * 3600 + minute[stay, hour] * 60
        for channel in channels:
            code, unit, decimals = LAB_CODES[channel]
            kept = rng.random(len(stay)) < 0.96
            noise = 1 + 0.015 * rng.standard_normal(kept.sum())
            value = signals[channel][stay[kept], hour[kept]] * noise
            if channel == "LACTATE":
                value = value + shift[stay[kept]]
            value = np.maximum(np.round(value, decimals), 10.0**-decimals)
            size = len(value)
            parts.append((stay[kept], second[kept], np.full(size, code), value, np.full(size, units.index(unit))))
    return _rows(parts, rng, errors=0.0), units


def _rows(parts: list[tuple[Any, ...]], rng: np.random.Generator, errors: float) -> Rows:
    stay, second, itemid, value, unit = (np.concatenate(pieces) for pieces in zip(*parts, strict=True))
    error = (rng.random(len(stay)) < errors).astype(np.int64)
    return Rows(stay=stay, second=second, itemid=itemid, value=value, unit=unit, error=error)


def _trips(n: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Hours in which a patient is in the operating theatre or at the scanner and nothing is charted."""
    away = np.zeros((n, CHARTED_HOURS), dtype=bool)
    for _ in range(3):
        gone = rng.random(n) < 0.45
        start = rng.integers(1, CHARTED_HOURS, n)
        length = rng.integers(1, 5, n)
        away |= gone[:, None] & (HOURS[None, :] >= start[:, None]) & (HOURS[None, :] < (start + length)[:, None])
    return away


def _slips(rows: Rows, rng: np.random.Generator) -> None:
    """One reading in five thousand is a slip: a zero from a lost sensor, or a value with too many digits."""
    slips = np.flatnonzero(rng.random(len(rows.value)) < 0.0002)
    rows.value[slips] = np.where(rng.random(len(slips)) < 0.6, 0.0, rows.value[slips] * 101)
