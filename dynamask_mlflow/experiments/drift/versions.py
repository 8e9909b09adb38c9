"""New versions: harmless retrains and harmful ones, what the split into causes says, and what the canary notices."""

from __future__ import annotations

import copy
from functools import lru_cache, partial
from typing import Any

import numpy as np
from torch import nn

from dynamask_mlflow._provenance import runtime_differences
from dynamask_mlflow.audit.explained_window import ExplainedWindow
from dynamask_mlflow.audit.statistics import compare_refit, compare_versions, rounding_limit, rounding_noise
from dynamask_mlflow.audit.verdict import version_alarms
from dynamask_mlflow.experiments.drift.changes import Coarse, Swapped, last_bits, rounded
from dynamask_mlflow.experiments.drift.data import Case
from dynamask_mlflow.experiments.drift.draws import draw, judge
from dynamask_mlflow.experiments.drift.windows import CHANGES, Report, changed


def version_notes(case: Case, pool: ExplainedWindow, report: Report) -> list[str]:
    """Benign retrains, and versions that ignore an important channel, on the same stays."""
    results: dict[str, list[list[float]]] = {"benign": [], "harmful": []}
    for kind, names in _versions(case, pool).items():
        for name in names:
            results[kind].append(case.cached(f"version {name}", partial(_sizes, case, name)))
            report(f"{case.name}: {kind} {name}: {np.round(results[kind][-1], 3)}")
    benign, harmful = (np.array(results[kind]) for kind in ("benign", "harmful"))
    return [
        f"{case.name}: {len(benign)} benign retrains DRIFT in {benign[:, 0].mean():.2f} (wanted at most .02); versions "
        f"that ignore one of the three most important channels DRIFT in {harmful[:, 0].mean():.2f} (wanted at least "
        f".95). Benign ones moved one channel by up to {benign[:, 1].max():.3f}, the hours by up to "
        f"{benign[:, 2].max():.3f}, and took at most {benign[:, 3].max():.2f} of an important channel's share away; "
        f"harmful ones at least {harmful[:, 3].min():.2f}."
    ]


def cause_notes(case: Case, pool: ExplainedWindow, times: int) -> list[str]:
    """Nothing, the data, the model or both changed: how often the verdict names exactly that."""
    right = case.cached(f"causes {times}", lambda: _causes(case, pool, times))
    told = ", ".join(f"{name} {share:.2f}" for name, share in right.items())
    return [f"{case.name}: a new version, and the right cause named if what changed was: {told} ({times} draws each)."]


def canary_notes(case: Case, pool: ExplainedWindow) -> list[str]:
    """Anchors refitted: unchanged, with two channels swapped, on another runtime, with other weights."""
    found = case.cached("canary", lambda: _canary(case, pool))
    told = "; ".join(f"{what}: {text}" for what, text in found["told"].items())
    return [
        f"{case.name}: canary, share moved in the median anchor (the last bit of the inputs moves it by "
        f"{found['noise']:.5f}; alarm above {found['limit']:.5f}): {told}."
    ]


def _versions(case: Case, pool: ExplainedWindow) -> dict[str, list[str]]:
    top = np.argsort(-pool.mean_shares()[0])[: 1 if case.quick else 3]
    return {
        "benign": [f"retrain {seed}" for seed in case.retrains],
        "harmful": [f"without {channel}" for channel in top],
    }


def _network(case: Case, name: str) -> nn.Module:
    kind, number = name.split()
    return case.version(int(number)) if kind == "retrain" else case.version(0, int(number))


@lru_cache
def _anchors(case: Case, name: str | None = None) -> ExplainedWindow:
    """The same stays under the model, or under one of the versions."""
    stays = case.pool.select(np.arange(40 if case.quick else 120))
    return case.measured(f"anchors {name or ''}", stays, None if name is None else _network(case, name))


def _sizes(case: Case, name: str) -> list[float]:
    """Share of draws of anchors that alarm; means of what moved."""
    rng, config, old, new = np.random.default_rng(17), case.config, _anchors(case), _anchors(case, name)
    found = []
    for _ in range(50):
        rows = rng.permutation(len(old))[: config.anchors]
        shift = compare_versions((old.by_channel[rows], old.by_time[rows]), (new.by_channel[rows], new.by_time[rows]))
        found.append([float(bool(version_alarms(shift, config))), shift.largest, shift.hours, shift.lost])
    return [float(value) for value in np.mean(found, axis=0)]


def _causes(case: Case, pool: ExplainedWindow, times: int) -> dict[str, float]:
    versions, old = _versions(case, pool), _anchors(case)
    what = next(name for name in CHANGES[case.name] if "50 %" in name)
    populations = {False: pool, True: changed(case, what)}
    truths: dict[str, set[str]] = {"nothing": set(), "data": {"data"}, "model": {"model"}, "both": {"data", "model"}}
    right: dict[str, float] = {}
    for truth, expected in truths.items():
        hits = []
        for time in range(times):
            rng = np.random.default_rng([23, time])
            name = str(rng.choice(versions["harmful" if "model" in expected else "benign"]))
            new = _anchors(case, name)
            rows = rng.permutation(len(old))[: case.config.anchors]
            shift = compare_versions(
                (old.by_channel[rows], old.by_time[rows]), (new.by_channel[rows], new.by_time[rows])
            )
            before = draw(pool, case.reference_size, rng)
            now = draw(populations["data" in expected], case.size, rng)
            verdict = judge(case, before, now, time, versions=shift)
            hits.append(set(verdict.causes) & {"data", "model"} == expected)
        right[truth] = float(np.mean(hits))
    return right


def _canary(case: Case, pool: ExplainedWindow) -> dict[str, Any]:
    stays = case.pool.select(np.arange(50))
    base = case.measured("canary", stays, keep=50)
    nudged = case.measured("canary nudged", last_bits(stays, np.random.default_rng(3)))
    noise = rounding_noise(base.shares, nudged.shares)
    limit = rounding_limit(noise, case.config.canary_rounding)
    first, second = (int(i) for i in np.argsort(-pool.mean_shares()[0])[:2])
    networks = {
        "the same again": copy.deepcopy(case.network),
        "two channels swapped": Swapped(case.network, first, second).eval(),
        "a runtime that multiplies in bfloat16": Coarse(case.network).eval(),
        "weights rounded to bfloat16": rounded(case.network),
    }
    told = {}
    for what, network in networks.items():
        again = case.measured(f"canary {what}", stays, network, keep=50)
        named = runtime_differences(base.record["runtime"], again.record["runtime"])
        result = compare_refit(base.masks, again.masks, base.shares, again.shares, limit=limit, changed=named)
        state = "caught" if not result.clean else "identical" if result.identical else "clean"
        told[what] = f"{result.each:.5f}, {state}" + (", weights named" if "weights" in named else "")
    return {"noise": noise, "limit": limit, "told": told}
