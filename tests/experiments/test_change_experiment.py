"""The experiment on changes: onsets after hour 24, rivals in their best reading, and the table on the page."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dynamask_mlflow.experiments import change
from dynamask_mlflow.experiments.change import METHODS, OURS, Trial, change_table, update_page

HOURS, CHANNELS = 48, 6


class Rising(nn.Module):
    """A risk that reads the last day of the first channel."""

    def forward(self, x: Tensor) -> Tensor:
        risk = 3 * x[:, change.SINCE :, 0].mean(1)
        return torch.stack([torch.zeros_like(risk), risk], 1)


def test_an_onset_is_found_and_contributions_sum_to_the_change(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    x = 0.1 * rng.standard_normal((4, HOURS, CHANNELS)).astype(np.float32)
    cells = np.zeros(x.shape, dtype=bool)
    cells[:, 30:, :2] = True  # the second channel is not read
    x[cells] += 3
    cells[:3, :, 1] = False
    counted = np.zeros(x.shape, dtype=bool)
    counted[:, change.SINCE :] = True

    class Stays:
        labels = np.array([0, 1, 0, 1], dtype=np.float32)
        channel_names = tuple(f"c{i}" for i in range(CHANNELS))

        def part(self, _: str) -> "Stays":
            return self

    Stays.x = x  # type: ignore[attr-defined]
    monkeypatch.setattr(change, "change_model", lambda *_: Rising())
    trial = change._trial("GRU", Stays(), change._Onsets(x, cells, counted), 0, True)  # type: ignore[arg-type]
    assert set(trial.auprc) == set(METHODS)
    assert trial.unread == ("c1",)
    assert trial.moved == 4
    assert trial.auprc[OURS] == trial.auprc_moved > 0.7
    assert trial.sum_error < 1e-3
    assert trial.elapsed == 0
    assert trial.precision > 0.9


def test_the_table_stands_between_its_marks(tmp_path: Path) -> None:
    trials = [
        Trial(
            "GRU",
            seed,
            0.8,
            n,
            3.0,
            1e-6,
            0.01,
            0.0,
            (by := dict.fromkeys(METHODS, value)),
            n,
            by,
            n,
            0.9,
            (),
            0.8,
            0.6,
            0.05,
        )
        for seed, n, value in ((100, 30, 0.9), (101, 10, 0.5))
    ]
    head, row = change_table(trials)
    assert dict(zip(head, row, strict=True))["AUPRC, ours"] == ".800"
    assert row[1] == "40"
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- change: begin -->\nold\n<!-- change: end -->\nafter\n")
    update_page(page, trials, "a command")
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "| GRU | 40 |" in text
    assert "`a command`" in text
    assert "Of 40 answers 40 rose; on those alone: GRU: ours .800" in text
    assert "old" not in text
    page.write_text("no marks")
    with pytest.raises(ValueError, match="Expected the marks"):
        update_page(page, trials, "a command")


def test_unknown_models_are_refused() -> None:
    with pytest.raises(ValueError, match="Expected architectures of GRU"):
        change.run_change(["GUR"])
