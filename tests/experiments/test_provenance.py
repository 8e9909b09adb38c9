"""A trial is repeated when the code behind it has changed, and only then."""

import ast

import pytest
from edited_source import edited_source

from dynamask_mlflow._provenance import forget_files, normalized, reached, symbols_of
from dynamask_mlflow.experiments import provenance
from dynamask_mlflow.experiments.mimic import mimic_experiment
from dynamask_mlflow.experiments.provenance import code_digest
from dynamask_mlflow.experiments.registry import rare_experiment, state_experiment
from dynamask_mlflow.masks.registry import method_names

METHODS = ("nested", "paper", "ig", "fo", "extrmask")


def digests(monkeypatch: pytest.MonkeyPatch, changed: str = "", old: str = "", new: str = "") -> dict[str, str]:
    """The digests with one text in one file replaced by another."""
    provenance.engine.cache_clear()
    with edited_source(monkeypatch, changed, old, new):
        made = {method: code_digest(state_experiment(), method) for method in METHODS}
    provenance.engine.cache_clear()
    return made


def forget() -> None:
    forget_files()
    provenance.engine.cache_clear()


@pytest.mark.parametrize(
    ("changed", "old", "new", "felt"),
    [
        ("masks/nested.py", "import annotations\n", "import annotations\nEXTRA = 1\n", {"nested"}),
        ("masks/paper.py", "STEPS = 1000", "STEPS = 900", {"paper"}),
        ("masks/objective.py", "square().sum(1)", "abs().sum(1)", {"nested", "paper"}),
        ("saliency/gradients.py", "steps: int = 50", "steps: int = 60", {"ig"}),
        ("saliency/occlusion.py", "return -drop.detach()", "return drop.detach()", {"fo"}),
        ("saliency/question.py", "- y.mean(-1)", "- y.amin(-1)", {"ig", "fo", "extrmask"}),
        ("metrics/curves.py", "def aup(", "def other() -> None: ...\n\n\ndef aup(", set()),
        ("metrics/ranking.py", "/ 2, 0.0)", "/ 3, 0.0)", set(METHODS)),
        ("experiments/state.py", "stay: float | None = 0.95", "stay: float | None = 0.9", set(METHODS)),
        ("experiments/rare.py", "salient: int = 5", "salient: int = 6", set()),
        ("experiments/scores.py", '"""Each metric of each', '"""Every metric of each', set()),
    ],
)
def test_a_change_is_felt_by_those_who_use_it(
    changed: str, old: str, new: str, felt: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = digests(monkeypatch)
    after = digests(monkeypatch, changed, old, new)
    assert {method for method in METHODS if before[method] != after[method]} == felt


def test_settings_of_a_method_and_the_experiment_count() -> None:
    state = state_experiment()
    made = {name: code_digest(state, name) for name in (*state.presets, *method_names())}
    assert len(set(made.values())) == len(made)
    assert code_digest(rare_experiment("feature"), "ig") != code_digest(state, "ig")


def test_every_definition_that_a_case_needs_is_found() -> None:
    roots = list(symbols_of(mimic_experiment().score))
    found = reached(roots, provenance.JUDGED_BY)
    names = {name.rpartition(":")[2] for name, text in found.items() if text}
    assert {"replacement_scores", "AREAS", "cpd", "_removals", "cross_entropy_shift", "as_cells"} <= names
    assert "truth_scores" not in names


def test_layout_and_docstrings_do_not_count() -> None:
    one = ast.parse('def f(x):\n    """Says."""\n    return x + 1  # why\n')
    other = ast.parse("def f(x): return (x\n + 1)\n")
    assert normalized(one) == normalized(other)
