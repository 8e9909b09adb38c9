"""What changed since? Contributions sum to the change, masks find what brought it, and guesses are refused."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dynamask_mlflow import Change, explain_change
from dynamask_mlflow.masks.change.contributions import integrate_change
from dynamask_mlflow.masks.target import TargetScore
from tests.masks.networks import Attention, Recurrent, with_seed

SINCE, STEPS = 8, 12


class Packed(nn.Module):
    """Takes lengths, and answers from the state at the end of each sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(4, 8, batch_first=True)
        self.head = nn.Linear(8, 2)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        states, _ = self.gru(x)
        return self.head(states[torch.arange(len(x)), lengths - 1])


def sequences(number: int = 5, steps: int = STEPS) -> Tensor:
    return torch.randn(number, steps, 4, generator=torch.Generator().manual_seed(1))


def changes(model: nn.Module, x: Tensor, **options: object) -> Change:
    return explain_change(model, x, **{"since": SINCE, "progress": False, "device": "cpu", **options})


def log_odds(logits: Tensor) -> np.ndarray:
    return (logits[:, 1] - logits[:, 0]).double().numpy()


def test_contributions_sum_to_the_change_of_a_fixed_window() -> None:
    model, x = with_seed(Recurrent), sequences()
    found = changes(model, x, padding="carry")
    earlier = x.clone()
    earlier[:, SINCE:] = x[:, SINCE - 1 : SINCE]
    with torch.no_grad():
        before, after = log_odds(model.eval()(earlier)), log_odds(model(x))
    np.testing.assert_allclose(found.before, before, atol=1e-5)
    np.testing.assert_allclose(found.after, after, atol=1e-5)
    np.testing.assert_allclose(found.contributions.sum((1, 2)), after - before, atol=1e-4)
    assert not found.elapsed.any()
    assert not found.contributions[:, :SINCE].any()
    assert not found.masks[:, :SINCE].any()
    np.testing.assert_allclose(found.outputs_after[:, 1], 1 / (1 + np.exp(-after)), atol=1e-5)


@pytest.mark.parametrize("until", [10, STEPS])
def test_the_last_values_stand_until_the_end_of_the_window(until: int) -> None:
    model, x = with_seed(Recurrent), sequences()
    found = changes(model, x, until=until, padding="carry")
    later = x.clone()
    later[:, until:] = x[:, until - 1 : until]
    with torch.no_grad():
        after = log_odds(model.eval()(later))
    np.testing.assert_allclose(found.after, after, atol=1e-5)
    np.testing.assert_allclose(found.contributions.sum((1, 2)), found.change, atol=1e-4)
    assert not found.contributions[:, until:].any()


def test_the_cells_that_brought_the_change_are_found() -> None:
    def rising(x: Tensor) -> Tensor:
        return 4 * x[:, :, 2].mean(1)

    x = 0.01 * sequences()
    x[:, 9:, 2] += 3.0
    x[:, :4, 2] += 3.0  # known before: no news
    x[:, 9:, 0] += 3.0  # news that the model does not read
    found = explain_change(rising, x, since=SINCE, padding="carry", task="regression", progress=False)
    truth = np.zeros(x.shape, dtype=bool)
    truth[:, 9:, 2] = True
    assert (found.binary & truth).sum() == truth.sum()
    assert (found.binary & ~truth).sum((1, 2)).max() <= 1  # smoothing along time may take the step before
    assert (found.direction == 1).all()
    assert found.contributions[truth].sum() == pytest.approx(found.contributions.sum(), rel=0.01)
    assert found.summary(channel_names=list("abcd"), most=1)["moved_by"].str.startswith("c +").all()


def test_where_last_value_and_usual_level_disagree_the_greater_move_is_masked_and_said() -> None:
    """The first patient had been at -5 and stood at 1.2 for one hour: since then -.4, since the usual level +9.9."""
    x = torch.zeros(2, 8, 2)
    x[0, :, 0] = torch.tensor([-5.0, -5.0, -5.0, -5.0, -5.0, 1.2, 1.0, 1.0])
    x[1, 6:, 0] = 1.0
    change = explain_change(
        lambda z: z[:, 6:].sum((1, 2)), x, since=6, padding="carry", task="regression", progress=False
    )
    np.testing.assert_allclose(change.change, [-0.4, 2.0], atol=1e-5)
    assert change.direction.tolist() == [-1, 1]
    assert change.diagnostics["moved_from_level"].tolist() == [True, False]
    assert change.binary[:, 6:, 0].all()
    assert change.binary.sum() == 4


