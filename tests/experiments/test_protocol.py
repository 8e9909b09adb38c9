"""Experiments run every (seed, method) once, judge all methods alike, and print the paper's table."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from dynamask_mlflow.cli.experiment import experiment as experiment_command
from dynamask_mlflow.cli.experiment import parse_seeds
from dynamask_mlflow.experiments.cases import motif_case, rare_case, state_case
from dynamask_mlflow.experiments.motif import MotifSetting
from dynamask_mlflow.experiments.protocol import ExperimentResult, Trial, run_experiment
from dynamask_mlflow.experiments.registry import rare_experiment, state_experiment
from dynamask_mlflow.experiments.state import StateSetting
from dynamask_mlflow.experiments.table import as_json, as_markdown, as_text, rows
from dynamask_mlflow.experiments.training import Training
from dynamask_mlflow.masks.result import Masks


def oracle(model: Any, x: np.ndarray, *, method: str, seed: int, task: str, **options: Any) -> Masks:
    """Knows the white box; the method "half" gives every cell .5."""
    truth = np.broadcast_to(model.salient.numpy(), x.shape).astype(np.float32)
    mask = np.full_like(truth, 0.5) if method == "half" else truth
    n = len(x)
    return Masks(masks=mask, scores=mask, areas=np.array([0.05]), errors=np.zeros((n, 1)), area=np.full(n, 0.05))


class Memory:
    def __init__(self) -> None:
        self.trials: dict[tuple[int, str], Trial] = {}

    def find(self, seed: int, method: str) -> Trial | None:
        return self.trials.get((seed, method))

    def add(self, trial: Trial) -> None:
        self.trials[trial.seed, trial.method] = trial


def test_a_perfect_mask_has_perfect_scores_and_a_vague_one_has_not() -> None:
    result = run_experiment(
        replace(rare_experiment("feature"), explain=oracle), methods=["truth", "half"], seeds=[0, 1]
    )
    for metric in ("aup", "aur", "information_ratio", "auroc", "auprc", "precision", "recall"):
        assert result.summary("truth", metric).mean == pytest.approx(1)
    assert result.summary("truth", "entropy").mean == 0
    assert result.summary("half", "aup").mean == pytest.approx(0.05)
    assert result.summary("half", "aur").mean == pytest.approx(0.5)
    assert result.summary("half", "entropy").mean == pytest.approx(125 * np.log(2))
    assert result.summary("half", "information").mean == pytest.approx(125 * np.log(2))
    assert result.summary("half", "auroc").mean == pytest.approx(0.5)


def test_finished_trials_are_not_repeated() -> None:
    calls: list[tuple[int, str]] = []

    def counted(model: Any, x: np.ndarray, **options: Any) -> Masks:
        calls.append((options["seed"], options["method"]))
        return oracle(model, x, **options)

    store = Memory()
    experiment = rare_experiment("time")
    run_experiment(replace(experiment, explain=counted), methods=["truth"], seeds=[0, 1], store=store)
    result = run_experiment(
        replace(experiment, explain=counted), methods=["truth", "half"], seeds=[0, 1, 2], store=store
    )
    assert sorted(calls) == [(0, "half"), (0, "truth"), (1, "half"), (1, "truth"), (2, "half"), (2, "truth")]
    assert len(result.trials) == 6


def test_presets_pass_the_papers_settings() -> None:
    seen: dict[str, Any] = {}

    def spy(model: Any, x: np.ndarray, **options: Any) -> Masks:
        seen.update(options)
        return oracle(model, x, method="truth", seed=0, task="regression")

    run_experiment(replace(rare_experiment("feature"), explain=spy), methods=["released"], seeds=[3])
    assert seen["method"] == "paper"
    assert seen["seed"] == 3
    assert seen["areas"][0] == 0.001
    assert seen["areas"][-1] == 0.05
    assert seen["momentum"] == 0.9


def test_mean_and_deviation_leave_out_what_is_undefined() -> None:
    trials = tuple(Trial(i, "m", {"aup": value}) for i, value in enumerate([0.5, 0.7, float("nan")]))
    summary = ExperimentResult("x", trials, {}).summary("m", "aup")
    assert summary.mean == pytest.approx(0.6)
    assert summary.deviation == pytest.approx(np.std([0.5, 0.7], ddof=1))
    assert summary.count == 2


def test_the_table_has_a_row_a_method_and_the_published_rows() -> None:
    experiment = rare_experiment("feature")
    result = run_experiment(replace(experiment, explain=oracle), methods=["truth"], seeds=[0, 1])
    table = rows(experiment, result)
    assert table[0][:3] == ["", "AUP", "AUR"]
    assert table[1][:3] == ["truth", "1.000 ± 0.000", "1.000 ± 0.000"]
    assert any("Dynamask" in row[0] and row[2] == "0.58 ± 0.03" for row in table)
    assert "1.000 ± 0.000" in as_text(table)
    assert as_markdown(table).splitlines()[1].count("---") == len(table[0])
    document = json.loads(as_json(experiment, result))
    assert document["summary"]["truth"]["aup"]["mean"] == 1
    assert len(document["trials"]) == 2


def test_cases_are_held_out_and_carry_the_models_accuracy(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNAMASK_CACHE", str(tmp_path))
    setting = StateSetting(series=30, train=20, steps=20, hidden=8, training=Training(epochs=1))
    case = state_case(0, 4, False, setting)
    assert case.x.shape == case.truth.shape == (4, 20, 3)
    assert 0 < case.facts["accuracy"] < 1
    with pytest.raises(ValueError, match="at most 10 instances, the held-out series, but got 11"):
        state_case(0, 11, False, setting)


def test_a_motif_case_shows_motifs_that_the_model_finds(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNAMASK_CACHE", str(tmp_path))
    case = motif_case(MotifSetting(steps=48, channels=6, length=6, strength=14.0, decoys=1), "tcn", 0, 5, True)
    assert case.truth.sum(axis=(1, 2)).tolist() == [6] * 5
    assert case.facts["accuracy"] >= 0.95


def test_rare_instances_share_one_white_box() -> None:
    case = rare_case("time", 0, 3, False)
    assert case.x.shape == (3, 50, 50)
    assert case.task == "regression"
    assert (case.truth[0] == case.truth[2]).all()


@pytest.mark.parametrize(("text", "seeds"), [("3", [0, 1, 2]), ("4,7", [4, 7]), ("4,", [4]), (None, None)])
def test_seeds_are_a_number_or_a_list(text: str | None, seeds: list[int] | None) -> None:
    assert parse_seeds(text) == seeds


def test_bad_input_on_the_command_line_is_explained() -> None:
    wrong = CliRunner().invoke(experiment_command, ["rare-feature", "--seeds", "many"])
    assert wrong.exit_code == 2
    assert "a number of seeds" in wrong.output
    unknown = CliRunner().invoke(experiment_command, ["rare-feature", "--quick", "--methods", "nestet"])
    assert unknown.exit_code == 3
    assert "nested" in unknown.output


def test_the_state_experiment_takes_the_literal_transition() -> None:
    assert state_experiment(StateSetting(stay=None)).name == "state"


def test_seeds_must_be_given_once() -> None:
    with pytest.raises(ValueError, match="no seed twice"):
        run_experiment(replace(rare_experiment("feature"), explain=oracle), seeds=[1, 1])
