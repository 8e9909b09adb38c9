"""An intensive care ward as a report sees it: plausible channels, masks after a rule, numbers that fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dynamask_mlflow.report import AuditPoint, Contributions, Curves, DriftData, MethodResult, Paired, ReportData

# fmt: off
TYPICAL = {
    "GCS total": 13, "Heart rate": 86, "Systolic BP": 119, "Diastolic BP": 61,
    "Mean BP": 78, "Respiratory rate": 19, "SpO2": 97, "Temperature": 37,
    "Glucose": 140, "Urine output": 110, "Lactate": 2.1, "pH": 7.37,
    "PaO2": 120, "PaCO2": 41, "FiO2": 0.5, "Bicarbonate": 23,
    "Creatinine": 1.4, "BUN": 28, "Sodium": 139, "Potassium": 4.1,
    "Chloride": 104, "Magnesium": 2, "Haematocrit": 31, "Haemoglobin": 10.4,
    "Platelets": 208, "WBC": 11.6, "Bilirubin": 1.8, "Albumin": 3.1,
    "INR": 1.5, "Troponin": 0.9, "Anion gap": 13, "Weight": 81,
}
# fmt: on
CHANNELS = list(TYPICAL)
UNITS = ["bpm" if name == "Heart rate" else "mmol/L" if name == "Potassium" else "" for name in TYPICAL]
LEADERS = {"GCS total": 0.9, "Lactate": 0.7, "Urine output": 0.55, "Mean BP": 0.45, "BUN": 0.4, "FiO2": 0.3}


def icu_report(n: int = 96, steps: int = 48, seed: int = 0, **changes: Any) -> ReportData:
    """A whole report; `changes` replace fields."""
    rng = np.random.default_rng(seed)
    d = len(CHANNELS)
    t = np.arange(steps)
    risk = np.clip(rng.beta(1.2, 3.2, n) + 0.25 * (rng.random(n) < 0.25), 0.01, 0.98)
    masks = 0.04 * rng.random((n, steps, d)) ** 3
    walk = np.cumsum(rng.normal(0, 0.05, (n, steps, d)), axis=1) + rng.normal(0, 0.08, (n, 1, d))
    inputs = np.array(list(TYPICAL.values())) * (1 + 0.35 * walk)
    for i in range(n):
        for name, weight in LEADERS.items():
            if rng.random() > weight:
                continue
            c, length = CHANNELS.index(name), int(rng.integers(3, 15))
            start = int(np.clip(rng.beta(3, 1.3) * (steps - length), 0, steps - length))
            bump = np.clip(1.25 - np.abs(t - start - length / 2) / (0.6 * length), 0, 1) ** 0.5
            masks[i, :, c] = np.maximum(masks[i, :, c], bump * rng.uniform(0.75, 1.0))
            inputs[i, :, c] *= 1 + (risk[i] - 0.2) * 0.6 * bump
        for _ in range(int(rng.integers(0, 4))):
            c, start = int(rng.integers(d)), int(rng.integers(steps - 3))
            masks[i, start : start + 3, c] = rng.uniform(0.4, 0.95)
    masks = np.clip(masks, 0, 1)
    # laboratory values come every few hours and are carried forward; before the first one there is nothing
    laboratory = np.arange(d) >= 10
    drawn = rng.random((n, steps, d)) < np.where(laboratory, 0.2, 1.0)
    last = np.maximum.accumulate(np.where(drawn, t[None, :, None], -1), axis=1)
    observed = last >= 0
    inputs = np.take_along_axis(inputs, np.maximum(last, 0), axis=1)
    masks = masks * observed
    without = np.clip(0.22 + 0.35 * (risk - 0.22) + rng.normal(0, 0.05, n), 0.01, 0.95)
    m = np.clip(masks, 1e-5, 1 - 1e-5)
    entropy = -(m * np.log(m) + (1 - m) * np.log(1 - m)).sum(axis=(1, 2))
    predicted, after = risk >= 0.5, without >= 0.5
    area = (masks >= 0.5).mean(axis=(1, 2))
    areas = np.array([0.01, 0.02, 0.03, 0.05, 0.08, 0.12, 0.2, 0.3, 0.5, 0.7])
    fall = np.exp(-areas / (area.mean() * 0.9))
    ce = -np.log(np.where(predicted, without, 1 - without))
    curves = Curves(
        areas=areas,
        values={"error": fall, "ce": 1.1 * (1 - fall), "acc": 0.42 + 0.58 * fall},
        random={"error": 1 - areas**0.8, "ce": 0.1 + 0.25 * areas, "acc": 1 - 0.08 * areas**0.5},
    )
    data = ReportData(
        title="In-hospital mortality after 48 hours",
        model="models:/icu-mortality@champion (version 3)",
        created_at="2026-03-14 09:26",
        task="classification",
        ids=[f"stay {200000 + 37 * i}" for i in range(n)],
        channel_names=CHANNELS,
        times=[str(k) for k in range(1, steps + 1)],
        time_unit="hour",
        masks=masks,
        scores=masks + 1e-3 * rng.random(masks.shape),
        errors=np.clip(fall[None] * rng.uniform(0.7, 1.3, (n, 1)), 0, 1),
        predictions=risk,
        predictions_without=without,
        targets=(rng.random(n) < risk).astype(int),
        class_names=["survival", "death"],
        metrics={
            "area": area,
            "entropy": entropy,
            "information": -np.log(1 - m).sum(axis=(1, 2)),
            "ce": ce,
            "certainty": np.clip(masks.max(axis=(1, 2)) - 0.1, 0, 1),
            "answer_shift": ce,
            "answer_shift/random": 0.1 * ce,
            "flipped": predicted != after,
            "converged": rng.random(n) < 0.97,
        },
        summary={
            "area": float(area.mean()),
            "ce": float(ce.mean() + 0.6),
            "ce/random": 0.24,
            "acc": float((predicted == after).mean()),
            "acc/random": 0.97,
            "comprehensiveness": 0.31,
            "comprehensiveness/random": 0.02,
            "sufficiency": 0.05,
            "sufficiency/random": 0.28,
            "entropy": float(entropy.mean()),
            "information_normalized": 0.11,
            "seconds": 18.2,
        },
        contributions=Contributions(
            cells=masks * np.where(np.arange(d) % 4 == 3, -1.0, 1.0) * 0.2,
            answer=np.log(risk / (1 - risk)),
            reference=np.full(n, -1.3),
            logit=True,
            unit="log-odds",
            channel_spread=masks.sum(axis=1) / np.maximum(masks.sum(axis=(1, 2)), 1e-9)[:, None] * 0.2,
            target="the risk of death",
        ),
        units=UNITS,
        population=float(risk.mean()),
        threshold=0.5,
        paired={
            "ce": Paired(
                shift=0.6, low=0.4, high=0.8, instances=n, controls={"random": (0.1, 0.0004), "other": (0.2, 0.2)}
            )
        },
        groups=[{"group": "predicted death", "instances": 5, "area": 0.1, "leading channels": "GCS total"}],
        calibration=[
            {"predicted": p, "observed": p, "low": p / 2, "high": 1 - p / 2, "instances": 10.0} for p in (0.1, 0.4, 0.8)
        ],
        observed=observed,
        inputs=np.where(observed, inputs, np.nan),
        curves=curves,
        method="nested masks",
        settings={
            "seed": 0,
            "operators": "time_mean, blur:1",
            "area": "auto",
            "dataset": "icu-2026-03 (digest 8f3c91)",
        },
        notes=["Predictions are probabilities of death in hospital."],
    )
    return replace(data, **changes)


def with_drift(data: ReportData) -> ReportData:
    """The same report with a second window in which attention moved from lactate to saturation."""
    masks = np.asarray(data.masks)
    before = masks.mean(axis=0)
    after = before.copy()
    after[:, 10] *= 0.35
    after[:, 6] += 0.8 * before[:, 10]
    after = np.roll(after, -4, axis=0)
    share = [p.sum(axis=0) / p.sum() for p in (before, after)]
    hours = [p.sum(axis=1) / p.sum() for p in (before, after)]
    verdicts: list[Any] = ["ok", "ok", "ok", "inconclusive", "ok", "ok", "ok", "ok", "drift"]
    moved = [0.011, 0.014, 0.009, 0.022, 0.012, 0.017, 0.016, 0.021, 0.094]
    drift = DriftData(
        verdict="drift",
        reasons=[
            "Attention moved from Lactate to SpO2: 9 % of the total [6, 12], p < .001.",
            "Hours 36 to 48 lost 11 % of the total [7, 15], p < .001.",
            "The inputs moved as well: SpO2 is missing in 34 % of the hours (reference: 5 %).",
        ],
        reference_label="January 2026",
        current_label="March 2026",
        reference_by_channel=share[0],
        current_by_channel=share[1],
        reference_by_time=hours[0],
        current_by_time=hours[1],
        reference_profile=before,
        current_profile=after,
        moved_channels=(6, 10),
        moved_times=tuple(range(36, 46)),
        tests={"Share moved between channels": 0.094, "Share moved between hours": 0.11, "p-value": "< .001"},
        causes={"data": 0.83, "model": 0.12, "both together": 0.05},
        history=[
            AuditPoint(
                label=f"{2025 + (6 + i) // 12}-{(6 + i) % 12 + 1:02d}",
                verdict=verdict,
                metrics={"Share moved between channels": value, "Mean entropy": 190 - 3.0 * i},
            )
            for i, (verdict, value) in enumerate(zip(verdicts, moved, strict=True))
        ],
        thresholds={"Share moved between channels": 0.06},
    )
    return replace(data, drift=drift)


def with_methods(data: ReportData) -> ReportData:
    """The same report with three methods beside each other."""
    assert data.curves is not None
    areas = np.asarray(data.curves.areas)
    rows = {"nested masks": (1.0, 0.5), "Integrated Gradients": (0.93, 0.56), "occlusion": (0.5, 0.8)}
    return replace(
        data,
        comparison={
            name: MethodResult(
                metrics={"ce": ce, "acc": acc, "area": 0.1, "entropy": 190 / ce, "seconds": 3 * ce},
                curves=Curves(
                    areas=areas,
                    values={"ce": ce * (1 - np.exp(-areas * 9)), "acc": acc + (1 - acc) * np.exp(-areas * 9)},
                    random={"ce": 0.2 * areas, "acc": 1 - 0.1 * areas},
                ),
            )
            for name, (ce, acc) in rows.items()
        },
    )
