from __future__ import annotations

import contextlib
import io
import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pytest
import torch
import yaml
from mlflow.exceptions import MlflowException
from small_evaluations import saved_classifier
from small_networks import (
    CHANNELS,
    NAMES,
    STEPS,
    GRUClassifier,
    Regressor,
    StepwiseClassifier,
    StepwiseRegressor,
    sequences,
)

import dynamask_mlflow
from dynamask_mlflow.tracking.untrusted import UntrustedModelError, load_untrusted

X, Y = sequences(8)


@pytest.fixture(scope="module")
def saved(network: GRUClassifier, tmp_path_factory: pytest.TempPathFactory) -> str:
    options = {"preprocessing": {"mean": [0.0, 1.0]}, "explain": {"seed": 7}}
    return saved_classifier(network, tmp_path_factory, input_example=X[:1], **options)


def eager(network: torch.nn.Module, x: np.ndarray = X) -> np.ndarray:
    with torch.no_grad():
        return network(torch.as_tensor(x)).softmax(-1).numpy()


def test_predict_gives_labels_by_default_and_probabilities_on_demand(saved: str, network: GRUClassifier) -> None:
    model = mlflow.pyfunc.load_model(saved)
    np.testing.assert_array_equal(model.predict(X), eager(network).argmax(1))
    shown = model.predict(X, params={"output": "probability"})
    np.testing.assert_allclose(shown, eager(network), atol=1e-6)


def test_predict_explains_when_the_params_ask_for_it(saved: str) -> None:
    model = mlflow.pyfunc.load_model(saved)
    settings = json.dumps({"operators": ["time_mean"]})
    rows = model.predict(X[:3], params={"explain": True, "area": 0.2, "steps": 10, "settings": settings})
    named = {"prediction", "probability", "target", "direction", "answer", "reference_answer", "area", "mask"}
    assert named <= set(rows)
    assert set(rows["direction"]) <= {"raised", "lowered", "unchanged"}
    moved = (rows["answer"] - rows["reference_answer"]).to_numpy()
    np.testing.assert_allclose(np.array(rows["attributions"].tolist()).sum(axis=(1, 2)), moved, atol=1e-3)
    assert rows["prediction"].tolist() == model.predict(X[:3]).tolist()
    expected = dynamask_mlflow.load_model(saved).explain(X[:3], area=0.2, steps=10, operators=["time_mean"])
    np.testing.assert_allclose(np.array(rows["mask"].tolist()), expected.masks, atol=1e-6)
    for wrong, message in (({"settings": "{"}, "Expected settings to be a JSON object"), ({"method": "x"}, "nested")):
        with pytest.raises(ValueError, match=message):
            model.predict(X[:3], params={"explain": True, **wrong})


def test_an_example_of_one_instance_does_not_fix_the_batch(saved: str) -> None:
    model = mlflow.pyfunc.load_model(saved)
    assert [len(model.predict(X[:n])) for n in (1, 2, 8)] == [1, 2, 8]


def test_gradients_by_the_input_are_those_of_the_eager_network(saved: str, network: GRUClassifier) -> None:
    def gradient(model: torch.nn.Module) -> torch.Tensor:
        x = torch.as_tensor(X).requires_grad_()
        return torch.autograd.grad(model(x)[:, 1].sum(), x)[0]

    loaded = dynamask_mlflow.load_model(saved)
    torch.testing.assert_close(gradient(loaded.network), gradient(network), atol=1e-6, rtol=1e-5)


def test_dropout_is_off_in_the_saved_graph_and_training_goes_on_afterwards(tmp_path: Path) -> None:
    network = GRUClassifier().train()
    dynamask_mlflow.save_model(network, tmp_path / "m", task="classification", input_example=X)
    assert network.training
    assert network.dropout.training
    loaded = dynamask_mlflow.load_model(str(tmp_path / "m"))
    np.testing.assert_array_equal(loaded.predict(X, "probability"), loaded.predict(X, "probability"))


def test_what_was_given_is_carried_along(saved: str) -> None:
    settings = dynamask_mlflow.load_model(saved).settings
    assert settings.channel_names == tuple(NAMES)
    assert settings.preprocessing == {"mean": [0.0, 1.0]}
    assert settings.config().seed == 7
    assert settings.config(seed=1).seed == 1


