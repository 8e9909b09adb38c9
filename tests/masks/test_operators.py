"""Definition 2.2 of the paper, for every operator."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dynamask_mlflow.masks.draws import Draws
from dynamask_mlflow.masks.operators import Batch, FadeToReference, ReferenceSequence, parse_operator, parse_operators

SPECS = [
    *("blur:1", "blur:2.5", "moving_average:2", "past_average:3", "time_mean"),
    *("zero", "neutral", "random_fade", "noise", "background_noise"),
]
STEPS, CHANNELS = 9, 2


def a_batch(seed: int = 0, exists: torch.Tensor | None = None) -> Batch:
    x = torch.randn(2, STEPS, CHANNELS, generator=torch.Generator().manual_seed(seed))
    return Batch(x, exists, torch.arange(2), Draws(seed, STEPS, CHANNELS, torch.device("cpu")))


def perturbed(spec: str, batch: Batch, mask: torch.Tensor, step: int = 3) -> torch.Tensor:
    return parse_operator(spec).prepare(batch, step)(mask)[0]


@pytest.mark.parametrize("spec", SPECS)
def test_a_mask_of_ones_changes_nothing(spec: str) -> None:
    batch = a_batch()
    torch.testing.assert_close(perturbed(spec, batch, torch.ones_like(batch.x)), batch.x)


@pytest.mark.parametrize("spec", SPECS)
def test_the_perturbation_is_continuous_at_one(spec: str) -> None:
    batch = a_batch()
    near = perturbed(spec, batch, torch.full_like(batch.x, 1 - 1e-4))
    torch.testing.assert_close(near, batch.x, atol=2e-3, rtol=0)


@pytest.mark.parametrize("spec", SPECS)
@given(seed=st.integers(0, 1000), time=st.integers(0, STEPS - 1), channel=st.integers(0, CHANNELS - 1))
@settings(max_examples=15, deadline=None)
def test_a_cell_depends_on_the_mask_through_its_own_coefficient_alone(
    spec: str, seed: int, time: int, channel: int
) -> None:
    batch = a_batch(seed)
    mask = torch.rand(batch.x.shape, generator=torch.Generator().manual_seed(seed + 1))
    other = torch.rand(batch.x.shape, generator=torch.Generator().manual_seed(seed + 2))
    other[:, time, channel] = mask[:, time, channel]
    first, second = perturbed(spec, batch, mask), perturbed(spec, batch, other)
    torch.testing.assert_close(first[:, time, channel], second[:, time, channel])


@pytest.mark.parametrize("spec", SPECS)
@given(seed=st.integers(0, 1000))
@settings(max_examples=15, deadline=None)
def test_the_slope_is_the_derivative_by_the_mask(spec: str, seed: int) -> None:
    batch = a_batch(seed)
    double = Batch(batch.x.double(), None, batch.rows, batch.draws)
    mask = 0.1 + 0.8 * torch.rand(batch.x.shape, generator=torch.Generator().manual_seed(seed)).double()
    perturbation = parse_operator(spec).prepare(double, 3)
    step = 1e-5
    numeric = (perturbation(mask + step)[0] - perturbation(mask - step)[0]) / (2 * step)
    torch.testing.assert_close(perturbation(mask)[1], numeric, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("spec", "before", "after"),
    [("moving_average:2", 2, 2), ("past_average:3", 3, 0), ("time_mean", STEPS, STEPS), ("zero", 0, 0)],
)
def test_the_perturbation_is_dynamic_exactly_on_its_window(spec: str, before: int, after: int) -> None:
    batch = a_batch()
    x = batch.x.clone().requires_grad_()
    moved = perturbed(spec, Batch(x, None, batch.rows, batch.draws), torch.full_like(x, 0.3))
    for time in range(STEPS):
        (gradient,) = torch.autograd.grad(moved[0, time, 1], x, retain_graph=True)
        feels = (gradient[0, :, 1].abs() > 1e-6).nonzero().flatten().tolist()
        assert feels == list(range(max(0, time - before), min(STEPS, time + after + 1)))
        assert (gradient[0, :, 0] == 0).all()
        assert (gradient[1] == 0).all()


def test_the_blur_feels_both_neighbours_and_no_other_channel() -> None:
    batch = a_batch()
    x = batch.x.clone().requires_grad_()
    moved = perturbed("blur:1", Batch(x, None, batch.rows, batch.draws), torch.zeros_like(x))
    (gradient,) = torch.autograd.grad(moved[0, 4, 0], x)
    assert (gradient[0, 2:7, 0] > 0).all()
    assert (gradient[0, :, 1] == 0).all()


def test_the_blur_equals_the_papers_formula() -> None:
    batch = a_batch()
    mask = torch.rand(batch.x.shape, generator=torch.Generator().manual_seed(1))
    time = torch.arange(STEPS)
    sigma = 1.5 * (1 - mask)
    weight = torch.exp(-((time[:, None] - time[None]) ** 2)[None, :, :, None] / (2 * sigma[:, :, None] ** 2))
    expected = (weight * batch.x[:, None]).sum(2) / weight.sum(2)
    torch.testing.assert_close(perturbed("blur:1.5", batch, mask), expected)


@pytest.mark.parametrize("spec", ["moving_average:2", "past_average:3", "time_mean", "blur:1"])
def test_edges_are_normalised_by_the_cells_that_exist(spec: str) -> None:
    batch = a_batch()
    constant = Batch(torch.ones_like(batch.x), None, batch.rows, batch.draws)
    torch.testing.assert_close(perturbed(spec, constant, torch.zeros_like(batch.x)), constant.x)


@pytest.mark.parametrize("spec", SPECS)
def test_cells_that_do_not_exist_feed_nothing(spec: str) -> None:
    exists = torch.ones(2, STEPS, CHANNELS, dtype=torch.bool)
    exists[0, 6:] = False
    exists[1, 2:4, 0] = False
    batch = a_batch(exists=exists)
    poisoned = Batch(torch.where(exists, batch.x, torch.full_like(batch.x, 1e6)), exists, batch.rows, batch.draws)
    for step in range(5):
        moved = perturbed(spec, poisoned, torch.zeros_like(batch.x), step)
        assert (moved[exists].abs() < 100).all()


def test_the_random_fade_takes_values_of_the_same_channel_and_changes_with_the_step() -> None:
    batch = a_batch()
    nothing = torch.zeros_like(batch.x)
    first, second = perturbed("random_fade", batch, nothing, 1), perturbed("random_fade", batch, nothing, 2)
    assert not torch.equal(first, second)
    for channel in range(CHANNELS):
        assert np.isin(first[0, :, channel], batch.x[0, :, channel]).all()


def test_a_reference_may_be_given_for_each_instance() -> None:
    batch = a_batch()
    reference = torch.arange(2.0)[:, None, None].expand(2, STEPS, CHANNELS)
    swapped = Batch(batch.x, None, torch.tensor([1, 0]), batch.draws)
    moved = FadeToReference(reference).prepare(swapped, 0)(torch.zeros_like(batch.x))[0]
    assert moved[:, 0, 0].tolist() == [1, 0]
    with pytest.raises(ValueError, match=r"Expected a reference that fits inputs of shape \(9, 2\), but got \(3,\)"):
        FadeToReference([1.0, 2.0, 3.0]).prepare(batch, 0)


def test_specs_are_checked() -> None:
    assert parse_operator("blur:2").spec == "blur:2"
    with pytest.raises(ValueError, match="Unknown operator 'blurr:1'"):
        parse_operator("blurr:1")
    with pytest.raises(ValueError, match=r"form moving_average:W, but got 'moving_average:0'"):
        parse_operator("moving_average:0")
    with pytest.raises(ValueError, match="at least one"):
        parse_operators([])
    with pytest.raises(TypeError, match="but got int"):
        parse_operator(3)  # type: ignore[arg-type]


def test_a_reference_sequence_replaces_cell_by_cell() -> None:
    batch = a_batch()
    values = torch.arange(STEPS * CHANNELS, dtype=torch.float32).view(STEPS, CHANNELS)
    operator = ReferenceSequence(values, "3")
    assert operator.spec == "reference:3"
    moved, slope = operator.prepare(batch, 0)(torch.zeros_like(batch.x))
    torch.testing.assert_close(moved, values.expand_as(batch.x))
    torch.testing.assert_close(slope, batch.x - values)


def test_background_noise_does_not_know_of_a_short_event() -> None:
    quiet = 0.1 * torch.randn(1, 200, 1, generator=torch.Generator().manual_seed(0))
    event = quiet.clone()
    event[:, 90:100] += 50
    moved = {}
    for spec in ("noise", "background_noise"):
        for name, x in (("quiet", quiet), ("event", event)):
            batch = Batch(x, None, torch.arange(1), Draws(0, 200, 1, torch.device("cpu")))
            moved[spec, name] = perturbed(spec, batch, torch.zeros_like(x)).std().item()
    assert moved["background_noise", "event"] < 1.5 * moved["background_noise", "quiet"]
    assert moved["noise", "event"] > 50 * moved["noise", "quiet"]


def test_background_noise_hardly_knows_of_a_quiet_stretch() -> None:
    loud = torch.randn(1, 400, 1, generator=torch.Generator().manual_seed(0))
    stretch = loud.clone()
    stretch[:, 100:220] = 0.0
    spread = []
    for x in (loud, stretch):
        batch = Batch(x, None, torch.arange(1), Draws(0, 400, 1, torch.device("cpu")))
        spread.append(perturbed("background_noise", batch, torch.zeros_like(x)).std().item())
    assert spread[1] > 0.7 * spread[0]


def test_neutral_is_zero_for_standardised_channels_and_the_median_for_channels_in_their_own_units() -> None:
    x = torch.tensor([[0.5, 37.0], [1.5, 39.0], [-0.5, 36.0]])[None]
    batch = Batch(x, None, torch.arange(1), Draws(0, 3, 2, torch.device("cpu")))
    assert perturbed("neutral", batch, torch.zeros_like(x)).tolist() == [[[0.0, 37.0]] * 3]


def test_the_median_counts_the_cells_that_exist() -> None:
    x = torch.tensor([[37.0], [39.0], [36.0], [900.0]])[None]
    exists = torch.tensor([[True], [True], [True], [False]])[None]
    batch = Batch(x, exists, torch.arange(1), Draws(0, 4, 1, torch.device("cpu")))
    assert perturbed("neutral", batch, torch.zeros_like(x))[0, :3, 0].tolist() == [37.0] * 3
