"""Models that take more than x, another layout or precision, or return more than one tensor."""

import logging
from collections import namedtuple
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dynamask_mlflow import explain
from dynamask_mlflow._settings import ConfigError
from dynamask_mlflow.masks.config import ExplainConfig
from dynamask_mlflow.masks.errors import ModelError
from dynamask_mlflow.masks.model_output import read_output
from dynamask_mlflow.masks.predict import predict
from dynamask_mlflow.masks.side_inputs import SideInputs, durations_of, gaps_between, left_after_removal

N, STEPS, CHANNELS = 20, 12, 3
_RNG = np.random.default_rng(0)
X = _RNG.normal(size=(N, STEPS, CHANNELS)).astype(np.float32)
LENGTHS = _RNG.integers(6, STEPS + 1, N)
OBSERVED = _RNG.random(X.shape) < 0.6
STATIC = _RNG.normal(size=(N, 2))
FILLED = X * OBSERVED


def explained(model: Any, x: Any = X, **options: Any) -> Any:
    return explain(model, x, progress=False, **options)


def mean_of_channel_1(x: Tensor, lengths: Tensor) -> Tensor:
    """Reads the steps that exist alone."""
    exists = torch.arange(x.shape[1])[None] < lengths[:, None]
    return (x[:, :, 1] * exists).sum(1) / lengths


def by_name_alone(x: Tensor, *, lengths: Tensor) -> Tensor:
    return mean_of_channel_1(x, lengths)


def all_by_name(*, values: Tensor, lengths: Tensor) -> Tensor:
    return mean_of_channel_1(values, lengths)


def by_padding_mask(x: Tensor, padding_mask: Tensor | None = None) -> Tensor:
    return mean_of_channel_1(x, (~padding_mask).sum(1)) if padding_mask is not None else x.mean((1, 2))


def by_mask(x: Tensor, mask: Tensor | None = None) -> Tensor:
    return by_padding_mask(x, mask)


def by_dictionary(batch: dict[str, Tensor]) -> Tensor:
    return mean_of_channel_1(batch["values"], batch["sizes"])


