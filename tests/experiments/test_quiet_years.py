"""Simulated years of audits: screening leaves no alarm out, and pages keep what another run has written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dynamask_mlflow.audit import AuditConfig
from dynamask_mlflow.audit.explained_window import ExplainedWindow
from dynamask_mlflow.audit.statistics import Permutations
from dynamask_mlflow.experiments.drift.document import update_document
from dynamask_mlflow.experiments.drift.draws import STAGES, alarms, draw, screening
from dynamask_mlflow.experiments.drift.years import ARMS, as_table, summarize

STEPS, CHANNELS = 12, 4
CONFIG = AuditConfig(permutations=4799, minimum=40, progress=False)


def population(n: int, seed: int) -> ExplainedWindow:
    rng = np.random.default_rng(seed)
    risk = rng.beta(2, 6, n)
    own = rng.random(n)
    return ExplainedWindow(
        ids=np.arange(n).astype(str),
        patients=np.arange(n).astype(str),
        by_channel=rng.dirichlet(np.array([4.0, 3.0, 2.0, 1.0]) * 5, size=n),
        by_time=rng.dirichlet(np.full(STEPS, 5.0), size=n),
        numbers={
            "area": rng.random(n),
            "entropy": rng.random(n),
            "ce": rng.random(n),
            "acc": rng.random(n),
            "own": own + 0.5,
            "other": own,
            "mean_map": own,
            "risk": risk,
            "label": (rng.random(n) < risk).astype(np.float64),
        },
        values=rng.normal(size=(n, CHANNELS)),
        missing=rng.random((n, CHANNELS)),
        codes=np.zeros((n, 0), dtype=np.int8),
        effects=rng.random((n, CHANNELS)) * [3.0, 1.0, 1.0, 1.0],
        attention=np.zeros((STEPS, CHANNELS)),
        masks=np.zeros((0, STEPS, CHANNELS), dtype=np.float32),
        failures={},
        channel_names=("Lactate", "SpO2", "HeartRate", "Temp"),
        times=tuple(float(t) for t in range(STEPS)),
        attributes={"sex": np.where(rng.random(n) < 0.5, "female", "male")},
    )


@pytest.fixture(scope="module")
def pool() -> ExplainedWindow:
    return population(600, 0)


@pytest.mark.parametrize("kind", ["nothing", "risk", "outcomes", "inputs"])
def test_screening_leaves_no_alarm_out(pool: ExplainedWindow, kind: str):
    """Every change is a selection of stays, so weak that the audits are near the levels."""
    risk, label, place = pool.numbers["risk"], pool.numbers["label"], np.arange(len(pool))
    chosen = {
        "nothing": place >= 0,
        "risk": (risk > np.median(risk)) | (place % 2 == 0),
        "outcomes": (label > 0) | (place % 3 == 0),
        "inputs": (pool.values[:, 0] > 0.2) | (place % 3 == 0),
    }[kind]
    after = pool.take(np.flatnonzero(chosen))
    rng = np.random.default_rng(3)
    before = draw(pool, 250, rng)
    windows = [draw(after, 150, rng) for _ in range(5)]
    screened, full = (alarms(CONFIG, before, windows, ("sex",), stages) for stages in (STAGES, ()))
    assert screened == full
    assert any(full) == (kind != "nothing")


def test_the_permutations_of_a_screening_are_the_first_of_the_full_audit():
    current = np.arange(900) >= 500
    few = Permutations(current, np.arange(900).astype(str), STAGES[0], 7)
    many = Permutations(current, np.arange(900).astype(str), 4799, 7)
    np.testing.assert_array_equal(few.few, many.all[: STAGES[0] + 1])


@pytest.mark.parametrize("by", [(), ("sex",)])
@pytest.mark.parametrize("permutations", STAGES)
def test_what_a_screening_leaves_cannot_reach_a_level_any_more(permutations: int, by: tuple[str, ...]):
    """The fewest permutations that are as extreme as what was observed, where a test found nothing, are too many."""
    config = CONFIG.with_options(by=by, permutations=5999)
    few = screening(config, permutations)
    for name, level in few.levels.items():
        rows = np.floor(level * (permutations + 1) + 1e-9) + 1
        assert rows / (config.permutations + 1) > config.levels[name]
        assert level >= 20 * config.levels[name]


def test_a_year_counts_once_however_many_of_its_audits_alarm():
    series = [[["inputs"], ["inputs", "predictions"]], [[], []], [["subgroup"], []]]
    rows = {row.arm: row for row in summarize("hospital", series, ARMS)}
    assert [rows[arm].alarmed for arm in ("any", "inputs", "predictions", "subgroups")] == [1, 1, 1, 1]
    assert rows["outcomes"].upper == pytest.approx(1 - 0.05 ** (1 / 3))


def test_rows_of_another_data_set_stay_when_one_is_made_again(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text("Before.\n<!-- years table -->\n<!-- /years table -->\nAfter.\n", encoding="utf-8")
    quiet, loud = [[[]]], [[["inputs"]]]
    arms = {"inputs": {"inputs"}}
    for source, series in (("hospital", quiet), ("physionet", quiet), ("hospital", loud)):
        update_document(str(page), "years", as_table(summarize(source, series, arms)), [f"{source}: checked."])
    text = page.read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ") and "inputs" in line]
    assert [row.split(" | ")[0] for row in rows] == ["| physionet", "| hospital"]
    assert [row.split(" | ")[2] for row in rows] == ["0", "1"]
    assert text.count("- hospital: checked.") == text.count("- physionet: checked.") == 1
    assert text.startswith("Before.\n")
    assert text.endswith("After.\n")


def test_a_table_is_not_mixed_with_rows_of_other_columns(tmp_path: Path):
    page = tmp_path / "page.md"
    old = "| data | years |\n| --- | --- |\n| physionet | 3 |\n"
    page.write_text(f"<!-- years table -->\n{old}<!-- /years table -->\n", encoding="utf-8")
    table = as_table(summarize("hospital", [[[]]], {"inputs": {"inputs"}}))
    with pytest.raises(ValueError, match="6 columns"):
        update_document(str(page), "years", table)
    with pytest.raises(ValueError, match="marks"):
        update_document(str(page), "outcomes", table)
