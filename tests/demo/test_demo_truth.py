"""The comparison with the planted truth: every stay that has any, whatever its risk, in its band."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dynamask_mlflow.cli.demo_messages import say_truth
from dynamask_mlflow.cli.demo_truth import METHODS, find_truth
from dynamask_mlflow.evaluation.model_settings import ModelSettings
from dynamask_mlflow.evaluation.sequence_model import SequenceModel

STEPS, CHANNELS = 20, 4
RISKS = (0.05, 0.2, 0.4, 0.6, 0.9, 0.2, 1 - 1e-12)  # the last one is 1 in float32


@dataclass(frozen=True)
class Stays:
    x: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.x)


@dataclass(frozen=True)
class Planted:
    cells: NDArray[np.bool_]

    def salient_cells(self, _: object) -> NDArray[np.bool_]:
        return self.cells


class LateLevel(nn.Module):
    """Logit of the risk: what the second channel adds up to in the last five steps."""

    def forward(self, x: Tensor) -> Tensor:
        logit = x[:, -5:, 1].sum(1) - 4
        return torch.stack([torch.zeros_like(logit), logit], 1)


@pytest.fixture
def ward() -> tuple[SequenceModel, Stays, Planted]:
    """Seven stays with five planted cells each, at the risks above, and one without."""
    x = np.random.default_rng(0).normal(0, 0.01, (len(RISKS) + 1, STEPS, CHANNELS)).astype(np.float32)
    x[:, :, 3] = 1  # never changes
    cells = np.zeros(x.shape, dtype=np.bool_)
    for row, risk in enumerate(RISKS):
        x[row, -5:, 1] = (np.log(risk / (1 - risk)) + 4) / 5
        cells[row, -5:, 1] = True
    settings = ModelSettings(task="classification", output="label", steps=STEPS, channels=CHANNELS)
    return SequenceModel(LateLevel(), settings, "cpu"), Stays(x), Planted(cells)


def test_every_stay_with_planted_cells_is_compared_in_the_band_of_its_predicted_risk(
    ward: tuple[SequenceModel, Stays, Planted],
) -> None:
    found = find_truth(*ward)  # type: ignore[arg-type]
    assert (found.test_stays, found.stays, found.overall.stays) == (8, 7, 7)
    assert {name: band.stays for name, band in found.bands.items()} == {
        ".02-.1": 1, ".1-.3": 2, ".3-.5": 1, ".5-.8": 1, ".8-1": 2,
    }  # fmt: skip
    assert found.planted == pytest.approx(5 / (STEPS * CHANNELS))
    for band in found.bands.values():
        assert set(band.scores) == set(METHODS)
        assert band.scores["dynamask"]["auprc"] == 1
        assert band.scores["dynamask"]["precision"] == 1
        assert band.scores["dynamask"]["recall"] == 1


def test_a_reference_set_of_the_model_does_not_change_the_question(ward: tuple[SequenceModel, Stays, Planted]) -> None:
    model, stays, planted = ward
    with_reference = SequenceModel(model.network, model.settings, "cpu", reference=stays.x[:2] + 1)
    assert find_truth(with_reference, stays, planted) == find_truth(model, stays, planted)  # type: ignore[arg-type]


def test_the_table_has_a_row_for_each_band_and_method(
    ward: tuple[SequenceModel, Stays, Planted], capsys: pytest.CaptureFixture[str]
) -> None:
    say_truth(find_truth(*ward))  # type: ignore[arg-type]
    said = capsys.readouterr().out
    assert "7 of the 8 test stays hold a planted deterioration" in said
    for words in (".02-.1, 1 stay ", ".1-.3, 2 stays", ".8-1, 2 stays", "all, 7 stays", "precision", "recall"):
        assert words in said
    for name in ("Dynamask  ", "Integrated Gradients  ", "the same, smoothed", "random scores"):
        assert said.count(name) == 6
    assert max(len(line) for line in said.splitlines()) <= 110


def test_without_planted_cells_there_is_nothing_to_compare(
    ward: tuple[SequenceModel, Stays, Planted], capsys: pytest.CaptureFixture[str]
) -> None:
    model, stays, planted = ward
    found = find_truth(model, stays, Planted(np.zeros_like(planted.cells)))  # type: ignore[arg-type]
    say_truth(found)
    assert found.stays == 0
    assert "nothing to compare" in capsys.readouterr().out
