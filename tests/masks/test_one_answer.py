"""One answer a sequence: what suffices, what matters when removed, and what speaks against."""

import numpy as np
import pytest
import torch
from torch import Tensor

from dynamask_mlflow import Masks, explain
from dynamask_mlflow.masks.black_box import BlackBox
from dynamask_mlflow.masks.config import ExplainConfig
from dynamask_mlflow.masks.draws import Draws
from dynamask_mlflow.masks.game import Game
from dynamask_mlflow.masks.influence import influence_order
from dynamask_mlflow.masks.operators import Batch, parse_operators
from dynamask_mlflow.masks.removal import delete, led_by, with_remover
from dynamask_mlflow.masks.scores import top_cells
from dynamask_mlflow.masks.zoom import MOST_CHANNELS, number_of_looks, zoom_worth

STEPS, CHANNELS = 32, 4
STRETCH = slice(12, 20)


def latched(x: Tensor) -> Tensor:
    """Says yes once channel 2 has been high for some time, and then no longer feels single cells."""
    seen = x[:, STRETCH, 2].mean(1)
    yes = torch.sigmoid(40 * (seen - 0.5))
    return torch.stack([torch.zeros_like(yes), 4 * yes - 2], 1)


def high_stretch(number: int = 5, seed: int = 0) -> Tensor:
    x = 0.3 * torch.randn(number, STEPS, CHANNELS, generator=torch.Generator().manual_seed(seed))
    x[:, STRETCH, 2] += 3
    return x


def weighted(x: Tensor) -> Tensor:
    """A linear margin: cell (3, 0) speaks for class 1, cell (7, 1) against it."""
    margin = 4 * x[:, 3, 0] - 2 * x[:, 7, 1]
    return torch.stack([torch.zeros_like(margin), margin], 1)


def two_cells(number: int = 4) -> Tensor:
    x = 0.1 * torch.randn(number, 12, 3, generator=torch.Generator().manual_seed(1))
    x[:, 3, 0], x[:, 7, 1] = 2.0, 1.0
    return x


def a_game(model: object, x: Tensor) -> Game:
    batch = Batch(x, None, torch.arange(len(x)), Draws(0, x.shape[1], x.shape[2], x.device))
    operators = parse_operators(("time_mean", "neutral"))
    return Game.open(BlackBox(model, "classification", "logits"), batch, operators, "auto", False, one_answer=True)  # type: ignore[arg-type]


def test_stretches_find_what_gradients_do_not_feel() -> None:
    x = high_stretch()
    leaf = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(latched(leaf)[:, 1].sum(), leaf)
    assert gradient.abs().max() < 1e-6
    worth = zoom_worth(
        a_game(latched, x), torch.ones(len(x), CHANNELS), torch.zeros_like(x), (3,), 3.0, 0, 1, torch.ones_like(x)
    )
    assert (worth[:, STRETCH, 2].mean(1) > 10 * worth[:, :, [0, 1, 3]].abs().amax((1, 2))).all()
    assert (worth[:, STRETCH, 2].amin(1) > worth[:, :8, 2].amax(1)).all()


@pytest.mark.parametrize(("channels", "insertion"), [(CHANNELS, None), (CHANNELS, 1), (31, 1), (12, None)])
def test_the_zoom_takes_as_many_looks_as_it_says(channels: int, insertion: int | None) -> None:
    looks = 0

    def counted(x: Tensor) -> Tensor:
        nonlocal looks
        looks += 1
        return latched(x)

    x = torch.cat([high_stretch(), torch.zeros(5, STEPS, channels - CHANNELS)], 2)
    game = a_game(counted, x)
    looks = 0
    zoom_worth(game, torch.ones(len(x), channels), torch.zeros_like(x), (3, 2), 3.0, 0, insertion, torch.ones_like(x))
    assert looks == number_of_looks(STEPS, channels, (3, 2), 3.0, games=1 if insertion is None else 2)


