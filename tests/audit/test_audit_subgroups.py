"""Subgroups and the search of a fault: false findings within alpha, planted ones found, the right place named."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from audit_hospital import hospital
from test_audit_verdict import CONFIG, stays

from dynamask_mlflow.audit import AuditError, State, add_labels, build_reference, run_audit
from dynamask_mlflow.audit import statistics as s
from dynamask_mlflow.audit.comparison import compare_subgroups, compare_windows
from dynamask_mlflow.audit.items import ItemRows
from dynamask_mlflow.audit.verdict import evaluate_verdict, group_rows


def groups_of(rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
    return {"sex": rng.choice(["female", "male"], n), "unit": rng.choice(["MICU", "CCU", "SICU"], n)}


def simulate(seed: int, planted: float, columns: int = 8):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(800, columns))
    attributes = groups_of(rng, 800)
    now = np.arange(800) >= 500
    values[now & (attributes["sex"] == "female"), 3] += planted
    members = {s.Group(name, value): column == value for name, column in attributes.items() for value in set(column)}
    numbers = {str(place): values[:, place] for place in range(columns)}
    labels = s.permuted_labels(now, np.arange(800), 199, seed)
    moved = s.group_drift(numbers, labels, np.arange(800), members)
    inside = {group: member[now] for group, member in members.items()}
    within = {name: column[now] for name, column in numbers.items()}
    return moved, s.group_differences(within, np.arange(300), inside, 199, seed)


def test_false_findings_over_all_groups_stay_within_alpha():
    found = [simulate(seed, 0.0) for seed in range(40)]
    for which in (0, 1):  # moved, differ: of 40 at .05 two are expected, seven or more have a chance of .003
        assert sum(any(shift.p_value <= 0.05 for shift in each[which]) for each in found) <= 6


def test_a_group_that_differs_is_found_at_150_a_group():
    hits = np.zeros(2)
    for seed in range(20):
        for which, shifts in enumerate(simulate(seed, 0.6)):
            hits[which] += any(
                shift.p_value <= 0.05 and shift.group.attribute == "sex" and shift.measure == "3" for shift in shifts
            )
    assert (hits >= 17).all(), hits  # 85 %


def test_means_of_numbers_that_are_not_known_everywhere():
    values = np.array([[1.0], [np.nan], [3.0], [5.0], [np.nan], [7.0]])
    labels = np.array([[0, 0, 0, 1, 1, 1]], dtype=np.uint8)
    found = s.groups.mean_gaps(values, labels)
    assert found[0, 0] == pytest.approx(6.0 - 2.0)


def with_groups(part, seed, **columns):
    rng = np.random.default_rng(seed)
    return replace(part, attributes={**groups_of(rng, len(part)), **columns})


def test_small_groups_are_said_to_be_small_and_moved_ones_warn():
    config = CONFIG.with_options(by=("sex", "unit"), group_minimum=60)
    rng = np.random.default_rng(3)
    before, now = with_groups(stays(400, 0), 1), with_groups(stays(300, 9), 2)
    unit = np.where(np.arange(len(now)) < 5, "BURNS", now.attributes["unit"])
    risk = np.clip(rng.normal(0.2, 0.05, len(before)), 0, 1), np.clip(rng.normal(0.2, 0.05, len(now)), 0, 1)
    female = now.attributes["sex"] == "female"
    before = replace(before, numbers={**before.numbers, "risk": risk[0]})
    now = replace(
        now,
        attributes={**now.attributes, "unit": unit},
        numbers={**now.numbers, "risk": risk[1] + np.where(female, 0.08, -0.08)},
    )
    result = compare_windows(before, now, config)
    verdict = evaluate_verdict(result, config, model="icu", version="1", window="2026-02")
    told = [violation for violation in verdict.violations if violation.kind == "subgroup"]
    assert {violation.subject for violation in told} >= {"sex female", "sex male"}
    assert any("the mean predicted risk" in violation.message for violation in told)
    assert verdict.state == State.WARNING
    assert any("BURNS: fewer than 10 stays in the reference, fewer than 10" in text for text in verdict.subgroups)
    assert any("The group sex female differs from the other stays" in text for text in verdict.subgroups)
    rows = group_rows(result.groups)
    assert {row["group"] for row in rows} == {"sex female", "sex male", "unit CCU", "unit MICU", "unit SICU"}
    assert json.loads(result.groups.to_json())["too_small"][0]["group"]["value"] == "BURNS"


def test_without_attributes_there_are_no_subgroups():
    assert compare_subgroups(stays(200, 0), stays(200, 1), CONFIG.with_options(by=("sex",))) is None


def rows_of(seed: int, inside: float, outside: float, n: int = 700) -> s.Rows:
    rng = np.random.default_rng(seed)
    now = np.arange(n) >= 500
    ward = rng.choice(["MICU", "CCU", "SICU", "CSRU"], n, p=[0.4, 0.2, 0.22, 0.18])
    slices = {f"unit {name}": ward == name for name in ("MICU", "CCU", "SICU", "CSRU")}
    slices |= {
        "charting metavision": np.isin(ward, ["MICU", "CCU"]),
        "charting carevue": np.isin(ward, ["SICU", "CSRU"]),
    }
    slices |= {f"age {k}": rng.integers(0, 4, n) == k for k in range(4)}
    scores = np.clip(rng.uniform(size=n) + now * np.where(ward == "MICU", inside, outside), 0, 1)
    return s.Rows(scores, now, np.arange(n), slices)


def test_the_right_slice_is_named_and_none_when_the_fault_is_everywhere():
    named = [s.smallest_slice(rows_of(seed, 0.35, 0.0), seed=seed) for seed in range(30)]
    assert sum(each is not None and each.names == ("unit MICU",) for each in named) >= 26
    for size in (0.35, 0.0):
        named = [s.smallest_slice(rows_of(seed, size, size), seed=seed) for seed in range(40)]
        assert sum(each is not None for each in named) <= 5  # at most .05 are wanted


def test_slices_of_the_same_rows_share_their_place():
    rows = rows_of(0, 0.35, 0.0)
    found = s.smallest_slice(replace(rows, slices={**rows.slices, "device A": rows.slices["unit MICU"]}))
    assert found.names == ("unit MICU", "device A")


def test_the_day_of_a_change_is_found():
    rng = np.random.default_rng(0)
    days = np.sort(rng.integers(1, 31, 120))
    scores = rng.uniform(size=120) + (days >= 12) * 0.6
    assert abs(int(s.change_point(scores, days)) - 12) <= 1
    assert s.change_point(rng.uniform(size=120), days) is None


def test_a_fault_under_one_item_id_is_placed_there_and_new_codes_are_told():
    rng = np.random.default_rng(0)
    ids = [str(i) for i in range(600)]
    now = np.arange(600) >= 400
    codes = np.concatenate([np.full(600, "1"), np.full(600, "2"), np.full(200, "3")])
    owners = np.concatenate([np.arange(600), np.arange(600), np.arange(400, 600)])
    means = np.where(codes == "2", 200.0, 100.0) + rng.normal(size=1400)
    means[(codes == "2") & now[owners]] *= 0.5
    table = ItemRows(owners.astype(str), codes, means).with_use(ids[:400], ids[400:])
    stay, scores, slices = table.join(ids, now)
    known = np.isfinite(scores)
    rows = s.Rows(scores[known], now[stay][known], stay[known], {k: v[known] for k, v in slices.items()})
    found = s.smallest_slice(rows)
    assert found.names == ("item 2",)
    assert found.inside == pytest.approx(-0.5, abs=0.05)
    assert [item.sentence() for item in table.compared if item.changed] == [
        "Under item 2 the median of the stays' means is 100.1, before 199.9.",
        "Item 3 is new: it is in 100 % of the stays.",
    ]


def test_an_audit_by_groups_names_the_ward_of_a_fault(place, tmp_path):
    whole = hospital()
    rng = np.random.default_rng(5)
    ward = rng.choice(["MICU", "SICU"], len(whole))
    x = whole.x.copy()
    ill = (whole.windows == "2026-02") & (ward == "MICU")
    x[ill, :, 1] -= 4.0
    data = str(
        replace(whole, x=x, attributes={"unit": ward, "sex": np.where(ward == "", "", "female")}).save(tmp_path / "w")
    )
    options = place.options(by=("unit",), group_minimum=20, instances=90, permutations=1499)
    build_reference("models:/icu@champion", data, "2026-01", **options)
    verdict = run_audit("models:/icu@champion", data, "2026-02", **options)
    assert verdict.state in (State.DRIFT, State.WARNING)
    assert verdict.culprit[0] == "unit MICU"
    assert any("sits in unit MICU" in text for text in verdict.places)
    assert any(violation.kind == "subgroup" and violation.subject == "unit MICU" for violation in verdict.violations)
    outcomes = {str(stay): float(outcome) for stay, outcome in zip(whole.ids, 1 - whole.labels, strict=True)}
    (again,) = add_labels("icu", outcomes)
    assert (again.verdict.places, again.verdict.culprit) == (verdict.places, verdict.culprit)
    with pytest.raises(AuditError, match="by attributes of the stays"):
        run_audit("models:/icu@champion", data, "2026-02", **place.options(by=("colour",)))
