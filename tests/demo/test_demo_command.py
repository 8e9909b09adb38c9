from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("duckdb")

from dynamask_mlflow.cli import main
from dynamask_mlflow.cli.demo_steps import STEPS, DemoSettings, last_evaluation, store_uri

SMALL = ["--stays", "700", "--months", "2", "--instances", "6"]


def _settings(months: int) -> DemoSettings:
    return DemoSettings(Path(), 100, months, 0, 8, False)


def test_training_ends_before_the_first_planted_change_or_half_way() -> None:
    assert _settings(24).until == "2023-12"
    assert _settings(13).until == "2023-12"
    assert _settings(12).until == "2023-06"
    assert _settings(1).until == "2023-01"


@pytest.mark.slow
def test_the_demo_says_what_it_found_and_uses_its_data_and_model_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    monkeypatch.chdir(tmp_path)
    before = mlflow.get_tracking_uri(), mlflow.get_registry_uri()
    try:
        first = CliRunner().invoke(main, ["demo", *SMALL])
        assert first.exit_code == 0, first.output
        for words in ("ACC", "CE", "Entropy", "Where they look", "planted deterioration", "AUPRC", "make ui"):
            assert words in first.output
        assert f"[{len(STEPS)}/{len(STEPS)}]" in first.output
        assert "Registered as icu-mortality version 1, alias champion" in first.output
        second = CliRunner().invoke(main, ["demo", *SMALL])
        assert second.exit_code == 0, second.output
        assert second.output.count("is there and fits") == 2
        assert "version 1 was trained on these data with these settings" in second.output
        uri = store_uri(tmp_path / ".demo")
        found = last_evaluation(uri)
        assert found is not None
        client = mlflow.MlflowClient(tracking_uri=uri)
        run = client.get_run(found[1])
        assert run.data.metrics["dynamask/instances"] == 6
        assert "accuracy_score" in run.data.metrics
        assert run.data.metrics["truth/dynamask/auprc"] > run.data.metrics["truth/random/auprc"]
        assert any(name.startswith("truth/integrated_gradients_smoothed/auprc/.") for name in run.data.metrics)
        assert sorted(p.name for p in tmp_path.iterdir()) == [".demo"]
    finally:
        mlflow.set_tracking_uri(before[0])
        mlflow.set_registry_uri(before[1])


def test_the_ui_asks_for_the_demo_first(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["ui", "--folder", str(tmp_path)])
    assert done.exit_code == 3
    assert "run the demo first" in done.output