def test_answers_at_each_step_are_read_at_both_times() -> None:
    model, x = with_seed(Recurrent, 4, 2, True), sequences()
    found = changes(model, x, until=10)
    with torch.no_grad():
        answers = model.eval()(x)
    np.testing.assert_allclose(found.before, log_odds(answers[:, SINCE - 1]), atol=1e-5)
    np.testing.assert_allclose(found.after, log_odds(answers[:, 9]), atol=1e-5)
    np.testing.assert_allclose(found.contributions.sum((1, 2)) + found.elapsed, found.change, atol=1e-4)
    assert found.config["padding"] == "each step"


def test_a_model_that_looks_ahead_is_not_asked_for_an_answer_at_an_earlier_step() -> None:
    class LooksAhead(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.mean(1, keepdim=True).expand_as(x)[:, :, :2] * 3

    with pytest.raises(ValueError, match=r"later steps do not move.*padding"):
        changes(LooksAhead(), sequences())
    stated = changes(LooksAhead(), sequences(), padding="carry")
    np.testing.assert_allclose(stated.contributions.sum((1, 2)), stated.change, atol=1e-4)


def test_lengths_are_given_to_a_model_that_takes_them() -> None:
    model, x = with_seed(Packed), sequences()
    lengths = np.array([12, 11, 12, 10, 9])
    found = changes(model, x, lengths=lengths)
    with torch.no_grad():
        before = log_odds(model.eval()(x, torch.full((5,), SINCE)))
        after = log_odds(model(x, torch.from_numpy(lengths)))
    np.testing.assert_allclose(found.before, before, atol=1e-5)
    np.testing.assert_allclose(found.after, after, atol=1e-5)
    np.testing.assert_allclose(found.contributions.sum((1, 2)) + found.elapsed, found.change, atol=1e-4)
    assert found.until.tolist() == lengths.tolist()


def test_how_a_fixed_window_was_padded_is_asked_or_read_off_the_sequences() -> None:
    model, x = with_seed(Attention), sequences()
    with pytest.raises(ValueError, match=r"how a shorter sequence was filled up in training is not known.*carry"):
        changes(model, x)
    x[1, 10:] = -1.0
    x[3, 9:] = -1.0
    found = changes(model, x, lengths=[12, 10, 12, 9, 12])
    assert found.config["padding"] == "values:-1,-1,-1,-1"
    earlier = x.clone()
    earlier[:, SINCE:] = -1.0
    with torch.no_grad():
        np.testing.assert_allclose(found.before, log_odds(model.eval()(earlier)), atol=1e-5)
        np.testing.assert_allclose(found.after, log_odds(model(x)), atol=1e-5)
    x[1, 10:], x[3, 9:] = x[1, 9], x[3, 8]
    assert changes(model, x, lengths=[12, 10, 12, 9, 12]).config["padding"] == "carry"


def test_shorter_sequences_and_a_padding_of_ones_own() -> None:
    model, x = with_seed(Recurrent), sequences()
    shorter = changes(model, x, padding="shorter")
    with torch.no_grad():
        np.testing.assert_allclose(shorter.before, log_odds(model.eval()(x[:, :SINCE])), atol=1e-5)
    np.testing.assert_allclose(shorter.contributions.sum((1, 2)) + shorter.elapsed, shorter.change, atol=1e-4)

    def mirrored(prefix: Tensor, steps: int) -> Tensor:
        return torch.cat([prefix, prefix.flip(1)[:, : steps - prefix.shape[1]]], 1)

    own = changes(model, x, padding=mirrored)
    with torch.no_grad():
        np.testing.assert_allclose(own.before, log_odds(model(mirrored(x[:, :SINCE], STEPS))), atol=1e-5)
    np.testing.assert_allclose(own.contributions.sum((1, 2)) + own.elapsed, own.change, atol=1e-4)


def test_two_sequences_of_one_patient_are_compared_whole() -> None:
    model, now = with_seed(Attention), sequences()
    then = now + 0.5 * torch.randn(now.shape, generator=torch.Generator().manual_seed(3))
    found = changes(model, now, since=then)
    with torch.no_grad():
        np.testing.assert_allclose(found.before, log_odds(model.eval()(then)), atol=1e-5)
    np.testing.assert_allclose(found.contributions.sum((1, 2)), found.change, atol=1e-4)
    with pytest.raises(ValueError, match="Expected earlier sequences of shape"):
        changes(model, now, since=then[:, :6])


def test_times_are_steps_hours_or_timestamps() -> None:
    model, x = with_seed(Recurrent), sequences(2)
    by_step = changes(model, x, padding="carry", until=10)
    hours = np.arange(STEPS) * 0.5
    stamps = np.datetime64("2026-03-01T00:00") + np.arange(STEPS) * np.timedelta64(30, "m")
    by_hour = changes(model, x, padding="carry", since=4.0, until=5.0, times=hours)
    by_stamp = changes(
        model, x, padding="carry", since="2026-03-01T04:00", until=np.datetime64("2026-03-01T05:00"), times=stamps
    )
    from_the_end = changes(model, x, padding="carry", since=-4, until=-2)
    for other in (by_hour, by_stamp, from_the_end):
        assert np.array_equal(other.contributions, by_step.contributions)
    assert np.array_equal(changes(model, x, padding="carry", since=np.array([3, SINCE])).since, np.array([3, SINCE]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"since": 0}, "at least one step before `since`"),
        ({"since": STEPS}, "between `since` and `until`"),
        ({"until": 5}, "between `since` and `until`"),
        ({"since": 2.5}, "Expected since to be a number of steps"),
        ({"since": "noon", "times": np.arange(STEPS)}, "Expected since to be a number"),
        ({"padding": "carried"}, "Expected padding to be"),
        ({"padding": [1.0, 2.0]}, "Expected padding of 1 or 4 finite numbers"),
        ({"method": "ig"}, "Expected the default method"),
        ({"task": "ranking"}, "Expected task to be one of"),
        ({"targt": 1}, "Did you mean 'target'"),
    ],
)
def test_what_cannot_be_meant_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        changes(with_seed(Recurrent), sequences(1), **{"padding": "carry", **options})


