"""Bodies: hourly signals around a patient's own baseline, wandering (AR(1)) and swinging with the day."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.data.hospital.config import CHARTED_HOURS
from dynamask_mlflow.data.hospital.people import People

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Signal:
    """Baselines N(mean, between), deviations of standard deviation `within` with hourly correlation `phi`.

    `log` signals have these on the logarithm. `swing` is the amplitude of the daily cycle, highest at hour
    `peak`.
    """

    mean: float
    between: float
    within: float
    phi: float = 0.85
    log: bool = False
    swing: float = 0.0
    peak: float = 17.0
    low: float = 0.0
    high: float = 1e4


# Means and deviations, between and within stays, are near those of the MIMIC-III demo and of PhysioNet 2012.
SIGNALS = {
    "MeanBP": Signal(80, 9.5, 7.5, 0.7, swing=2.0, peak=15, low=30, high=160),
    "PulsePressure": Signal(59, 12, 7.0, 0.75, low=12, high=120),
    "HeartRate": Signal(85, 14, 7.5, 0.8, swing=3.0, peak=16, low=35, high=190),
    "RespRate": Signal(19.3, 3.5, 2.8, 0.6, swing=0.6, peak=15, low=6, high=50),
    "SpO2": Signal(97.2, 1.5, 1.5, 0.5, low=60, high=100),
    "Temp": Signal(37.0, 0.45, 0.4, 0.9, swing=0.25, peak=18, low=33, high=41.5),
    "Glucose": Signal(np.log(132), 0.25, 0.24, 0.8, log=True, swing=0.04, peak=13, low=30, high=900),
    "ANION GAP": Signal(14.0, 3.0, 1.5, 0.95, low=3, high=40),
    "ALBUMIN": Signal(2.95, 0.52, 0.18, 0.97, low=1, high=5.5),
    "BICARBONATE": Signal(23.8, 4.1, 1.7, 0.95, low=6, high=48),
    "BILIRUBIN": Signal(np.log(0.9), 0.9, 0.15, 0.97, log=True, low=0.1, high=45),
    "CREATININE": Signal(np.log(1.0), 0.42, 0.12, 0.97, log=True, low=0.2, high=15),
    "CHLORIDE": Signal(105, 5.0, 1.9, 0.96, low=75, high=135),
    "HEMATOCRIT": Signal(30.5, 4.0, 1.9, 0.95, low=14, high=58),
    "LACTATE": Signal(np.log(1.7), 0.35, 0.25, 0.92, log=True, low=0.4, high=25),
    "MAGNESIUM": Signal(2.03, 0.29, 0.2, 0.94, low=0.8, high=5),
    "PHOSPHATE": Signal(3.5, 1.0, 0.5, 0.94, low=0.8, high=12),
    "PLATELET": Signal(np.log(182), 0.46, 0.13, 0.97, log=True, low=8, high=900),
    "POTASSIUM": Signal(4.1, 0.4, 0.35, 0.9, low=2.2, high=8.5),
    "PTT": Signal(np.log(36), 0.33, 0.18, 0.95, log=True, low=18, high=150),
    "INR": Signal(np.log(1.35), 0.32, 0.12, 0.96, log=True, low=0.8, high=9),
    "SODIUM": Signal(139, 4.1, 1.7, 0.95, low=112, high=165),
    "BUN": Signal(np.log(20), 0.55, 0.12, 0.97, log=True, low=3, high=180),
    "WBC": Signal(np.log(11.0), 0.42, 0.2, 0.95, log=True, low=0.3, high=70),
}
CHRONIC_KIDNEY_DISEASE = 0.07


def baseline_signals(people: People, rng: np.random.Generator) -> dict[str, FloatArray]:
    """(stays, hours) of every signal before anything happens, logarithms taken back."""
    n, hours = len(people), CHARTED_HOURS
    midnight = people.intime.astype("datetime64[D]")
    start = (people.intime - midnight).astype(np.int64) / 3600
    clock = start[:, None] + np.arange(hours)[None, :] + 0.5
    kidneys = rng.random(n) < CHRONIC_KIDNEY_DISEASE
    old = (people.age - 65) / 15
    shifts = {
        "CREATININE": 0.75 * kidneys + 0.05 * old,
        "BUN": 0.6 * kidneys + 0.12 * old,
        "HeartRate": -2.5 * old,
        "PulsePressure": 4.0 * old,
        "HEMATOCRIT": 1.5 * people.male - 0.8 * old,
    }
    signals = {}
    for name, signal in SIGNALS.items():
        base = signal.mean + signal.between * rng.standard_normal(n) + shifts.get(name, 0.0)
        wander = _ar1(n, hours, signal.phi, rng) * signal.within
        cycle = signal.swing * np.cos(2 * np.pi * (clock - signal.peak) / 24)
        values = base[:, None] + wander + cycle
        signals[name] = np.exp(values) if signal.log else values
    return signals


def settle(signals: dict[str, FloatArray]) -> dict[str, FloatArray]:
    """Keep every signal where a living body can be, and derive those that follow from others."""
    bounded = {name: np.clip(values, SIGNALS[name].low, SIGNALS[name].high) for name, values in signals.items()}
    pressure, pulse = bounded["MeanBP"], bounded.pop("PulsePressure")
    bounded["SysBP"] = pressure + 2 / 3 * pulse
    bounded["DiasBP"] = np.maximum(pressure - pulse / 3, 15)
    bounded["HEMOGLOBIN"] = bounded["HEMATOCRIT"] / 3.0
    bounded["PT"] = 11.2 * bounded["INR"] ** 0.9
    bounded["GLUCOSE"] = bounded["Glucose"] * 0.97
    return bounded


def _ar1(n: int, hours: int, phi: float, rng: np.random.Generator) -> FloatArray:
    """Stationary AR(1) of unit variance: z_t = phi z_{t-1} + sqrt(1 - phi^2) e_t."""
    noise = rng.standard_normal((hours, n))
    noise[1:] *= np.sqrt(1 - phi**2)
    for hour in range(1, hours):
        noise[hour] += phi * noise[hour - 1]
    return np.ascontiguousarray(noise.T)
