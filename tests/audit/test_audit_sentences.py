"""What an audit tells people: the cause first, one sentence a finding, the evidence, what to do next."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from test_audit_predictions import CONFIG, ward, with_numbers

from dynamask_mlflow.audit import State
from dynamask_mlflow.audit.compare_shards import Comparison
from dynamask_mlflow.audit.comparison import AuditArrays, MadeFrom, compare_windows
from dynamask_mlflow.audit.culprit import Culprit, _since, culprits_json, find_culprits
from dynamask_mlflow.audit.items import Item, ItemRows
from dynamask_mlflow.audit.page import _proven
from dynamask_mlflow.audit.runs import _note
from dynamask_mlflow.audit.verdict import FAR, Verdict, Violation, detect_violations, detect_warnings, evaluate_verdict
from dynamask_mlflow.audit.verdict.diagnosis import diagnose, next_steps
from dynamask_mlflow.cli.audit import show_verdict

UNIT = Item("C", 0.5, 0.5, (37.0, 98.6), ((36.6, 37.0, 37.4), (97.9, 98.6, 99.3)))
ASSAY = Item("A", 0.8, 0.8, None, ((1.2, 1.8, 2.6), (2.2, 2.9, 3.7)))
SCALE = Item("A", 0.8, 0.8, (1.8, 18.0), ((1.2, 1.8, 2.6), (12.0, 18.0, 26.0)))
AS_BEFORE = Item("A", 0.8, 0.8, None, ((1.2, 1.8, 2.6), (1.2, 1.9, 2.7)))


def judge(now, *culprits: Culprit) -> Verdict:
    return evaluate_verdict(compare_windows(ward(300, 11), now, CONFIG), CONFIG, culprits)


def gaps(now, **shares: float):
    grown = np.array([shares.get(name, 0.0) for name in now.channel_names])
    return replace(now, missing=np.minimum(1, now.missing + grown))


def values(now, **shifts: float):
    return replace(now, values=now.values + np.array([shifts.get(name, 0.0) for name in now.channel_names]))


def codes(channel: str, *items: Item, kind: str = "values", searched: bool = False) -> Culprit:
    return Culprit(f"{channel} ({kind})", channel, None, items=items, searched=searched)


@pytest.mark.parametrize(
    ("now", "culprits", "fits", "step"),
    [
        (gaps(ward(150, 2), Lactate=0.6), (codes("Lactate", UNIT),), "another unit for", "correct the unit"),
        (values(ward(150, 2), Lactate=3.0), (codes("Lactate", SCALE),), "another unit for", "correct the unit"),
        (values(ward(150, 2), Lactate=3.0), (codes("Lactate", ASSAY),), "a new device, assay", "whether a device"),
        (values(ward(150, 2), Lactate=3.0), (), "another unit, scale or device", "whether the unit, the scale"),
        (gaps(ward(150, 2), Lactate=0.6), (codes("Lactate", AS_BEFORE),), "fewer measurements of", "who record it why"),
        (gaps(ward(150, 2), Lactate=0.6), (), "an interface that drops values", "or keep the interface"),
    ],
)  # fmt: skip
def test_each_fault_has_its_name_and_its_step(now, culprits, fits, step):
    verdict = judge(now, *culprits)
    assert verdict.state in (State.WARNING, State.DRIFT)
    (sentence,) = verdict.diagnosis
    assert f"This fits {fits}" in sentence or fits in sentence
    assert verdict.headline == sentence
    assert any(text.startswith("Lactate: ") and step in text for text in verdict.steps)
    assert any("raw tables" in text for text in verdict.steps) == (not culprits)


def test_a_proven_unit_leads_what_else_moved_follows_by_what_rests_on_it():
    # Lactate, on which most rests, is charted less often; Temp, on which nothing rests, is in another unit.
    now = gaps(ward(150, 2), Lactate=0.6, Temp=0.9)
    places = (
        codes("Temp", UNIT, Item("F", 0.4, 0.0), kind="gaps", searched=True),
        codes("Lactate", AS_BEFORE, kind="gaps", searched=True),
    )
    verdict = judge(now, *places)
    assert [text.partition(":")[0] for text in verdict.diagnosis] == [
        "This fits another unit for Temp",
        "This fits fewer measurements of Lactate",
    ]
    assert "item C: median 98.6, before 37" in verdict.headline
    assert "values as before (item A: median 1.9, before 1.8)" in verdict.diagnosis[1]
    assert "would tell" not in " ".join(verdict.diagnosis)  # the raw events are at hand, and told
    assert [text for text in verdict.places if text.startswith("No slice")] == [
        "No slice of the stays explains the changes of Temp (gaps) and Lactate (gaps): they are everywhere, or too "
        "small to place."
    ]
    assert any(text.startswith("Codes of Temp: ") and "item F is gone" in text for text in verdict.places)


def test_every_place_tells_the_same_in_the_same_order(capsys):
    verdict = judge(gaps(ward(150, 2), Lactate=0.6), codes("Lactate", AS_BEFORE))
    titles = [title for title, _ in verdict.sections]
    assert titles in (["Finding", "Evidence", "Next steps"], ["Findings", "Evidence", "Next steps"])
    told = [text for _, sentences in verdict.sections for text in sentences]
    assert len(told) == len(set(told))
    assert set(verdict.reasons) <= set(told)
    assert Verdict.from_dict(verdict.to_dict()).sections == verdict.sections
    show_verdict(verdict, as_json=False)
    for text in (capsys.readouterr().out, _note(verdict)):
        order = [text.index(sentence) for sentence in told]
        assert order == sorted(order)


def test_what_voids_a_verdict_comes_before_what_else_was_seen():
    now = values(ward(60, 2), Lactate=3.0)
    config = CONFIG.with_options(minimum=100)
    verdict = evaluate_verdict(compare_windows(ward(300, 11), now, config), config)
    assert verdict.state == State.INCONCLUSIVE
    assert "too few" in verdict.headline
    assert verdict.steps[0] == "Audit a longer window."


def test_outcomes_that_look_worse_are_told_even_where_nothing_is_proven():
    now = ward(150, 2)
    risk = now.numbers["risk"]
    worse = (np.random.default_rng(3).random(150) < np.where(np.arange(150) % 3 == 0, risk.mean(), risk)).astype(float)
    verdict = judge(with_numbers(now, label=worse))
    (told,) = [text for text in verdict.reasons if text.startswith("Outcomes are known of 150 stays")]
    assert "AUROC" in told
    assert "calibration (observed minus predicted)" in told


def test_values_of_a_code_are_compared_by_their_quartiles():
    rng = np.random.default_rng(0)
    ids = np.array([f"s{i}" for i in range(80)])
    means = rng.normal(37, 0.4, 80)
    means[40:] += 1.0
    rows = ItemRows(ids, np.full(80, "T"), means).with_use(list(ids[:40]), list(ids[40:]))
    (item,) = rows.compared
    assert item.quartiles is not None
    assert item.medians is not None
    assert item.quartiles[1][1] - item.quartiles[0][1] == pytest.approx(1.0, abs=0.4)


def test_the_commands_in_the_steps_exist():
    from dynamask_mlflow.cli import main

    for command in (["audit", "reference"], ["audit", "labels"], ["gate"]):
        assert CliRunner().invoke(main, [*command, "--help"]).exit_code == 0


def in_wards(n: int, seed: int, **more: float):
    """Stays of two wards; the values of what is named are higher in the smaller one."""
    part = ward(n, seed)
    unit = np.where(np.arange(n) % 5 == 0, "MICU", "SICU")
    moved = values(part, **more).values
    return replace(part, values=np.where((unit == "MICU")[:, None], moved, part.values), attributes={"unit": unit})


def test_a_fault_of_one_ward_is_no_little_one_and_its_place_is_in_the_first_sentence():
    whole = in_wards(300, 11)
    reference, now = (part.coded(whole.input_edges()) for part in (whole, in_wards(200, 2, Lactate=5.0)))
    result = compare_windows(reference, now, CONFIG)
    assert result.inputs.value_gap[0] < FAR
    violations = [*detect_violations(result, CONFIG), *detect_warnings(result, CONFIG)]
    culprits = find_culprits(result, violations, reference, now, CONFIG)
    verdict = evaluate_verdict(result, CONFIG, culprits)
    assert verdict.headline.startswith("This fits another unit, scale or device for Lactate in unit MICU: values moved")
    assert verdict.steps[0].startswith("Lactate in unit MICU: ask who records it")
    assert [Culprit.from_dict(each) for each in json.loads(culprits_json(culprits))] == list(culprits)


def test_gaps_of_many_channels_together_are_shifted_times_rather_than_thinner_charting():
    verdict = judge(gaps(ward(150, 2), **dict.fromkeys(ward(150, 2).channel_names, 0.6)))
    assert "times that are shifted against the beginning of the stay" in verdict.headline
    assert any("compare their time stamps with the beginnings" in step for step in verdict.steps)


def test_other_patients_are_not_told_as_shifted_clocks_beside_a_list_of_inputs_that_moved():
    now = ward(150, 2)
    sicker = with_numbers(replace(now, values=now.values + 0.6), risk=np.minimum(now.numbers["risk"] + 0.2, 0.99))
    result = compare_windows(ward(300, 11), sicker, CONFIG)
    strict = CONFIG.with_options(alpha=1e-4, permutations=CONFIG.permutations * 1000)
    assert result.inputs.value_p.min() > strict.levels["inputs"]  # listed as moved, but not proven by an audit's level
    (hint,) = diagnose(result, [Violation(kind="predictions", subject="mean", message="It rose.")], strict)
    assert "case mix" in hint


def test_rows_of_one_stay_are_no_evidence_of_a_day_on_which_a_fault_began():
    told = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        stays = [f"stay {i}" for i in range(30)]
        days = {stay: f"2026-03-{i:02d}" for i, stay in enumerate(stays, start=1)}
        scores = np.repeat(rng.random(30), 3)  # nothing changed; each stay has three rows, one a shift of the day
        chosen = np.ones(90, dtype=bool)
        told += _since(scores, chosen, [stay for stay in stays for _ in range(3)], days, seed) is not None
    assert told <= 7  # of 60 at a level of .05


def test_a_plant_reads_of_cycles_and_of_no_ward():
    now = gaps(ward(150, 2), Lactate=0.6)
    verdict = evaluate_verdict(
        compare_windows(ward(300, 11), now, CONFIG), CONFIG.with_options(sequence_name="cycle", time_unit="second")
    )
    told = " ".join(text for _, sentences in verdict.sections for text in sentences)
    assert "of the cycles" in told
    for word in ("stay", "patient", "ward", "chart", "hour", "admission"):
        assert word not in told.lower()
    assert CONFIG.with_options(sequence_name="cycle").audit_digest == CONFIG.audit_digest


@pytest.mark.parametrize(("population", "more"), [(0, True), (60, False), (900, True)])
def test_more_stays_are_asked_for_where_there_are_more(population: int, more: bool) -> None:
    result = replace(compare_windows(ward(300, 11), ward(60, 2), CONFIG), population=population, sampled=60)
    (step,) = next_steps(State.INCONCLUSIVE, result, [Violation(kind="power", subject="in time", message="")], CONFIG)
    assert ("Explain more stays" in step) is more
    assert "longer window" in step


def test_an_age_has_no_unit_and_no_device() -> None:
    """What is the same all through a stay moves with who comes in, or with how it is written down."""
    result = compare_windows(ward(300, 11), values(ward(150, 2), Lactate=3.0), CONFIG)
    plain = evaluate_verdict(result, CONFIG)
    told = evaluate_verdict(replace(result, constant=("Lactate",)), CONFIG)
    assert (told.state, told.reasons) == (plain.state, plain.reasons)
    assert "another unit" in plain.diagnosis[0]
    assert told.diagnosis[0].startswith("This fits another mix of stays, or another way to record it, for Lactate:")
    assert any("whether other kinds of stays come in" in step for step in told.steps)
    assert not any("unit" in text for text in (*told.diagnosis, *told.steps))


def test_outcomes_that_are_known_but_few_are_not_asked_for() -> None:
    moved = values(ward(150, 2), Lactate=3.0)
    none, few = np.full(150, np.nan), np.where(np.arange(150) < 2, 1.0, 0.0)
    for outcomes, wanted in ((none, True), (few, False)):
        now = replace(moved, numbers={**moved.numbers, "label": outcomes})
        before = ward(300, 11)
        before = replace(before, numbers={**before.numbers, "label": np.arange(300) % 2.0})
        verdict = evaluate_verdict(compare_windows(before, now, CONFIG), CONFIG)
        assert any("Add the outcomes" in step for step in verdict.steps) is wanted, verdict.steps


def test_the_page_marks_no_channel_that_the_verdict_does_not_prove() -> None:
    """One channel may be beyond chance on its own while a move of attention is not proven at the level of an audit."""
    result = compare_windows(ward(300, 11), ward(150, 2), CONFIG)
    assert result.drift is not None
    arrays = AuditArrays(
        made_from=MadeFrom(reference_run_id="r", compared_with="r"), reference=ward(300, 11), current=ward(150, 2)
    )
    for p, kinds, marked in ((0.05, (), False), (0.0, ("attention",), True), (0.05, ("trend",), True)):
        test = replace(result.drift, p_value=p, channel_p=np.zeros_like(result.drift.channel_p))
        found = Comparison(replace(result, drift=test, trend=test), arrays)
        violations = tuple(Violation(kind=kind, subject="channels", message="") for kind in kinds)
        verdict = Verdict(state=State.DRIFT if kinds else State.WARNING, reasons=(), violations=violations)
        assert (_proven(found, verdict, CONFIG) is not None) is marked


def test_names_of_channels_break_no_line_and_fill_no_page() -> None:
    names = ("\x1b[2J\nState: ok", "L" * 10_000, "a\u202eb\u0007", "<script>{{ x }} %s {named}")
    before, now = (replace(part, channel_names=names) for part in (ward(300, 11), ward(150, 2)))
    shifted = replace(now, values=now.values + 3.0)
    verdict = evaluate_verdict(compare_windows(before, shifted, CONFIG), CONFIG)
    told = [text for _, sentences in verdict.sections for text in sentences]
    told += [violation.message for violation in verdict.violations]
    assert verdict.violations
    assert all(text.isprintable() and len(text) <= 4000 for text in told)
    assert any("<script>{{ x }} %s {named}" in text for text in told)
    assert len(_note(verdict)) < 50_000
