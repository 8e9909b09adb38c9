from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from stores import new_store

torch = pytest.importorskip("torch")

from dynamask_mlflow.training import GRUClassifier, TrainConfig, calibration, fit, predict, score  # noqa: E402


def _sequences(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Positive where channel 0 is high in the last third."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 12, 3)).astype(np.float32)
    y = (np.arange(n) % 3 == 0).astype(np.float32)
    x[y == 1, 8:, 0] += 1.5
    return x, y


FAST = TrainConfig(units=16, epochs=12, patience=4, batch_size=32, threads=1, learning_rate=5e-3)


def test_it_learns_a_late_signal_and_ignores_the_other_channels() -> None:
    fitted = fit(_sequences(400, 0), _sequences(150, 1), FAST)
    x, y = _sequences(300, 2)
    assert score(predict(fitted.model, x), y)["auroc"] > 0.9
    changed = x.copy()
    changed[..., 1:] = 0
    assert np.corrcoef(predict(fitted.model, x), predict(fitted.model, changed))[0, 1] > 0.7


def test_the_same_seed_gives_the_same_network_and_leaves_the_global_stream_alone() -> None:
    torch.manual_seed(123)
    expected = torch.rand(3)
    torch.manual_seed(123)
    short = TrainConfig(units=8, epochs=2, threads=1)
    first, second = (fit(_sequences(100, 0), _sequences(60, 1), short) for _ in range(2))
    torch.testing.assert_close(torch.rand(3), expected)
    x, _ = _sequences(20, 5)
    np.testing.assert_array_equal(predict(first.model, x), predict(second.model, x))


def test_it_stops_early_and_goes_back_to_the_best_epoch() -> None:
    train = _sequences(60, 0)
    validation = _sequences(60, 1)
    hasty = TrainConfig(units=32, epochs=60, patience=3, threads=1, learning_rate=2e-2, dropout=0, channel_dropout=0)
    fitted = fit(train, validation, hasty)
    assert len(fitted.history) < 60
    assert fitted.best.epoch == len(fitted.history) - 4
    risk = predict(fitted.model, validation[0])
    loss = -np.mean(np.where(validation[1] == 1, np.log(risk), np.log(1 - risk)))
    assert loss == pytest.approx(fitted.best.validation_loss, rel=1e-4)


def test_the_default_network_is_the_paper_s() -> None:
    config = TrainConfig()
    assert (config.units, config.learning_rate) == (200, 1e-3)
    model = GRUClassifier(31)
    assert model(torch.zeros(2, 48, 31)).shape == (2, 2)
    assert model.gru.num_layers == 1


def test_channel_dropout_acts_in_training_only() -> None:
    model = GRUClassifier(5, units=4, channel_dropout=0.5)
    x = torch.ones(64, 6, 5)
    model.train()
    assert len(torch.unique(model(x).detach().round(decimals=5), dim=0)) > 1
    model.eval()
    assert len(torch.unique(model(x).detach().round(decimals=5), dim=0)) == 1


def test_scores_of_a_perfect_and_of_a_constant_risk() -> None:
    labels = np.array([0, 0, 0, 1.0])
    perfect = score(labels, labels)
    assert (perfect["auroc"], perfect["auprc"], perfect["brier"], perfect["calibration_error"]) == (
        1,
        1,
        0,
        0,
    )
    constant = score(np.full(4, 0.25), labels)
    assert constant["auroc"] == 0.5
    assert constant["brier"] == pytest.approx(0.1875)


def test_calibration_bins_hold_equal_numbers_in_order_of_risk() -> None:
    risk = np.linspace(0, 1, 100)
    table = calibration(risk, (risk > 0.5).astype(float), bins=4)
    assert [row["stays"] for row in table] == [25, 25, 25, 25]
    assert [row["observed"] for row in table] == [0, 0, 1, 1]
    assert table[0]["predicted"] == pytest.approx(risk[:25].mean())


@pytest.mark.parametrize(
    "options",
    [{"units": 0}, {"dropout": 1.0}, {"learning_rate": 0}, {"epochs": 0}, {"channel_dropout": -0.1}],
)
def test_impossible_settings_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="Expected"):
        TrainConfig(**options)  # type: ignore[arg-type]


def test_an_unknown_setting_names_the_nearest() -> None:
    with pytest.raises(ValueError, match="Did you mean 'dropout'"):
        TrainConfig.from_mapping({"dropuot": 0.1})


def test_one_label_only_is_refused() -> None:
    x, y = _sequences(30, 0)
    with pytest.raises(ValueError, match=r"both labels 0 and 1 in the validation stays, but got \[0.0\]"):
        fit((x, y), (x, np.zeros_like(y)), FAST)


def test_training_is_logged_registered_and_aliased_with_its_preprocessing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = pytest.importorskip("mlflow")
    pytest.importorskip("duckdb")
    from click.testing import CliRunner

    import dynamask_mlflow
    from dynamask_mlflow.cli import main
    from dynamask_mlflow.data import BuildConfig, Preprocessing, build, open_source
    from dynamask_mlflow.data.hospital import HospitalConfig, synthesize

    monkeypatch.chdir(tmp_path)
    dataset = build(
        open_source("synthetic", str(synthesize(tmp_path / "h", HospitalConfig(stays=400, months=2)))),
        BuildConfig(),
    )
    dataset.save(tmp_path / "set")
    store = new_store(tmp_path)
    before = mlflow.get_tracking_uri()
    try:
        options = [
            "--tracking-uri",
            store,
            "--name",
            "icu",
            "--alias",
            "champion",
            "--units",
            "8",
            "--epochs",
            "2",
        ]
        done = CliRunner().invoke(main, ["train", str(tmp_path / "set"), "--threads", "1", *options])
        assert done.exit_code == 0, done.output
        assert "AUROC" in done.output
        client = mlflow.MlflowClient()
        version = client.get_model_version_by_alias("icu", "champion")
        run = client.get_run(version.run_id)
        assert run.data.tags["dynamask.dataset_digest"] == dataset.digest
        assert len(client.get_metric_history(version.run_id, "validation_loss")) == 2
        assert {"test_auroc", "test_auprc", "test_calibration_error", "test_brier"} <= set(run.data.metrics)
        assert [i.dataset.name for i in run.inputs.dataset_inputs] == ["train", "validation", "test"]
        artifacts = {a.path for a in client.list_artifacts(version.run_id)}
        assert {"calibration.json", "dataset_report.json"} <= artifacts
        loaded = dynamask_mlflow.load_model("models:/icu@champion")
        assert Preprocessing.from_dict(loaded.settings.preprocessing) == dataset.preprocessing
        assert tuple(loaded.settings.channel_names) == dataset.channel_names
        risk = loaded.predict(dataset.part("test").x, "probability")
        assert risk.shape == (len(dataset.part("test")), 2)
    finally:
        mlflow.set_tracking_uri(before)
