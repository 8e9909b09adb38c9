"""Other sequences as the reference: what is low, what never changed, what never moves."""

import numpy as np
import pytest
import torch
from networks import Recurrent, sequences, with_seed
from torch import Tensor

from dynamask_mlflow import Masks, explain
from dynamask_mlflow.masks.explain import REFERENCE_DRAWS, draw_reference

STEPS, CHANNELS = 16, 3
AGE = 2


def ward(number: int = 40, seed: int = 0) -> Tensor:
    """Noise, and an age that stays the same: 0, or 1 for half of the patients."""
    x = 0.3 * sequences(number, STEPS, CHANNELS, seed=seed)
    x[:, :, AGE] = (torch.arange(number) % 2).float()[:, None]
    return x


def by_age(x: Tensor) -> Tensor:
    """A risk (B,) of .05 for the young, of .5 for the old; channel 0 has a small say."""
    return -3 + 3 * x[:, :, AGE].mean(1) + 0.2 * x[:, :, 0].mean(1)


def test_a_static_channel_is_explained_against_others_and_not_against_itself() -> None:
    x = ward(6, seed=1)
    alone = explain(by_age, x, progress=False)
    assert (alone.attributions[:, :, AGE] == 0).all()
    among = explain(by_age, x, reference=ward(), progress=False)
    share = np.abs(among.attributions[:, :, AGE]).sum(1) / np.abs(among.attributions).sum((1, 2))
    assert (share > 0.8).all()
    assert among.binary[:, :, AGE].sum() > 0.9 * among.binary.sum()


def test_a_low_risk_is_lowered_from_what_others_have() -> None:
    x = ward(6, seed=1)
    masks = explain(by_age, x, reference=ward(), progress=False)
    assert masks.direction.tolist() == [-1, 1] * 3
    usual = by_age(draw_reference(ward(), x, 0)).mean().item()
    np.testing.assert_allclose(masks.diagnostics["reference_answer"], usual, atol=1e-5)
    np.testing.assert_allclose(masks.attributions.sum((1, 2)), by_age(x) - usual, rtol=1e-4, atol=1e-5)


def test_the_mean_of_others_is_a_reference_of_one_sequence() -> None:
    x, mean = ward(4, seed=1), ward().mean(0)
    masks = explain(by_age, x, reference=mean, progress=False)
    expected = torch.zeros_like(x)
    expected[:, :, AGE] = 3 / STEPS * (x - mean)[:, :, AGE]
    expected[:, :, 0] = 0.2 / STEPS * (x - mean)[:, :, 0]
    np.testing.assert_allclose(masks.attributions, expected, atol=1e-5)


def test_a_sequence_that_is_the_reference_has_nothing_to_explain() -> None:
    x = ward(2)
    masks = explain(by_age, x[:1], reference=x[0], progress=False)
    assert masks.direction.tolist() == [0]
    assert not masks.binary.any()
    assert (masks.masks == 0).all()


def test_references_are_drawn_by_the_seed_and_not_by_the_batch() -> None:
    reference = sequences(30, STEPS, CHANNELS, seed=2)
    drawn = draw_reference(reference, ward(1), 0)
    assert drawn is not None
    assert drawn.shape == (REFERENCE_DRAWS, STEPS, CHANNELS)
    torch.testing.assert_close(draw_reference(reference, ward(9), 0), drawn)
    other = draw_reference(reference, ward(1), 1)
    assert other is not None
    assert not torch.equal(other, drawn)
    # Each is the mean of some of them: less spread than single sequences, the same mean.
    assert drawn.std(0).mean() < 0.7 * reference.std(0).mean()
    few = draw_reference(reference[:3].numpy(), ward(1), 0)
    torch.testing.assert_close(few, reference[:3])
    assert draw_reference(None, ward(1), 0) is None


def test_with_a_reference_an_instance_does_not_feel_its_neighbours() -> None:
    model, x, reference = with_seed(Recurrent, CHANNELS), ward(5, seed=1), ward()
    whole = explain(model, x, reference=reference, progress=False)
    single = Masks.concatenate([explain(model, x[k : k + 1], reference=reference, progress=False) for k in range(5)])
    for name in ("masks", "attributions", "binary", "direction", "spread", "deletion_scores"):
        np.testing.assert_array_equal(getattr(single, name), getattr(whole, name), err_msg=name)


def test_answers_at_every_step_are_explained_against_others_too() -> None:
    x = ward(4, seed=1)

    def running(z: Tensor) -> Tensor:
        """A value at every step: the age, which never changes, and a little of channel 0."""
        return 3 * z[:, :, AGE] + 0.1 * z[:, :, 0]

    among = explain(running, x, task="regression", reference=ward(), steps=20, progress=False)
    alone = explain(running, x, task="regression", steps=20, progress=False)
    shares = [masks.binary[:, :, AGE].sum() / masks.binary.sum() for masks in (among, alone)]
    assert shares[0] > 0.9
    assert shares[1] < 0.1
    assert {f"failed/reference:{k}" for k in range(REFERENCE_DRAWS)} <= set(among.diagnostics)


def test_the_reference_is_compared_before_masks_are_joined() -> None:
    x = ward(2, seed=1)
    with_one, with_other, without = (
        explain(by_age, x, reference=reference, progress=False) for reference in (ward(), ward(seed=5), None)
    )
    for other in (with_other, without):
        with pytest.raises(ValueError, match="they differ in reference"):
            Masks.concatenate([with_one, other])
    assert len(Masks.concatenate([with_one, explain(by_age, x, reference=ward(), progress=False)])) == 4


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        (
            np.zeros((4, STEPS + 1, CHANNELS)),
            r"Expected reference sequences of shape \(M, 16, 3\), but got \(4, 17, 3\)",
        ),
        (np.zeros((STEPS, CHANNELS - 1)), r"but got \(1, 16, 2\)"),
        (np.zeros(CHANNELS), r"but got \(3,\)"),
        (np.zeros((0, STEPS, CHANNELS)), r"but got \(0, 16, 3\)"),
        (np.full((2, STEPS, CHANNELS), np.nan), "Expected finite reference sequences"),
    ],
)
def test_references_of_another_shape_are_refused(reference: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        explain(by_age, ward(1), reference=reference, progress=False)


def test_padding_is_not_replaced_by_the_reference() -> None:
    x = ward(3, seed=1)
    masks = explain(by_age, x, reference=ward() + 10, lengths=[16, 8, 4], progress=False)
    assert (masks.attributions[1, 8:] == 0).all()
    assert (masks.masks[2, 4:] == 0).all()
    assert not masks.binary[2, 4:].any()
