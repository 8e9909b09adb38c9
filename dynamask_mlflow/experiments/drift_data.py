"""Two hospitals for the drift experiment: real stays of PhysioNet 2012, and the synthetic one with its calendar."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dynamask_mlflow.audit.config import AuditConfig
from dynamask_mlflow.audit.measure import measure
from dynamask_mlflow.audit.measured import Measured
from dynamask_mlflow.audit.shards import code_version
from dynamask_mlflow.data.dataset import StayDataset
from dynamask_mlflow.experiments.cache import cache_folder, cached_model, settings_key
from dynamask_mlflow.tracking.sequences import as_sequences
from dynamask_mlflow.training.config import TrainConfig
from dynamask_mlflow.training.model import GRUClassifier

SOURCES = ("physionet", "hospital")
UNITS = 64
Change = Callable[[StayDataset, np.random.Generator], StayDataset]


class MissingDataError(ValueError):
    """The public data set is not on this machine."""


@dataclass(frozen=True, eq=False)
class Case:
    """A data set with its model, and stays that the model has not seen."""

    name: str
    dataset: StayDataset
    pool: StayDataset
    network: nn.Module
    config: AuditConfig

    def measured(self, what: str, stays: StayDataset, network: nn.Module | None = None, keep: int = 0) -> Measured:
        """Explain stays once; afterwards they are read from the cache."""
        settings = {"data": stays.digest, "code": code_version(), "config": self.config.explainer_digest, "keep": keep}
        key = settings_key(f"{self.name}-{what}", {**settings, "weights": _weights(network or self.network)})
        path = cache_folder() / "drift" / f"{key}.npz"
        if path.is_file():
            return Measured.load(path)
        sequences = as_sequences(
            stays.x,
            ids=[str(i) for i in stays.ids],
            channel_names=stays.channel_names,
            times=list(stays.times),
            observed=stays.observed,
        )
        patients = stays.patient_ids.astype(np.str_)
        found = measure(
            network or self.network, sequences, patients, task="classification", config=self.config, keep=keep
        )
        found.save(path)
        return found

    def version(self, seed: int, ignore: int | None = None, stays: StayDataset | None = None) -> nn.Module:
        """Another version: other seed, a channel that it never saw, or other training stays."""
        return train(self.name, stays or self.dataset, seed, ignore)


class Blind(nn.Module):
    """A network that does not see one channel."""

    def __init__(self, network: nn.Module, channel: int) -> None:
        super().__init__()
        self.network, self.channel = network, channel

    def forward(self, x: Tensor) -> Tensor:
        keep = torch.ones(x.shape[-1], device=x.device)
        keep[self.channel] = 0
        logits: Tensor = self.network(x * keep)
        return logits


class Swapped(nn.Module):
    """A network whose inputs were wired up with two channels exchanged."""

    def __init__(self, network: nn.Module, first: int, second: int) -> None:
        super().__init__()
        self.network, self.pair = network, (first, second)

    def forward(self, x: Tensor) -> Tensor:
        order = list(range(x.shape[-1]))
        first, second = self.pair
        order[first], order[second] = second, first
        logits: Tensor = self.network(x[..., order])
        return logits


def open_case(name: str, quick: bool) -> Case:
    """Build the data and train the model, or take both from the cache."""
    dataset = _physionet() if name == "physionet" else _hospital(quick)
    network = train(name, dataset, 0, None)
    pool = dataset.part("test")
    pool = pool.select(np.arange(min(len(pool), 260 if quick else 1400)))
    config = AuditConfig(progress=False, steps=10 if quick else None, reference_instances=120 if quick else 500)
    return Case(name, dataset, pool, network, config)


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


def other_unit(channel: str, factor: float, offset: float = 0.0, share: float = 1.0) -> Change:
    """v -> factor v + offset in a share of the stays, in the units of the feature set."""

    def change(stays: StayDataset, rng: np.random.Generator) -> StayDataset:
        place, stats = stays.channel_names.index(channel), stays.preprocessing
        mean, std = stats.mean[place], stats.std[place]
        raw = stays.x[:, :, place] * std + mean
        seen = np.maximum.accumulate(stays.observed[:, :, place], axis=1)  # what was never measured stays imputed
        some = rng.random(len(stays)) < share
        x = stays.x.copy()
        x[:, :, place] = np.where(seen & some[:, None], (factor * raw + offset - mean) / std, x[:, :, place])
        return replace(stays, x=x)

    return change


def missing(channel: str, share: float) -> Change:
    """A share of the stays no longer has the channel at all."""

    def change(stays: StayDataset, rng: np.random.Generator) -> StayDataset:
        place, stats = stays.channel_names.index(channel), stays.preprocessing
        some = rng.random(len(stays)) < share
        x, observed = stays.x.copy(), stays.observed.copy()
        x[some, :, place] = (stats.default[place] - stats.mean[place]) / stats.std[place]
        observed[some, :, place] = False
        return replace(stays, x=x, observed=observed)

    return change


def shifted(place: int, size: float) -> Change:
    """One channel moves by so many standard deviations."""

    def change(stays: StayDataset, rng: np.random.Generator) -> StayDataset:
        x = stays.x.copy()
        x[:, :, place] += size
        return replace(stays, x=x)

    return change


def _weights(network: nn.Module) -> str:
    import hashlib

    sha = hashlib.sha256(repr(network).encode())
    for tensor in network.state_dict().values():
        sha.update(np.ascontiguousarray(tensor.detach().float().numpy()).tobytes())
    sha.update(repr(getattr(network, "pair", None) or getattr(network, "channel", None)).encode())
    return sha.hexdigest()[:16]


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


def _hospital(quick: bool) -> StayDataset:
    from dynamask_mlflow.data import BuildConfig, build, open_source
    from dynamask_mlflow.data.hospital import HospitalConfig, synthesize

    stays = 2500 if quick else 8000
    root = cache_folder() / "drift"
    target = root / f"hospital-{stays}"
    if not target.exists():
        tables = synthesize(root / f"tables-{stays}", HospitalConfig(stays=stays), overwrite=True)
        build(
            open_source("synthetic", str(tables)), BuildConfig(until="2023-12", shares=(0.5, 0.1, 0.4), threads=1)
        ).save(target)
    return StayDataset.load(target)


def _data_folder() -> Path:
    named = os.environ.get("DYNAMASK_DATA")
    return Path(named) if named else Path(__file__).parents[3] / "shared" / "data"


def part_of(measured: Measured, rows: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """What the tests need of some stays."""
    names = ("by_channel", "by_time", "values", "missing", "patients")
    return {name: getattr(measured, name)[rows] for name in names}