class Everything(nn.Module):
    """A logit of measured values of channel 0, a static feature and the time since the last measurement, in float64."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(2.0, dtype=torch.float64))

    def forward(self, x: Tensor, observed: Tensor, static: Tensor, gaps: Tensor) -> dict[str, Tensor]:
        logit = (x * observed)[:, :, 0].sum(1) + self.weight * static[:, 1] + 0.1 * gaps.mean((1, 2))
        return {"loss": logit.sum(), "logits": torch.stack([torch.zeros_like(logit), logit], 1)}


@pytest.mark.parametrize(
    ("model", "options"),
    [
        (mean_of_channel_1, {}),
        (by_padding_mask, {}),
        (by_name_alone, {}),
        (all_by_name, {}),
        (by_mask, {"inputs": {"x": "x", "mask": "padding_mask"}}),
        (by_dictionary, {"inputs": {"values": "x", "sizes": "lengths"}}),
    ],
)
def test_lengths_reach_the_model_in_every_form(model: Any, options: dict[str, Any]) -> None:
    masks = explained(model, task="regression", lengths=LENGTHS, **options)
    cells = np.arange(STEPS) < LENGTHS[:, None]
    np.testing.assert_allclose(masks.diagnostics["answer"], (X[:, :, 1] * cells).sum(1) / LENGTHS, rtol=1e-5)
    assert not masks.binary[:, :, [0, 2]].any()
    assert not masks.binary[~cells].any()


def test_the_mask_of_an_instance_of_several_inputs_is_the_same_in_any_batch() -> None:
    given = {"observed": OBSERVED, "extras": {"static": STATIC}}
    whole = explained(Everything(), FILLED, **given)
    order = np.array([7, 3, 3, 11])
    part = explained(Everything(), FILLED[order], observed=OBSERVED[order], extras={"static": STATIC[order]})
    for name in ("masks", "scores", "attributions", "static_attributions", "deletion_scores"):
        np.testing.assert_array_equal(getattr(part, name), getattr(whole, name)[order], err_msg=name)


def by_any_name(**batch: Tensor) -> Tensor:
    return mean_of_channel_1(batch["signal"], batch["sizes"])


def test_a_model_that_takes_any_name_needs_to_be_told() -> None:
    with pytest.raises(
        ModelError, match=r"takes any \(\*\*\): say inputs={name: 'x', ...}. The data have 'x', 'lengths'"
    ):
        explained(by_any_name, lengths=LENGTHS, task="regression")
    told = explained(by_any_name, lengths=LENGTHS, task="regression", inputs={"signal": "x", "sizes": "lengths"})
    named = explained(mean_of_channel_1, lengths=LENGTHS, task="regression")
    np.testing.assert_array_equal(told.masks, named.masks)


class ByNameAlone(nn.Module):
    def forward(self, x: Tensor, *, lengths: Tensor) -> Tensor:
        exists = torch.arange(x.size(1)).unsqueeze(0) < lengths.unsqueeze(1)
        return (x[:, :, 1] * exists).sum(1) / lengths


def test_names_of_torchscript_are_known() -> None:
    script = torch.jit.script(ByNameAlone())  # type: ignore[no-untyped-call]
    masks = explained(script, lengths=LENGTHS, task="regression")
    named = explained(mean_of_channel_1, lengths=LENGTHS, task="regression")
    np.testing.assert_allclose(masks.masks, named.masks, atol=1e-5)


class Padded(nn.Module):
    def forward(self, x: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        return by_padding_mask(x, padding_mask)


def test_the_network_inside_a_wrapper_tells_what_it_takes(caplog: pytest.LogCaptureFixture) -> None:
    """`torch.compile` and DataParallel take anything; the optional mask inside must not be forgotten."""
    wrapped = nn.DataParallel(Padded())
    masks = explained(wrapped, lengths=LENGTHS, task="regression")
    np.testing.assert_array_equal(masks.masks, explained(Padded(), lengths=LENGTHS, task="regression").masks)
    assert not caplog.text

    def decorated(*values: Tensor) -> Tensor:
        return by_padding_mask(*values)

    explained(decorated, lengths=LENGTHS, task="regression")
    assert "the data have 'lengths', which the model is not given" in caplog.text


def test_static_numbers_in_one_row_are_given_as_such() -> None:
    """An age is (N,) in most tables: the model takes it so, and it is a static feature all the same."""

    def risk(x: Tensor, age: Tensor) -> Tensor:
        assert age.shape == (len(x),)
        return x[:, 2, 0] + 3 * age

    masks = explained(risk, task="regression", extras={"age": STATIC[:, 0]})
    np.testing.assert_allclose(masks.static_attributions[:, 0], 3 * STATIC[:, 0], rtol=1e-4, atol=1e-5)


def test_a_convolution_on_as_many_steps_as_channels_asks_for_its_layout(caplog: pytest.LogCaptureFixture) -> None:
    network = nn.Sequential(nn.Conv1d(3, 2, 3, padding=1), nn.AdaptiveAvgPool1d(1), nn.Flatten())
    explained(network, X[:2, :3], layout="channels_first")
    assert not caplog.text
    explained(network, X[:2, :3])
    assert "Say layout='channels_first' if it takes (B, d, T)" in caplog.text


@pytest.mark.parametrize("operators", [None, ("missing",)])
def test_static_features_get_what_they_contribute(operators: Any) -> None:
    masks = explained(
        Everything(),
        FILLED,
        observed=OBSERVED,
        extras={"static": STATIC},
        operators=operators,
        static_baseline={"static": [0.0, 0.5]},
    )
    assert masks.config["static"] == ["static:0", "static:1"]
    np.testing.assert_allclose(masks.static_attributions[:, 1], 2 * (STATIC[:, 1] - 0.5), atol=0.02)
    np.testing.assert_allclose(masks.static_attributions[:, 0], 0, atol=1e-6)
    total = masks.attributions.sum((1, 2)) + masks.static_attributions.sum(1)
    np.testing.assert_allclose(total, masks.diagnostics["answer"] - masks.diagnostics["reference_answer"], atol=1e-4)
    assert masks.masks.shape == X.shape


def counts_measurements(x: Tensor, observed: Tensor) -> Tensor:
    return observed[:, 3:6, 2].sum(1) + 0 * x.sum((1, 2))


def test_being_measured_is_found_by_removing_cells_from_the_mask_alone() -> None:
    values = explained(counts_measurements, FILLED, observed=OBSERVED, task="regression")
    assert values.diagnostics["constant_prediction"].all()
    missing = explained(counts_measurements, FILLED, observed=OBSERVED, task="regression", operators="missing")
    truth = np.zeros(X.shape, dtype=bool)
    truth[:, 3:6, 2] = True
    np.testing.assert_array_equal(missing.attributions > 0.5, truth & OBSERVED)


def test_missing_is_asked_for_alone() -> None:
    with pytest.raises(ConfigError, match="operator 'missing' alone"):
        explained(counts_measurements, FILLED, observed=OBSERVED, operators=("missing", "zero"))


def test_predictions_without_cells_are_those_of_data_that_never_had_them() -> None:
    removed = np.zeros(X.shape, dtype=bool)
    removed[:, 4:8, 0] = True
    removed &= OBSERVED
    side = SideInputs(None, OBSERVED, {"static": STATIC})
    found = predict(Everything(), FILLED, side=side, removed=removed)
    left = SideInputs(None, OBSERVED & ~removed, {"static": STATIC})
    np.testing.assert_allclose(found, predict(Everything(), FILLED * ~removed, side=left), atol=1e-6)
    twice = predict(Everything(), np.concatenate([FILLED, FILLED]), side=side)
    np.testing.assert_array_equal(twice[:N], twice[N:])


def test_values_carried_forward_go_with_the_cell_that_they_came_from() -> None:
    x = torch.tensor([[[1.0], [1.0], [5.0], [5.0], [7.0]]])
    observed = torch.tensor([[[1.0], [0.0], [1.0], [0.0], [1.0]]])
    torch.testing.assert_close(left_after_removal(x, torch.ones_like(x), observed), x)
    presence = torch.tensor([[[1.0], [1.0], [0.0], [1.0], [1.0]]])
    torch.testing.assert_close(left_after_removal(x, presence, observed)[0, :, 0], torch.tensor([1.0, 1, 1, 1, 7]))


def test_gaps_grow_until_a_channel_is_measured_and_tell_the_time_between_steps() -> None:
    observed = torch.tensor([[[1.0], [0.0], [0.0], [1.0], [0.0]]])
    hours = torch.tensor([[[0.0], [2.0], [1.0], [1.0], [3.0]]])
    gaps = gaps_between(observed, hours)
    assert gaps[0, :, 0].tolist() == [0, 2, 3, 4, 3]
    torch.testing.assert_close(durations_of(gaps, observed), hours)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_a_network_is_asked_in_the_precision_of_its_weights(dtype: torch.dtype) -> None:
    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.recurrent = nn.GRU(CHANNELS, 4, batch_first=True)
            self.head = nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.recurrent(x)[0][:, -1])

    torch.manual_seed(0)
    network = Network()
    plain = explained(network, X[:4])
    masks = explained(network.to(dtype), X[:4])
    tolerance = 1e-5 if dtype == torch.float64 else 0.1
    np.testing.assert_allclose(masks.diagnostics["answer"], plain.diagnostics["answer"], atol=tolerance)
    assert next(network.parameters()).dtype == dtype


def test_channels_first() -> None:
    torch.manual_seed(0)
    convolution = nn.Conv1d(CHANNELS, 2, 3)

    def model(x: Tensor) -> Tensor:
        return convolution(x).mean(2)

    masks = explained(model, layout="channels_first")
    np.testing.assert_array_equal(masks.masks, explained(lambda x: model(x.transpose(1, 2))).masks)
    with pytest.raises(ModelError, match="say layout='channels_first'"):
        explained(model)


Pair = namedtuple("Pair", ["hidden", "logits"])


@pytest.mark.parametrize(
    ("wrap", "key"),
    [
        (lambda y, z: (y, z), None),
        (lambda y, z: {"hidden": z, "prediction_logits": y}, None),
        (lambda y, z: Pair(z, y), None),
        (lambda y, z: {"a": z, "b": y}, "b"),
        (lambda y, z: (z, y), 1),
        (lambda y, z: [z, y], -1),
        (lambda y, z: {"heads": {"mortality": y, "los": z}, "state": z}, "heads.mortality"),
        (lambda y, z: SimpleNamespace(result=Pair(z, y), loss=None), None),
        (lambda y, z: (Pair(z, y), (z, z)), "0.logits"),
    ],
)
def test_the_answer_is_found_in_outputs_of_several_tensors(wrap: Any, key: Any) -> None:
    def model(x: Tensor) -> Tensor:
        return torch.stack([x[:, 2, 0], x[:, 5, 1]], 1)

    masks = explained(lambda x: wrap(model(x), x.flatten(1)), X[:4], output_key=key)
    np.testing.assert_array_equal(masks.masks, explained(model, X[:4]).masks)


def test_an_output_of_unknown_keys_is_refused_with_the_list() -> None:
    with pytest.raises(ModelError, match=r"its keys are 'a' \(4, 2\), 'b' \(4, 3\): say which with output_key"):
        explained(lambda x: {"a": x[:, 0, :2], "b": x[:, 1]})
    with pytest.raises(ModelError, match=r"its keys are 'state' \(4, 12, 3\), 'heads.a' \(4, 2\), 'heads.b' \(4, 3\)"):
        explained(lambda x: {"heads": {"a": x[:, 0, :2], "b": x[:, 1]}, "state": x})
    with pytest.raises(ModelError, match="the key 'c', but its keys are 'a'"):
        explained(lambda x: {"a": x[:, 0, :2]}, output_key="c")


def test_a_list_of_answers_alike_says_that_the_first_is_taken(caplog: pytest.LogCaptureFixture) -> None:
    """Networks with a head after each layer return a list whose last one is meant."""
    heads = read_output([torch.zeros(4, 2), torch.ones(4, 2)])
    assert not heads.any()
    assert "2 tensors of one shape; the first of them is explained" in caplog.text


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (by_mask, {"lengths": LENGTHS}, "what the model's argument 'mask' means.*'padding_mask' .True in the padding."),
        (lambda x, ages: x, {}, "what the model's argument 'ages' takes, but the data have 'x'"),
        (by_mask, {"inputs": {"x": "x", "mask": "gender"}}, "'mask' takes 'gender', which the data do not have"),
        (by_mask, {"inputs": {"x": "x", "m": "observed"}}, "the model's arguments 'x', 'mask', but got 'x', 'm'"),
        (by_mask, {"inputs": {"mask": "observed"}}, "one of the inputs to be 'x'"),
        (mean_of_channel_1, {"inputs": {"x": "x"}}, "inputs for 'lengths', which the model needs"),
    ],
)
def test_arguments_that_do_not_fit_are_named(model: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        explained(model, task="regression", **options)


def test_what_the_data_have_and_the_model_is_not_given_is_named(caplog: pytest.LogCaptureFixture) -> None:
    def model(x: Tensor, keep: Tensor | None = None) -> Tensor:
        return x.mean((1, 2))

    with caplog.at_level(logging.WARNING):
        explained(model, task="regression", lengths=LENGTHS, extras={"age": STATIC})
    assert "the data have 'lengths', 'age', which the model is not given" in caplog.text
    assert "without its optional arguments 'keep'" in caplog.text


def test_methods_of_one_input_say_so() -> None:
    with pytest.raises(ConfigError, match="model of one input for method 'fit', but it is also given lengths"):
        explained(mean_of_channel_1, lengths=LENGTHS, method="fit")


def test_a_call_that_is_found_out_is_kept_with_the_masks() -> None:
    config = ExplainConfig(inputs={"x": "x", "mask": "padding_mask"})
    masks = explained(by_mask, X[:4], task="regression", lengths=LENGTHS[:4], config=config)
    assert masks.config["inputs"] == {"x": "x", "mask": "padding_mask"}


class OfOneTuple(nn.Module):
    def forward(self, inputs: tuple[Tensor, Tensor]) -> Tensor:
        x, static = inputs
        return x[:, :, 1].sum(1) + static[:, 0]


class OfAnyNumber(nn.Module):
    def forward(self, *inputs: Tensor) -> Tensor:
        x, static = inputs
        return x[:, :, 1].sum(1) + static[:, 0]


@pytest.mark.parametrize("model", [OfOneTuple(), OfAnyNumber()])
def test_inputs_without_names_are_given_by_position(model: nn.Module) -> None:
    masks = explained(
        model, extras={"static": STATIC}, inputs={"1": "static", "0": "x"}, task="regression", operators="zero"
    )
    np.testing.assert_allclose(masks.attributions[:, :, 1], X[:, :, 1], atol=1e-4)
    np.testing.assert_allclose(masks.static_attributions[:, 0], STATIC[:, 0], atol=1e-4)


def test_positions_are_refused_where_arguments_have_names() -> None:
    with pytest.raises(ModelError, match="by the names of the model's arguments, 'x', 'lengths', but got positions"):
        explained(mean_of_channel_1, lengths=LENGTHS, inputs={"0": "x", "1": "lengths"}, task="regression")
