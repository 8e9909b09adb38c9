"""Two hospitals for the drift experiment: real stays of PhysioNet 2012, and the synthetic one with its calendar.

Limits were chosen on the first set of stays of each and with the first retrains; what is reported comes from the
second: other patients of PhysioNet, another synthetic hospital with a model of its own, other retrains.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from dynamask_mlflow._provenance import code_digest, symbols_of
from dynamask_mlflow.audit.config import AuditConfig, permutations_needed
from dynamask_mlflow.audit.explain_window import explain_window
from dynamask_mlflow.audit.explained_window import ExplainedWindow
from dynamask_mlflow.audit.shards import code_version
from dynamask_mlflow.data.dataset import StayDataset
from dynamask_mlflow.evaluation.sequences import as_sequences
from dynamask_mlflow.experiments.cache import cache_folder, cached_json, cached_model, settings_key
from dynamask_mlflow.experiments.drift.changes import Blind
from dynamask_mlflow.training.config import TrainConfig
from dynamask_mlflow.training.model import GRUClassifier

SOURCES = ("physionet", "hospital")
UNITS = 64


class MissingDataError(ValueError):
    """The public data set is not on this machine."""


@dataclass(frozen=True, eq=False)
class Case:
    """A data set with its model, and stays that the model has not seen.

    Attributes:
        pool: the stays from which references and windows are drawn.
        retrains: seeds of harmless new versions.
        size, reference_size: explained stays of a window and of a reference. quick: a smoke test.
        predicted_size, predicted_reference: stays of both with a prediction and an outcome, the explained among them.
    """

    name: str
    dataset: StayDataset
    pool: StayDataset
    network: nn.Module
    config: AuditConfig
    retrains: tuple[int, ...]
    size: int
    reference_size: int
    quick: bool

    @property
    def predicted_size(self) -> int:
        return 2 * self.size

    @property
    def predicted_reference(self) -> int:
        return 2 * self.reference_size

    def measured(
        self, what: str, stays: StayDataset, network: nn.Module | None = None, keep: int = 0
    ) -> ExplainedWindow:
        """Explain stays once; afterwards they are read from the cache."""
        settings = {
            "data": stays.digest,
            "code": code_version(self.config.method),
            "config": self.config.explainer_digest,
            "keep": keep,
        }
        key = settings_key(f"{self.name}-{_plain(what)}", {**settings, "weights": _weights(network or self.network)})
        path = cache_folder() / "drift" / f"{key}.npz"
        outcomes = {str(i): float(label) for i, label in zip(stays.ids, stays.labels, strict=True)}
        if path.is_file():
            return ExplainedWindow.load(path).with_number("label", outcomes)
        sequences = as_sequences(**stays.sequence_arrays() | {"targets": None})
        patients = stays.patient_ids.astype(np.str_)
        found = explain_window(
            network or self.network, sequences, patients, task="classification", config=self.config, keep=keep
        )
        found.save(path)
        return found.with_number("label", outcomes)

    def version(self, seed: int, ignore: int | None = None, stays: StayDataset | None = None) -> nn.Module:
        """Another version: other seed, a channel that it never saw, or other training stays."""
        return train(self.name, stays or self.dataset, seed, ignore)

    def cached(self, what: str, compute: Callable[[], Any]) -> Any:
        """Done parts are kept, as JSON: an interrupted experiment goes on where it was."""
        settings = {
            "data": self.pool.digest,
            "code": code_version(self.config.method),
            "judging": code_digest(symbols_of(compute)),
            "config": self.config.audit_digest,
            "explainer": self.config.explainer_digest,
        }
        return cached_json(f"drift/{self.name}-{_plain(what)}", settings, compute)


def open_case(name: str, quick: bool, choosing: bool, most: int | None = None) -> Case:
    """Build the data and train the model, or take both from the cache.

    Args:
        choosing: the stays for choosing limits. most: of the stays from which windows are drawn; None: all there are.
    """
    if name == "physionet":
        dataset = _physionet()
        pool = dataset.part("test")
        pool = pool.select(np.arange(len(pool)) % 2 == (0 if choosing else 1))
    else:
        dataset = hospital_dataset(2500 if quick else 8000, seed=1 if choosing else 0)
        pool = dataset.part("test")
    network = train(name, dataset, 0, None)
    most = 260 if quick else most or len(pool)
    pool = pool.select(np.arange(min(len(pool), most)))
    # The fewest permutations that reach the levels of a year: thousands of audits are judged.
    usual = AuditConfig(progress=False)
    config = usual.with_options(permutations=permutations_needed(usual.alpha, usual.audits_per_year))
    seeds = tuple(range(1, 13) if choosing else range(21, 33))
    sizes = config.instances or len(pool), config.reference_instances or len(pool)
    if quick:
        config, seeds, sizes = config.with_options(steps=10, minimum=20), seeds[:1], (60, 120)
    return Case(name, dataset, pool, network, config, seeds, *sizes, quick)


def train(name: str, dataset: StayDataset, seed: int, ignore: int | None) -> nn.Module:
    from dynamask_mlflow.training.loop import fit

    parts = [dataset.part(split) for split in ("train", "validation")]

    def learn(model: nn.Module) -> None:
        pairs = []
        for part in parts:
            x = part.x.copy()
            if ignore is not None:
                x[:, :, ignore] = 0
            pairs.append((x, part.labels))
        config = TrainConfig(units=UNITS, epochs=40, patience=5, seed=seed, threads=1)
        model.load_state_dict(fit(pairs[0], pairs[1], config).model.state_dict())

    settings = {"data": parts[0].digest, "seed": seed, "ignore": ignore, "units": UNITS}
    model = cached_model(f"drift-{name}", settings, lambda: GRUClassifier(dataset.x.shape[2], UNITS), learn)
    return model if ignore is None else Blind(model, ignore).eval()


def _plain(what: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in what)


def _weights(network: nn.Module) -> str:
    from dynamask_mlflow._provenance import weights_digest

    wiring = getattr(network, "pair", None) or getattr(network, "channel", None)
    return hashlib.sha256(f"{network!r} {wiring} {weights_digest(network)}".encode()).hexdigest()[:16]


def _physionet() -> StayDataset:
    from dynamask_mlflow.data import BuildConfig, build, open_source

    target = cache_folder() / "drift" / "physionet"
    if not target.exists():
        folder = _data_folder() / "physionet2012-set-a"
        if not folder.is_dir():
            raise MissingDataError(f"Expected PhysioNet 2012 in {folder}, but it is not there; set DYNAMASK_DATA.")
        source = open_source("long", str(folder / "events.parquet"), stays=str(folder / "outcomes.csv"))
        build(source, BuildConfig(features="physionet2012", shares=(0.4, 0.1, 0.5), threads=1)).save(target)
    return StayDataset.load(target)


def hospital_tables(stays: int, seed: int) -> Path:
    """The tables of the synthetic hospital, made if need be."""
    from dynamask_mlflow.data.hospital import HospitalConfig, synthesize

    target = cache_folder() / "drift" / f"tables-{stays}-{seed}"
    if not (target / "ICUSTAYS.parquet").is_file():
        synthesize(target, HospitalConfig(stays=stays, seed=seed), overwrite=True)
    return target


def hospital_dataset(stays: int, seed: int) -> StayDataset:
    """The stays of the synthetic hospital, with attributes."""
    from dynamask_mlflow.data import BuildConfig, build, open_source

    target = cache_folder() / "drift" / f"stays-{stays}-{seed}"
    if not target.exists():
        source = open_source("synthetic", str(hospital_tables(stays, seed)))
        build(source, BuildConfig(until="2023-12", shares=(0.5, 0.1, 0.4), threads=1)).save(target)
    return StayDataset.load(target)


def _data_folder() -> Path:
    named = os.environ.get("DYNAMASK_DATA")
    return Path(named) if named else cache_folder() / "data"
