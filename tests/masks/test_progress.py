"""What a user sees while masks are fitted."""

from functools import partial

import pytest
import torch
import tqdm

from dynamask_mlflow import explain
from dynamask_mlflow.masks.progress import Progress


def last_value(x: torch.Tensor) -> torch.Tensor:
    return x[:, -1, 0]


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every change of a bar is drawn, however soon it comes."""
    monkeypatch.setattr(tqdm, "tqdm", partial(tqdm.tqdm, mininterval=0))


@pytest.mark.usefixtures("at_once")
def test_the_bar_counts_the_instances_and_ends_at_all_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(True, 12) as bar:
        bar.done(8)
        assert "8/12" in capsys.readouterr().err
        bar.done(4)
        assert "12/12" in capsys.readouterr().err


@pytest.mark.usefixtures("at_once")
def test_steps_of_a_batch_are_shown_before_its_instances_are_done(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(True, 12) as bar:
        bar.tick()
        bar.tick()
        shown = capsys.readouterr().err
        assert "0/12" in shown
        assert "step 2 of this batch" in shown


@pytest.mark.parametrize("wanted", [False, None])
def test_nothing_is_shown_unless_wanted_or_at_a_terminal(
    wanted: bool | None, capfd: pytest.CaptureFixture[str]
) -> None:
    explain(last_value, torch.randn(3, 5, 2), task="regression", progress=wanted)
    assert capfd.readouterr().err == ""


@pytest.mark.usefixtures("at_once")
def test_explain_counts_every_instance(capsys: pytest.CaptureFixture[str]) -> None:
    explain(last_value, torch.randn(9, 5, 2), task="regression", progress=True)
    assert "9/9" in capsys.readouterr().err
