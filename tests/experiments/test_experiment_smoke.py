"""Each experiment runs from the command line with the package's own methods, and our default beats chance."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from dynamask_mlflow.cli.experiment import experiment

SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("rare-feature", 0.99),
        ("rare-time", 0.99),
        pytest.param("state", 0.9, marks=SLOW),
        pytest.param("motif", 0.1, marks=SLOW),
    ],
)
def test_an_experiment_runs_end_to_end(
    name: str, least: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DYNAMASK_CACHE", str(tmp_path))
    arguments = [name, "--quick", "--seeds", "1", "--methods", "nested,ig,random", "--json"]
    outcome = CliRunner().invoke(experiment, arguments)
    assert outcome.exit_code == 0, outcome.output
    document = json.loads(outcome.stdout)
    assert document["experiment"] == name
    summary = document["summary"]
    assert summary["nested"]["auprc"]["mean"] > least
    assert summary["nested"]["auprc"]["mean"] > 2 * summary["random"]["auprc"]["mean"]
    assert summary["ig"]["auroc"]["mean"] > 0.9


def test_the_mimic_experiment_runs_on_the_synthetic_hospital_and_draws_its_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DYNAMASK_CACHE", str(tmp_path))
    folder = tmp_path / "figures"
    arguments = ["mimic", "--quick", "--methods", "nested,nested-deletion,random", "--json", "--figures", str(folder)]
    outcome = CliRunner().invoke(experiment, arguments)
    assert outcome.exit_code == 0, outcome.output
    summary = json.loads(outcome.stdout)["summary"]
    assert summary["nested-deletion"]["ce/0.1"]["mean"] > summary["random"]["ce/0.1"]["mean"]
    assert summary["nested-deletion"]["acc/0.1"]["mean"] <= summary["random"]["acc/0.1"]["mean"]
    names = {path.name for path in folder.iterdir()}
    assert {"mimic-ce-against-area.svg", "mimic-acc-against-area.svg", "mimic-patients.svg"} <= names