def test_a_channel_that_gradients_do_not_feel_is_found_among_many() -> None:
    channels = 4 * MOST_CHANNELS
    x = torch.cat([high_stretch(), torch.zeros(5, STEPS, channels - CHANNELS)], 2)
    felt = torch.arange(channels).flip(0).float().expand(len(x), -1).clone()
    felt[:, 2] = 0.0
    game = a_game(latched, x)
    worth = zoom_worth(game, felt, torch.zeros_like(x), (3,), 3.0, 0, 1, torch.ones_like(x))
    others = [channel for channel in range(channels) if channel != 2]
    assert (worth[:, STRETCH, 2].mean(1) > 10 * worth[:, :, others].abs().amax((1, 2))).all()


def test_the_last_stretches_are_tried_a_step_beside() -> None:
    """Halves of 32 steps begin at even steps or at multiples of four; this story begins between them."""

    def needs_three(x: Tensor) -> Tensor:
        margin = 8 * torch.sigmoid(20 * (x[:, 13:16, 2].amin(1) - 1)) - 4
        return torch.stack([torch.zeros_like(margin), margin], 1)

    x = torch.zeros(2, STEPS, CHANNELS)
    x[:, 13:16, 2] = 3.0
    worth = zoom_worth(
        a_game(needs_three, x), torch.ones(2, CHANNELS), torch.zeros_like(x), (3,), 3.0, 0, 1, torch.ones_like(x)
    )
    assert (worth.flatten(1).topk(3).indices.sort(1).values == torch.tensor([13, 14, 15]) * CHANNELS + 2).all()


def crossed(x: Tensor) -> Tensor:
    """A margin whose best few cells to remove are not its best many: pairs that only count together."""
    single, pairs = x[:, :4, 0].sum(1), x[:, :, 1] * x[:, :, 2]
    margin = 1.2 * single + pairs.sum(1)
    return torch.stack([torch.zeros_like(margin), margin], 1)


def test_the_deletion_play_turns_more_than_the_gradients_it_starts_from() -> None:
    x = torch.randn(6, STEPS, CHANNELS, generator=torch.Generator().manual_seed(2)) + 0.5
    game = a_game(crossed, x)
    start = game.worth(0.5, 0, 0)
    number = torch.full((len(x),), float(x[0].numel()))
    played, stability = delete(game, ExplainConfig(), 14, start, number, lambda: None)

    def left(scores: Tensor) -> Tensor:
        return torch.stack([game.standing(1 - top_cells(scores, share), 0, 0) for share in (0.05, 0.1, 0.2)])

    assert (left(played) <= left(start) + 1e-5).all()
    assert (left(played) < left(start) - 0.01).any()
    assert ((stability >= 0) & (stability <= 1)).all()


