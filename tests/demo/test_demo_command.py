from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pages import read_file

pytest.importorskip("duckdb")

from dynamask_mlflow.cli import main
from dynamask_mlflow.cli.demo_steps import STEPS, DemoSettings, last_evaluation, store_uri

INSTANCES = 16  # enough for every part of the report
SMALL = ["--stays", "700", "--months", "2", "--instances", str(INSTANCES)]


def _settings(months: int) -> DemoSettings:
    return DemoSettings(Path(), 100, months, 0, 8, False)


def test_training_ends_before_the_first_planted_change_or_half_way() -> None:
    assert _settings(24).until == "2023-12"
    assert _settings(13).until == "2023-12"
    assert _settings(12).until == "2023-06"
    assert _settings(1).until == "2023-01"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """The folder of one small demo, and what it said."""
    import mlflow

    folder = tmp_path_factory.mktemp("demo")
    before = mlflow.get_tracking_uri(), mlflow.get_registry_uri()
    yield folder, run_demo(folder)
    mlflow.set_tracking_uri(before[0])
    mlflow.set_registry_uri(before[1])


def run_demo(folder: Path) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        done = CliRunner().invoke(main, ["demo", *SMALL])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.slow
def test_the_demo_says_what_it_found(demo: tuple[Path, str]) -> None:
    _, output = demo
    for words in ("ACC", "CE", "Entropy", "Where they look", "planted deterioration", "AUPRC", "make ui"):
        assert words in output
    assert f"[{len(STEPS)}/{len(STEPS)}]" in output
    assert "Registered as icu-mortality version 1, alias champion" in output


@pytest.mark.slow
def test_what_the_demo_says_to_type_next_works_as_typed(
    demo: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, output = demo
    monkeypatch.chdir(folder)
    told = output.split("On the same model and data:\n")[1].splitlines()
    export, explain, evaluate = (shlex.split(line) for line in told[:3])
    monkeypatch.setenv(*export[1].split("=", 1))
    assert evaluate[1] == "evaluate"
    done = CliRunner().invoke(main, explain[1:])
    assert done.exit_code == 0, done.output
    assert "salient cells" in done.output


@pytest.mark.slow
def test_a_second_demo_uses_the_data_and_the_model_of_the_first(demo: tuple[Path, str]) -> None:
    import mlflow

    folder, _ = demo
    output = run_demo(folder)
    assert output.count("is there and fits") == 2
    assert "version 1 was trained on these data with these settings" in output
    uri = store_uri(folder / ".demo")
    found = last_evaluation(uri)
    assert found is not None
    client = mlflow.MlflowClient(tracking_uri=uri)
    run = client.get_run(found[1])
    assert run.data.metrics["dynamask/instances"] == INSTANCES
    assert "accuracy_score" in run.data.metrics
    assert run.data.metrics["truth/dynamask/auprc"] > run.data.metrics["truth/random/auprc"]
    assert any(name.startswith("truth/integrated_gradients_smoothed/auprc/.") for name in run.data.metrics)
    assert sorted(p.name for p in folder.iterdir()) == [".demo"]


@pytest.mark.slow
@pytest.mark.browser
def test_the_demos_report_is_read_by_keyboard_without_a_complaint_or_a_violation(
    demo: tuple[Path, str], watch: Any
) -> None:
    folder, _ = demo
    assert read_file(watch, next(folder.glob(".demo/artifacts/*/artifacts/dynamask/report.html"))) == []


def test_the_ui_asks_for_the_demo_first(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["ui", "--folder", str(tmp_path)])
    assert done.exit_code == 3
    assert "run the demo first" in done.output