def test_preprocessing_is_not_applied_and_scaling_inside_the_network_is_explained_through(tmp_path: Path) -> None:
    class Scaled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = Regressor()
            self.register_buffer("mean", torch.full((CHANNELS,), 50.0))
            self.register_buffer("std", torch.tensor([1.0, 20.0, 1.0, 1.0]))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.network((x - self.mean) / self.std)

    statistics = {"mean": [50.0] * CHANNELS, "std": [1.0, 20.0, 1.0, 1.0]}
    raw = X * np.array(statistics["std"], dtype=np.float32) + 50
    for name, network in (("noted", Regressor()), ("inside", Scaled())):
        dynamask_mlflow.save_model(
            network, tmp_path / name, task="regression", input_example=raw, preprocessing=statistics
        )
    noted, inside = (dynamask_mlflow.load_model(str(tmp_path / name)) for name in ("noted", "inside"))
    np.testing.assert_allclose(noted.predict(raw), raw[:, -3:, 1].sum(axis=1), rtol=1e-5)
    np.testing.assert_allclose(inside.predict(raw), noted.predict(X), atol=1e-4)
    place = inside.explain(raw).scores.reshape(len(raw), -1).argmax(axis=1)
    read = {step * CHANNELS + 1 for step in range(STEPS - 3, STEPS)}
    assert set(place.tolist()) <= read


def test_the_folder_is_still_a_pytorch_model(saved: str, network: GRUClassifier) -> None:
    module = mlflow.pytorch.load_model(saved)
    with torch.no_grad():
        torch.testing.assert_close(module(torch.as_tensor(X)), network(torch.as_tensor(X)), atol=1e-6, rtol=1e-5)


def test_values_of_the_example_are_stored_only_on_demand(tmp_path: Path) -> None:
    secret = np.full((2, STEPS, CHANNELS), 123.4567, dtype=np.float32)
    for keep in (False, True):
        path = tmp_path / str(keep)
        dynamask_mlflow.save_model(Regressor(), path, task="regression", input_example=secret, keep_example=keep)
        texts = [file.read_bytes() for file in path.rglob("*") if file.is_file()]
        found = any(b"123.45" in text or np.float32(123.4567).tobytes() in text for text in texts)
        assert found is keep


@pytest.mark.parametrize(
    ("network", "task", "shape"),
    [
        (StepwiseClassifier(classes=3), "classification", (8, STEPS)),
        (Regressor(), "regression", (8,)),
        (StepwiseRegressor(), "regression", (8, STEPS)),
    ],
)
def test_other_outputs(network: torch.nn.Module, task: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    dynamask_mlflow.save_model(network, tmp_path / "m", task=task, input_example=X)
    assert mlflow.pyfunc.load_model(str(tmp_path / "m")).predict(X).shape == shape


def test_pickle_is_possible_when_asked_for(network: GRUClassifier, tmp_path: Path) -> None:
    dynamask_mlflow.save_model(
        network, tmp_path / "m", task="classification", input_example=X, serialization_format="pickle"
    )
    loaded = dynamask_mlflow.load_model(str(tmp_path / "m"))
    assert type(loaded.network).__name__ == "GRUClassifier"


def test_requirements_can_be_installed(saved: str) -> None:
    wanted = dynamask_mlflow.get_default_pip_requirements()
    assert f"dynamask_mlflow=={dynamask_mlflow.__version__}" in wanted
    assert not any("+" in line for line in wanted)
    assert (Path(saved) / "requirements.txt").read_text().split() == [
        "mlflow==" + mlflow.__version__,
        *wanted,
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"task": "clustering"}, "Expected task to be one of"),
        ({"output": "value"}, "Expected output to be one of .*'label', 'probability'.* but got 'value'"),
        ({"channel_names": ["a"]}, "Expected 4 channel_names, but got 1"),
        ({"input_example": X[0]}, r"Expected input_example of shape \(B, T, d\)"),
        ({"explain": {"step": 3}}, r"Unknown key 'step'\. Did you mean 'steps'"),
        ({"preprocessing": {"mean": X}}, "Expected preprocessing, explain and times that JSON can hold"),
    ],
)
def test_bad_settings_are_named_before_anything_is_written(
    options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    given = {"task": "classification", "input_example": X, **options}
    with pytest.raises(ValueError, match=message):
        dynamask_mlflow.save_model(GRUClassifier(), tmp_path / "m", **given)
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("wrong", [X[0], X[:, :5], X[:, :, :2]])
def test_inputs_of_another_shape_are_refused(saved: str, wrong: np.ndarray) -> None:
    with pytest.raises(MlflowException, match="does not match expected shape"):
        mlflow.pyfunc.load_model(saved).predict(wrong)


def test_an_untrusted_model_without_code_is_loaded(saved: str) -> None:
    assert load_untrusted(saved).predict(X).shape == (8,)
    assert dynamask_mlflow.load_model(saved, untrusted=True).settings.task == "classification"


def edit(folder: Path, change: Any) -> None:
    described = yaml.safe_load((folder / "MLmodel").read_text())
    change(described["flavors"])
    (folder / "MLmodel").write_text(yaml.safe_dump(described))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f["python_function"].update(code="code"), "Expected a model without code"),
        (
            lambda f: f["python_function"].update(loader_module="evil"),
            "Expected one of the loaders .* 'evil'",
        ),
        (lambda f: f["pytorch"].update(code="code"), "Expected a model without code"),
        (lambda f: f["pytorch"].update(model_data="../../elsewhere"), "Expected model_data inside"),
        (lambda f: f.update(sklearn={}), "Expected only the flavors"),
    ],
)
def test_an_untrusted_model_that_could_run_code_is_refused(
    network: GRUClassifier, tmp_path: Path, change: Any, message: str
) -> None:
    folder = tmp_path / "m"
    dynamask_mlflow.save_model(network, folder, task="classification", input_example=X)
    # A loader of the attacker's own, which says so when it runs.
    (folder / "code").mkdir()
    (folder / "code" / "evil.py").write_text("def _load_pyfunc(path):\n    raise SystemExit('it ran')\n")
    edit(folder, change)
    with pytest.raises(UntrustedModelError, match=message):
        load_untrusted(str(folder))