def test_an_instance_has_the_same_change_in_any_company() -> None:
    model, x = with_seed(Recurrent), sequences(9)
    since = np.array([3, 4, 5, 6, 7, 8, 9, 10, 11])
    together = changes(model, x, since=since, padding="carry")
    alone = changes(model, x[4:5], since=7, padding="carry")
    assert np.array_equal(together[4].contributions, alone.contributions)
    assert np.array_equal(together[4].masks, alone.masks)


def test_a_steep_answer_takes_more_levels_instead_of_a_guess() -> None:
    class Steep:
        task, output = "regression", "values"

        def __call__(self, x: Tensor) -> Tensor:
            return torch.sigmoid(60 * (x.sum((1, 2)) - 0.3))[:, None, None]

    box = Steep()
    one = torch.ones(1)
    target = TargetScore(box, torch.ones(1, 1, 1), None, one.long(), one)  # type: ignore[arg-type]
    after = torch.tensor([[[0.7, 0.3]]])
    found = integrate_change(target, torch.zeros_like(after), after)
    assert float(found.remainder) <= 0.01
    assert found.cells.sum().item() == pytest.approx(1.0, abs=1e-4)
    assert (found.cells[0, 0, 0] / found.cells[0, 0, 1]).item() == pytest.approx(7 / 3, rel=1e-3)


def test_a_change_is_stored_and_shown(tmp_path: Path) -> None:
    found = changes(with_seed(Recurrent), sequences(3), padding="carry", until=10)
    loaded = Change.load(found.save(tmp_path / "change.npz"))
    assert np.array_equal(loaded.contributions, found.contributions)
    assert dict(loaded.config) == dict(found.config)
    assert loaded.diagnostics.keys() == found.diagnostics.keys()
    frame = loaded.to_frame(ids=["a", "b", "c"], channel_names=list("wxyz"), times=range(100, 112))
    assert sorted(set(frame["time"])) == [108, 109]
    by_channel = frame.groupby(["id", "channel"])["contribution"].sum().unstack()
    np.testing.assert_allclose(by_channel.to_numpy(), found.by_channel, atol=1e-5)
    np.testing.assert_allclose(found.by_step.sum(1), found.change, atol=1e-4)
    both = Change.concatenate([found[:2], found[2]])
    assert np.array_equal(both.masks, found.masks)
    with pytest.raises(ValueError, match="differ in padding"):
        Change.concatenate([found, changes(with_seed(Recurrent), sequences(3), padding=0.0)])
    (tmp_path / "other.npz").write_bytes(b"no archive")
    with pytest.raises(ValueError, match="Expected a file of changes"):
        Change.load(tmp_path / "other.npz")
