"""What an audit tells people: the cause first, one sentence a finding, the evidence, what to do next."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from test_audit_predictions import CONFIG, ward, with_numbers

from dynamask_mlflow.audit import State
from dynamask_mlflow.audit.comparison import compare_windows
from dynamask_mlflow.audit.culprit import Culprit
from dynamask_mlflow.audit.items import Item, ItemRows
from dynamask_mlflow.audit.runs import _note
from dynamask_mlflow.audit.verdict import Verdict, evaluate_verdict
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
        (gaps(ward(150, 2), Lactate=0.6), (codes("Lactate", AS_BEFORE),), "thinner charting of", "ask the wards why"),
        (gaps(ward(150, 2), Lactate=0.6), (), "an interface that drops values", "who keep the interface"),
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
        "This fits thinner charting of Lactate",
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