def test_an_untrusted_pickle_is_refused(network: GRUClassifier, tmp_path: Path) -> None:
    dynamask_mlflow.save_model(
        network, tmp_path / "m", task="classification", input_example=X, serialization_format="pickle"
    )
    with pytest.raises(UntrustedModelError, match="the model holds pickles"):
        load_untrusted(str(tmp_path / "m"))


def test_a_poisoned_archive_is_refused(saved: str, tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "it-ran",))

    shutil.copytree(saved, tmp_path / "m")
    archive = next((tmp_path / "m").rglob("*.pt2"))
    checkpoint = io.BytesIO()
    torch.save(Bomb(), checkpoint)
    with zipfile.ZipFile(io.BytesIO(archive.read_bytes())) as before, zipfile.ZipFile(archive, "w") as after:
        for name in before.namelist():
            poisoned = "sample_inputs" in name and name.endswith(".pt")
            after.writestr(name, checkpoint.getvalue() if poisoned else before.read(name))
    load_untrusted(str(tmp_path / "m"))  # the record is left out
    assert not (tmp_path / "it-ran").exists()
    with contextlib.suppress(Exception):  # loaded as a trusted model it does run: the test can fail
        mlflow.pyfunc.load_model(str(tmp_path / "m"))
    assert (tmp_path / "it-ran").exists()


def test_settings_of_an_unknown_kind_are_refused(saved: str, tmp_path: Path) -> None:
    shutil.copytree(saved, tmp_path / "m")
    path = tmp_path / "m" / "dynamask.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "execute": "me"}))
    with pytest.raises(ValueError, match="Unknown key 'execute'"):
        dynamask_mlflow.load_model(str(tmp_path / "m"))


@pytest.mark.parametrize(
    "change",
    [
        {"steps": "10"},
        {"channels": None},
        {"explain": 5},
        {"channel_names": 5},
        {"task": []},
    ],
    ids=str,
)
def test_malformed_settings_are_named(saved: str, tmp_path: Path, change: dict[str, Any]) -> None:
    shutil.copytree(saved, tmp_path / "m")
    path = tmp_path / "m" / "dynamask.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    for untrusted in (False, True):
        with pytest.raises(ValueError, match="Expected"):
            dynamask_mlflow.load_model(str(tmp_path / "m"), untrusted=untrusted)
    path.write_text("[]")
    with pytest.raises(ValueError, match="but got list"):
        dynamask_mlflow.load_model(str(tmp_path / "m"))


@pytest.mark.parametrize(
    ("option", "words"),
    [("chanel_names", "Did you mean 'channel_names'"), ("class_names", r"labels=\{'class_names': \.\.\.\}")],
)
def test_an_option_that_nothing_takes_is_named(network: GRUClassifier, tmp_path: Path, option: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        dynamask_mlflow.save_model(
            network, tmp_path / "gru", task="classification", input_example=X[:1], **{option: ["a", "b"]}
        )
    assert not (tmp_path / "gru").exists()