@pytest.mark.parametrize("steps", [20, 60, 300])
def test_one_cell_is_a_mask_of_one_cell_however_long_the_series(steps: int) -> None:
    def highest(x: Tensor) -> Tensor:
        return 3 * x[:, :, :2].amax(1)

    x = 0.4 * torch.randn(6, steps, 5, generator=torch.Generator().manual_seed(4))
    x[torch.arange(6), torch.arange(6) * steps // 7, torch.arange(6) % 2] = 5.0
    masks = explain(highest, x, task="classification", progress=False)
    np.testing.assert_array_equal(masks.masks > 0.5, x.numpy() == 5.0)


def test_a_handful_leads_the_removal_only_where_it_turns_the_answer_sooner() -> None:
    x = two_cells().repeat(1, 9, 3)
    game = a_game(weighted, x)
    truth, other = torch.zeros_like(x), torch.rand(x.shape, generator=torch.Generator().manual_seed(3))
    truth[:, 3, 0], other[:, 3, 0] = 1.0, 0.0
    led = led_by(game, truth, other)
    assert (led.flatten(1).argmax(1) == 3 * x.shape[2]).all()
    torch.testing.assert_close(led_by(game, other, truth), truth)


def test_a_channel_that_speaks_for_and_against_is_still_looked_into() -> None:
    """As a whole it comes to nothing, and channels of little worth come first; gradients promise the right one."""

    def both_ways(x: Tensor) -> Tensor:
        margin = x[:, 4:8, 2].mean(1) - 1.5 * x[:, 20:24, 2].mean(1) + 0.05 * x[:, :, [0, 1, 3]].mean((1, 2)) + 1
        return torch.stack([torch.zeros_like(margin), margin], 1)

    x = torch.ones(2, STEPS, CHANNELS)
    hope = torch.zeros_like(x)
    hope[:, 4:8, 2] = 1.0
    felt, seen = torch.ones(len(x), CHANNELS), torch.ones_like(x)
    with_hope, without = (zoom_worth(a_game(both_ways, x), felt, h, (2,), 4.0, 1, 1, seen) for h in (hope, 0 * hope))
    assert (with_hope[:, 4:8, 2].amin(1) > with_hope[:, 20:24, 2].amax(1)).all()
    assert (with_hope[:, 4:8, 2].amin(1) > with_hope[:, :, [0, 1, 3]].amax((1, 2))).all()
    assert (without[:, 4:8, 2] < 0).all()


def test_an_operator_that_leaves_the_answer_standing_has_no_grip() -> None:
    x = torch.zeros(3, STEPS, CHANNELS)
    x[:, 4:28, 2] = 3

    def level(v: Tensor) -> Tensor:
        margin = 4 * torch.tanh(v[:, :, 2].mean(1)) - 1
        return torch.stack([torch.zeros_like(margin), margin], 1)

    game = a_game(level, x)
    grip = game.grip()
    assert (grip[0] < 0.1).all()
    assert (grip[1] == 1).all()
    empty = torch.zeros_like(x)
    torch.testing.assert_close(with_remover(game, grip).standing(empty, 0, 0), game.standing(empty, 1, 0))
    strong = torch.ones_like(grip)
    torch.testing.assert_close(with_remover(game, strong).standing(empty, 0, 0), game.standing(empty, 0, 0))


def test_a_net_that_is_sure_early_is_still_asked_for_the_whole_event() -> None:
    """Half of the stretch suffices, and to lose a little more turns the answer: only faint cells are all missed."""

    def sure(x: Tensor) -> Tensor:
        margin = 4 * torch.tanh(8 * (x[:, STRETCH, 2].mean(1) - 1.5)) + 0.02 * x[:, :, 1].mean(1)
        return torch.stack([torch.zeros_like(margin), margin], 1)

    masks = explain(sure, high_stretch(), progress=False)
    lit = masks.masks > 0.5
    assert lit[:, STRETCH, 2].mean() > 0.8
    assert lit[:, STRETCH, 2].sum() > 0.8 * lit.sum()


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_a_latched_answer_is_traced_to_its_stretch(task: str) -> None:
    def model(x: Tensor) -> Tensor:
        return latched(x) if task == "classification" else latched(x)[:, 1]

    masks = explain(model, high_stretch(), task=task, progress=False)
    truth = np.zeros(masks.masks.shape, dtype=bool)
    truth[:, STRETCH, 2] = True
    lit = masks.masks > 0.5
    assert (lit & truth).sum() / lit.sum() > 0.8
    assert masks.scores[truth].min() > np.quantile(masks.scores[~truth], 0.95)


def test_worth_has_the_sign_of_what_a_cell_says_and_sums_to_what_the_whole_is_worth() -> None:
    x = two_cells()
    masks = explain(weighted, x, progress=False)
    assert masks.worth is not None
    flat = masks.worth.reshape(len(x), -1)
    assert (flat.argmax(1) == 3 * 3 + 0).all()
    assert (flat.argmin(1) == 7 * 3 + 1).all()
    mean = x.mean(1, keepdim=True).expand_as(x)
    margin = (weighted(x) - weighted(mean))[:, 1].numpy()
    np.testing.assert_allclose(flat.sum(1), margin, rtol=1e-3)


def test_what_speaks_against_is_the_last_to_be_removed_and_among_the_first_to_move_the_answer() -> None:
    masks = explain(weighted, two_cells(), progress=False)
    assert masks.removal is masks.removal_order
    removal = masks.removal.reshape(len(masks), -1)
    assert (removal.argmax(1) == 9).all()
    assert (removal.argmin(1) == 22).all()
    influence = masks.influence.reshape(len(masks), -1)
    assert (influence.argmax(1) == 9).all()
    assert (np.sort(influence.argsort(1)[:, -2:]) == [9, 22]).all()
    assert (masks.masks[:, 3, 0] == 1).all()
    assert (masks.masks[:, 7, 1] == 0).all()


def test_methods_without_a_sign_answer_by_their_scores() -> None:
    masks = explain(lambda x: x[:, :, 0], two_cells(), task="regression", steps=4, progress=False)
    assert masks.worth is None
    assert masks.removal is masks.scores
    assert masks.influence is masks.scores


def test_worth_survives_a_file_a_cut_and_a_join(tmp_path) -> None:  # type: ignore[no-untyped-def]
    masks = explain(weighted, two_cells(), progress=False)
    again = Masks.load(masks.save(tmp_path / "masks.npz"))
    joined = Masks.concatenate([again[:1], again[1:]])
    assert masks.worth is not None
    assert joined.worth is not None
    np.testing.assert_array_equal(joined.worth, masks.worth)
    np.testing.assert_array_equal(joined.removal, masks.removal)
    assert set(masks.to_frame().columns) == {"id", "time", "channel", "mask", "score", "worth"}


def test_an_answer_that_the_empty_input_gets_as_well_says_so() -> None:
    x = two_cells()
    anyway = explain(lambda v: weighted(v) - torch.tensor([0.0, 50.0]), x, progress=False)
    assert anyway.diagnostics["default_answer"].all()
    assert not anyway.diagnostics["constant_prediction"].any()
    constant = explain(lambda v: weighted(v) * 0 + torch.tensor([0.0, 1.0]), x, progress=False)
    assert constant.diagnostics["constant_prediction"].all()
    assert not constant.diagnostics["default_answer"].any()
    assert (constant.masks == 0).all()


def test_cells_that_the_model_does_not_read_come_last_even_beside_those_it_reads() -> None:
    x = torch.randn(12, 10, 4, generator=torch.Generator().manual_seed(3))
    masks = explain(lambda v: v[:, -3:, 1].sum(1), x, task="regression", progress=False)
    read = np.zeros(masks.scores.shape, dtype=bool)
    read[:, -3:, 1] = True
    assert (np.where(read, masks.scores, 2).min((1, 2)) > np.where(read, -1, masks.scores).max((1, 2))).all()


@pytest.mark.parametrize("every_step", [False, True])
def test_the_automatic_area_has_no_room_for_cells_that_the_model_does_not_read(every_step: bool) -> None:
    x = torch.randn(6, 20, 5, generator=torch.Generator().manual_seed(4))

    def model(v: Tensor) -> Tensor:
        read = v[:, :, 1].clone()
        read[:, 7:] = 0
        return read if every_step else read.square().sum(1)

    masks = explain(model, x, task="regression", steps=20, progress=False)
    unread = np.ones(masks.masks.shape[1:], dtype=bool)
    unread[:7, 1] = False
    assert (masks.masks[:, unread] == 0).all()
    assert masks.masks.any((1, 2)).all()


def test_the_influence_of_cells_on_a_sure_class_begins_with_those_that_speak_for_it() -> None:
    worth = np.array([3.0, -2.9, 2.8, -2.7, 2.6, 0.1, *[0.0] * 34]).reshape(1, 8, 5)
    unsure, sure = (influence_order(worth, worth, np.array([margin])).ravel() for margin in (0.5, 9.0))
    assert (-unsure).argsort()[:4].tolist() == [0, 1, 2, 3]
    assert (-sure).argsort()[:6].tolist() == [0, 2, 4, 5, 1, 3]
    np.testing.assert_array_equal(influence_order(worth, worth).ravel(), unsure)
    assert unsure.max() == 1
    assert len(np.unique(unsure)) == 40
