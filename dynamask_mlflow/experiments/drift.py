"""How often audits are right: windows resampled from explained stays, with nothing changed and with known changes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dynamask_mlflow.audit.decide import version_alarms
from dynamask_mlflow.audit.measured import Measured
from dynamask_mlflow.audit.statistics import (
    compare_refit,
    compare_versions,
    drift_test,
    e_cusum,
    input_test,
    ndcg,
    permuted_labels,
)
from dynamask_mlflow.data.hospital.motifs import LOOK_ALIKES, MOTIFS
from dynamask_mlflow.experiments.cache import cache_folder, settings_key
from dynamask_mlflow.experiments.drift_data import (
    SOURCES,
    Case,
    Change,
    Swapped,
    missing,
    open_case,
    other_unit,
    part_of,
    shifted,
)

Report = Callable[[str], None]
Stays = dict[str, NDArray[Any]]
_TEST = ("reference_instances", "permutations", "alpha", "effect", "tolerance", "block", "input_level")
_TREND = ("cusum_threshold", "cusum_effect", "cusum_window")
_VERSION = ("anchors", "version_lost", "version_channel", "version_hours")
_SCENARIOS: dict[str, list[tuple[str, Change]]] = {
    "physionet": [
        ("glucose in another unit", other_unit("Glucose", 1 / 18)),
        ("Fahrenheit in 20 % of the stays", other_unit("Temp", 1.8, 32.0, 0.2)),
        ("GCS missing in 50 %", missing("GCS", 0.5)),
    ],
    "hospital": [
        ("lactate in another unit", other_unit("LACTATE", 9.0)),
        ("Fahrenheit in 20 % of the stays", other_unit("Temp", 1.8, 32.0, 0.2)),
        ("SpO2 missing in 50 %", missing("SpO2", 0.5)),
    ],
}


@dataclass(frozen=True)
class Row:
    """One line of the table: rates over the replicates, NaN where not asked."""

    source: str
    change: str
    instances: int
    drift: float
    ok: float
    ndcg: float
    inputs: float
    wanted: str


def run_drift(
    sources: tuple[str, ...] = SOURCES, quick: bool = False, replicates: int = 200, report: Report = lambda _: None
) -> tuple[list[Row], list[str]]:
    """All rows of the table, and sentences about canary, versions and calendar. Done parts come from the cache."""
    torch.set_num_threads(1)
    rows: list[Row] = []
    notes: list[str] = []
    for source in sources:
        case = open_case(source, quick)
        count = 12 if quick else replicates
        pool = case.measured("pool", case.pool)
        report(f"{source}: {len(pool)} stays explained")
        for row in _windows(case, pool, count, report):
            rows.append(row)
        notes += _years(case, pool, 6 if quick else max(20, replicates // 3))
        report(f"{source}: years done")
        notes += _versions(case, pool, quick, report)
        notes += _canary(case, pool)
        if source == "hospital":
            notes += _calendar(case, quick, report)
            notes += _treatment(case, quick)
    return rows, notes


def _windows(case: Case, pool: Measured, count: int, report: Report) -> list[Row]:
    n = 60 if len(pool) < 400 else 200
    least = _irrelevant(case, pool)
    name = pool.channel_names[least]
    half = case.pool.select(np.arange(len(case.pool)) % 2 == 1)
    half = half.select(np.arange(min(len(half), 450)))
    jobs: list[tuple[str, int, Callable[[], Stays | None], int, str]] = [
        ("nothing", n, lambda: None, 4 * count, "DRIFT at most .01, OK at least .95"),
        ("nothing", n // 2, lambda: None, count, ""),
        ("20 % of the masks 6 h earlier", n // 2, lambda: _earlier(pool), count, "DRIFT at least .85"),
    ]
    for what, change in [
        *_SCENARIOS[case.name],
        (f"irrelevant channel ({name}) + 1 SD", shifted(least, 1.0)),
    ]:

        def changed(what: str = what, change: Change = change) -> Stays:
            stays = change(half, np.random.default_rng(7))
            found = case.measured(what.replace(" ", "-").replace("%", "").replace("/", ""), stays)
            return part_of(found, np.flatnonzero(found.usable))

        jobs.append((what, n, changed, count, "DRIFT at most .02" if "irrelevant" in what else ""))
    rows = []
    for what, size, draw, times, wanted in jobs:
        compute = partial(_simulate, case, pool, draw, size, times)
        drift, ok, rank, inputs = _cached(case, f"window {what} {size} {times}", compute, _TEST)
        rows.append(Row(case.name, what, size, drift, ok, rank, inputs, wanted))
        report(f"{case.name}: {what}, n = {size}: drift {drift:.3f}, ok {ok:.3f}, inputs {inputs:.2f}")
    return rows


def _irrelevant(case: Case, pool: Measured) -> int:
    """The channel with the least attention: of those that never matter by design, or of those often charted."""
    if case.name == "hospital":
        known = {signal for motif in LOOK_ALIKES for signal in MOTIFS[motif]}
        candidates = np.array([name in known for name in pool.channel_names])
    else:
        varies = case.pool.x.std(axis=1).mean(axis=0) > 0.1
        candidates = (case.pool.observed.mean(axis=(0, 1)) > 0.3) & varies
    return int(np.argmin(np.where(candidates, pool.mean_shares()[0], np.inf)))


def _simulate(case: Case, pool: Measured, draw: Callable[[], Stays | None], size: int, times: int) -> list[float]:
    """Shares of (drift, ok, nDCG < .9, input test) over windows of `size` stays against fresh references."""
    config, changed = case.config, draw()
    rng = np.random.default_rng(11)
    good = np.flatnonzero(pool.usable)
    found = []
    for time in range(times):
        order = rng.permutation(good)
        before = part_of(pool, order[: config.reference_instances])
        if changed is None:
            now = part_of(pool, order[config.reference_instances :][:size])
        else:
            # A changed stay must not stand beside its own unchanged self.
            free = np.flatnonzero(~np.isin(changed["patients"], before["patients"]))
            rows = rng.permutation(free)[:size]
            now = {name: values[rows] for name, values in changed.items()}
        found.append(_audit(case, before, now, time, inputs=time < max(10, times // 12)))
    values = np.array(found)
    return [float(np.nanmean(values[:, i])) for i in range(4)]


def _audit(case: Case, before: Stays, now: Stays, seed: int, inputs: bool) -> tuple[float, float, float, float]:
    config = case.config
    test, labels, both = _test(case, before, now, seed)
    drift = test.p_value <= config.alpha and max(test.channels.moved, test.hours.moved) >= config.effect
    ok = not drift and max(test.channels.upper, test.hours.upper) < config.tolerance
    rank = ndcg(before["by_channel"].mean(axis=0), now["by_channel"].mean(axis=0)) < 0.9
    moved = np.nan
    if inputs:
        moved = float(bool(input_test(both["values"], both["missing"], labels).moved(config.input_level)))
    return float(drift), float(ok), float(rank), moved


def _test(case: Case, before: Stays, now: Stays, seed: int) -> tuple[Any, Any, Stays]:
    both = {name: np.concatenate([before[name], now[name]]) for name in before}
    current = np.arange(len(both["patients"])) >= len(before["patients"])
    labels = permuted_labels(current, both["patients"], case.config.permutations, seed)
    test = drift_test(both["by_channel"], both["by_time"], labels, both["patients"], case.config.block)
    return test, labels, both


def _earlier(pool: Measured) -> Stays:
    """One in five stays whose mask begins six hours earlier."""
    stays = part_of(pool, np.flatnonzero(pool.usable))
    early = np.random.default_rng(5).random(len(stays["patients"])) < 0.2
    rolled = np.roll(stays["by_time"], -6, axis=1)
    return {**stays, "by_time": np.where(early[:, None], rolled, stays["by_time"])}


def _years(case: Case, pool: Measured, years: int) -> list[str]:
    """False alarms over twelve monthly audits against one reference, with the e-CUSUM."""

    def count() -> list[float]:
        config, rng, alarms, plain = case.config, np.random.default_rng(13), 0, 0
        good = np.flatnonzero(pool.usable)
        size = 60 if len(pool) < 400 else 200
        for year in range(years):
            order = rng.permutation(good)
            before = part_of(pool, order[: config.reference_instances])
            tests = []
            for month in range(12):
                rows = rng.permutation(order[config.reference_instances :])[:size]
                tests.append(_test(case, before, part_of(pool, rows), 100 * year + month)[0])
            effects = [max(t.channels.moved, t.hours.moved) for t in tests]
            p = [t.p_value for t in tests]
            hit = any(a <= config.alpha and b >= config.effect for a, b in zip(p, effects, strict=True))
            trend = e_cusum(p, effects, config.cusum_threshold, config.cusum_effect, config.cusum_window)
            alarms += hit or any(trend.alarms)
            plain += min(p) <= 0.05
        return [alarms / years, plain / years]

    rate, naive = _cached(case, f"years {years}", count, _TEST + _TREND)
    return [
        f"{case.name}: over a year of monthly audits with nothing changed, {rate:.3f} of {years} years had a false "
        f"alarm (p <= .05 alone: {naive:.2f}); wanted at most .05."
    ]


def _versions(case: Case, pool: Measured, quick: bool, report: Report) -> list[str]:
    """Benign retrains, and versions that ignore an important channel, on the same stays."""
    top = [int(i) for i in np.argsort(-pool.mean_shares()[0])[: 1 if quick else 3]]
    seeds = (1,) if quick else (1, 2, 3, 4)
    versions = [("benign", f"retrain{seed}", partial(case.version, seed)) for seed in seeds]
    versions += [("harmful", f"without{c}", partial(case.version, 0, c)) for c in top]
    stays = case.pool.select(np.arange(40 if quick else 120))

    def sizes(what: str, version: Callable[[], torch.nn.Module]) -> list[float]:
        rng, config = np.random.default_rng(17), case.config
        base, new = case.measured("anchors", stays), case.measured(what, stays, version())
        found = []
        for _ in range(50):
            rows = rng.permutation(len(base))[: config.anchors]
            shift = compare_versions(
                (base.by_channel[rows], base.by_time[rows]), (new.by_channel[rows], new.by_time[rows])
            )
            found.append([float(bool(version_alarms(shift, config))), shift.largest, shift.hours, shift.lost])
        return [float(value) for value in np.mean(found, axis=0)]

    results: dict[str, list[list[float]]] = {"benign": [], "harmful": []}
    for kind, what, version in versions:
        results[kind].append(_cached(case, f"version {what}", partial(sizes, what, version), _VERSION))
        report(f"{case.name}: {what}: {np.round(results[kind][-1], 3)}")
    benign, harmful = (np.array(results[kind]) for kind in ("benign", "harmful"))
    return [
        f"{case.name}: benign retrains DRIFT in {benign[:, 0].mean():.2f} (wanted at most .02); versions that ignore "
        f"one of the three most important channels DRIFT in {harmful[:, 0].mean():.2f} (wanted at least .95). Benign "
        f"ones moved one channel by up to {benign[:, 1].max():.3f}, the hours by up to {benign[:, 2].max():.3f}, and "
        f"took at most {benign[:, 3].max():.2f} of an important channel's share away; harmful ones at least "
        f"{harmful[:, 3].min():.2f}."
    ]


def _canary(case: Case, pool: Measured) -> list[str]:
    """Anchors refitted: unchanged, with two channels swapped, and with weights rounded to bfloat16."""

    def moves() -> list[float]:
        import copy

        stays = case.pool.select(np.arange(50))
        base = case.measured("canary", stays, keep=50)
        first, second = (int(i) for i in np.argsort(-pool.mean_shares()[0])[:2])
        rounded = copy.deepcopy(case.network)
        with torch.no_grad():
            for weights in rounded.parameters():
                weights.copy_(weights.bfloat16().float())
        found = []
        for what, network in (
            ("refit", copy.deepcopy(case.network)),
            ("swapped", Swapped(case.network, first, second).eval()),
            ("rounded", rounded),
        ):
            again = case.measured(f"canary-{what}", stays, network, keep=50)
            result = compare_refit(base.masks, again.masks, base.shares, again.shares)
            found += [result.moved, float(result.identical)]
        return found

    same, exact, swapped, _, rounded, hidden = _cached(case, "canary and bits", moves, ())
    return [
        f"{case.name}: canary, same model and runtime: {same:.4f} moved, {'identical' if exact else 'not identical'} "
        f"masks; two channels swapped: {swapped:.3f} (alarm above {case.config.canary_tolerance}); weights rounded to "
        f"bfloat16: {rounded:.4f}, {'unseen' if hidden else 'seen because the masks are no longer identical'}."
    ]


def _calendar(case: Case, quick: bool, report: Report) -> list[str]:
    """The months of the synthetic hospital after the reference year, one audit each."""
    config, later = case.config, case.dataset.part("later")
    reference = case.measured("pool", case.pool)
    before = part_of(reference, np.flatnonzero(reference.usable)[: config.reference_instances])
    notes = []
    for month in sorted(set(later.windows.tolist()))[: 3 if quick else None]:
        stays = later.window(month)
        stays = stays.select(np.arange(min(len(stays), 60 if quick else 200)))
        found = case.measured(f"month-{month}", stays)
        now = part_of(found, np.flatnonzero(found.usable))
        test, labels, both = _test(case, before, now, 0)
        drift = test.p_value <= config.alpha and max(test.channels.moved, test.hours.moved) >= config.effect
        ok = not drift and max(test.channels.upper, test.hours.upper) < config.tolerance
        names = found.channel_names
        inputs = [names[i] for i in input_test(both["values"], both["missing"], labels).moved(config.input_level)]
        moved = [names[i] for i in np.flatnonzero(test.channel_p <= config.alpha)]
        state = "DRIFT" if drift else "ok" if ok else "inconclusive"
        notes.append(
            f"{month}: {state}, p = {test.p_value:.4f}, channels {test.channels.moved:.3f}, hours "
            f"{test.hours.moved:.3f}; attention: {', '.join(moved) or '-'}; inputs: {', '.join(inputs) or '-'}."
        )
        report(notes[-1])
    return notes


def _treatment(case: Case, quick: bool) -> list[str]:
    """A version trained after the planted change of treatment, on the stays of before: the cause is the model."""
    later = case.dataset.part("later")
    after = later.select(later.windows >= "2024-07")
    splits = np.where(after.patient_ids % 6 == 0, "validation", "train")
    stays = case.pool.select(np.arange(40 if quick else 120))
    network = case.version(0, stays=replace(after, splits=splits))
    old, new = case.measured("anchors", stays), case.measured("treated", stays, network)
    shift = compare_versions(old.shares, new.shares)
    order = np.argsort(shift.channel_shift)
    told = ", ".join(f"{old.channel_names[i]} {shift.channel_shift[i]:+.3f}" for i in [*order[:3], *order[-3:]])
    state = "DRIFT" if version_alarms(shift, case.config) else "no alarm"
    return [
        "A version trained from 2024-07 on, when respiratory failure no longer matters, on the stays of before: "
        f"{state}; {told}."
    ]


def _cached(case: Case, what: str, compute: Callable[[], list[float]], uses: tuple[str, ...]) -> list[float]:
    """Done parts are kept, by the settings that they use: an interrupted experiment goes on where it was."""
    from dynamask_mlflow.audit.shards import code_version
    from dynamask_mlflow.tracking.spool import write_whole

    settings = {
        "data": case.pool.digest,
        "code": code_version(),
        "explainer": case.config.explainer_digest,
        "what": what,
        **{name: getattr(case.config, name) for name in uses},
    }
    path = cache_folder() / "drift" / f"{settings_key(f'{case.name}-result', settings)}.json"
    if path.is_file():
        stored: list[float] = json.loads(path.read_text(encoding="utf-8"))
        return stored
    found = compute()
    write_whole(path, json.dumps(found))
    return found


def as_table(rows: list[Row]) -> list[list[str]]:
    head = ["data", "change", "stays", "DRIFT", "OK proven", "nDCG < .9", "input test", "wanted"]
    body = [
        [
            row.source,
            row.change,
            str(row.instances),
            *(f"{value:.3f}" for value in (row.drift, row.ok, row.ndcg, row.inputs)),
            row.wanted or "-",
        ]
        for row in rows
    ]
    return [head, *body]


def update_document(path: str, rows: list[Row], notes: list[str]) -> None:
    """Replace what stands between the marks of the drift table in a Markdown file."""
    from pathlib import Path

    from dynamask_mlflow.experiments.table import as_markdown

    begin, end = "<!-- drift table -->", "<!-- /drift table -->"
    text = Path(path).read_text(encoding="utf-8")
    before, mark, rest = text.partition(begin)
    _, closing, after = rest.partition(end)
    if not mark or not closing:
        raise ValueError(f"Expected the marks {begin} and {end} in {path}, but they are not there.")
    table = as_markdown(as_table(rows)) + "\n\n" + "\n".join(f"- {note}" for note in notes)
    Path(path).write_text(f"{before}{begin}\n{table}\n{end}{after}", encoding="utf-8")
