"""The model is used as it is, and left as it was."""

import copy
from collections.abc import Callable

import numpy as np
import pytest
import torch
from networks import Convolutional, Recurrent, sequences
from torch import Tensor, nn

from dynamask_mlflow import explain
from dynamask_mlflow.masks.black_box import frozen, open_black_box
from dynamask_mlflow.masks.errors import ModelError
from dynamask_mlflow.masks.predict import predict

CPU = torch.device("cpu")


def flags(model: nn.Module) -> list[tuple[bool, object]]:
    modules = [(m.training, getattr(m, "dropout", None)) for m in model.modules()]
    return modules + [(p.requires_grad, None) for p in model.parameters()]


@pytest.mark.parametrize("model", [Recurrent(dropout=0.3), Convolutional()])
@pytest.mark.parametrize("training", [True, False])
def test_everything_is_restored(model: nn.Module, training: bool) -> None:
    model.train(training)
    next(model.parameters()).requires_grad_(False)
    before, state = flags(model), copy.deepcopy(model.state_dict())
    explain(model, sequences(), steps=3, progress=False)
    assert flags(model) == before
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())


def test_everything_is_restored_after_an_exception() -> None:
    model = Recurrent(dropout=0.3).train()
    before = flags(model)

    def fail_inside() -> None:
        with frozen(model, CPU):
            raise KeyError("on purpose")

    with pytest.raises(KeyError):
        fail_inside()
    assert flags(model) == before


def test_recurrent_layers_alone_are_in_training_mode_with_dropout_off() -> None:
    model = Recurrent(dropout=0.3).eval()
    with frozen(model, CPU):
        assert model.gru.training
        assert model.gru.dropout == 0
        assert not model.drop.training
        assert not any(p.requires_grad for p in model.parameters())


@pytest.mark.parametrize(
    ("shape", "task", "expected"),
    [
        ((3,), "regression", (3, 1, 1)),
        ((3, 2), "regression", (3, 1, 2)),
        ((3, 10), "regression", (3, 10, 1)),
        ((3, 10, 2), "regression", (3, 10, 2)),
        ((3, 4, 2), "regression", (3, 4, 2)),
        ((3,), "classification", (3, 1, 2)),
        ((3, 1), "classification", (3, 1, 2)),
        ((3, 5), "classification", (3, 1, 5)),
        ((3, 10), "classification", (3, 10, 2)),
        ((3, 10, 3), "classification", (3, 10, 3)),
    ],
)
def test_outputs_of_every_shape_are_read(shape: tuple[int, ...], task: str, expected: tuple[int, ...]) -> None:
    weight = torch.randn(shape[1:])

    def model(x: torch.Tensor) -> torch.Tensor:
        return x.sum((1, 2)).view(-1, *[1] * len(shape[1:])) * weight

    x = sequences()
    assert open_black_box(model, x, task)(x).shape == expected
    masks = explain(model, x, task=task, steps=2, progress=False)
    assert masks.masks.shape == x.shape


def test_logits_and_probabilities_give_the_same_reading() -> None:
    model = Recurrent().eval()
    x = sequences(6)
    logits = open_black_box(model, x, "classification")
    chances = open_black_box(lambda z: model(z).softmax(-1), x, "classification")
    assert (logits.output, chances.output) == ("logits", "probabilities")
    torch.testing.assert_close(logits(x).softmax(-1), chances(x).softmax(-1))
    single = open_black_box(lambda z: model(z).softmax(-1)[:, 1], x, "classification")
    assert single.output == "probabilities"
    torch.testing.assert_close(single(x).softmax(-1), chances(x).softmax(-1))


def test_a_logit_between_zero_and_one_is_not_taken_for_a_probability() -> None:
    x = sequences(1).abs()
    assert open_black_box(lambda z: 0.5 * z.tanh().mean((1, 2)), x, "classification").output == "logits"


def test_predictions_are_probabilities_or_values() -> None:
    x = sequences(5)
    chances = predict(Recurrent(), x.numpy(), batch_size=2)
    assert chances.shape == (5, 2)
    np.testing.assert_allclose(chances.sum(1), 1, rtol=1e-5)
    assert predict(Recurrent(per_step=True), x).shape == (5, 10, 2)
    assert predict(lambda z: z.sum((1, 2)), x, task="regression").shape == (5,)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda x: x.argmax(1).sum(1), "as floats, but the model returned torch.int64"),
        (lambda x: x.sum((1, 2)) / 0, "finite outputs"),
        (lambda x: x.sum(), r"shape \(B,\)"),
        (lambda x: x.sum((0, 2)), r"but got \(10,\)"),
        (lambda x: {"a": 1}, "one tensor, but got dict"),
        (nn.Linear(7, 1), r"takes inputs of shape \(B, 10, 4\), but it failed with RuntimeError"),
        ("no model", "but got str"),
    ],
)
def test_models_that_cannot_be_explained_are_refused_with_the_reason(model: object, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        explain(model, sequences(), task="regression", progress=False)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros((3, 4)), r"\(N, T, d\)"),
        (np.zeros((0, 4, 2)), r"but got \(0, 4, 2\)"),
        (np.full((1, 4, 2), np.inf), "8 cells are infinite"),
        (np.full((1, 4, 2), np.nan), "at least one measured cell an instance, but 1 of 1"),
        (np.zeros((1, 4, 2), dtype=complex), "real numbers"),
    ],
)
def test_bad_inputs_are_named(x: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        explain(Recurrent(2), x, progress=False)


@pytest.mark.parametrize(
    "turn",
    [Tensor.to_sparse, lambda y: y.to("meta"), lambda y: torch.complex(y, y)],
    ids=["sparse", "meta", "complex"],
)
def test_outputs_that_cannot_be_read_are_named(turn: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(ModelError, match="Expected dense outputs of real numbers, but the model returned torch"):
        explain(lambda x: turn(x.sum(1)[:, :2]), torch.randn(4, 10, 3), progress=False)


@pytest.mark.parametrize("turn", [Tensor.to_sparse, lambda x: x.to("meta")], ids=["sparse", "meta"])
def test_inputs_that_cannot_be_read_are_named(turn: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(ValueError, match="Expected a dense x"):
        explain(lambda x: x.sum(1)[:, :2], turn(torch.randn(4, 10, 3)), progress=False)
