"""The MIMIC experiment (section 3.3): how far a mortality model moves when the most important cells are replaced.

Nobody knows the salient cells of a patient. Instead the best share a of the cells goes to the channel's mean over
time, and the prediction is compared with the old one: CE and ACC, and one cell after the other: CPD and CPP.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow import metrics as m
from dynamask_mlflow.data.dataset import META, StayDataset
from dynamask_mlflow.experiments.cache import cached_model
from dynamask_mlflow.experiments.hospital_data import hospital_stays
from dynamask_mlflow.experiments.protocol import Case, Experiment, Preset
from dynamask_mlflow.masks.result import Masks
from dynamask_mlflow.training.config import TrainConfig
from dynamask_mlflow.training.loop import fit, predict
from dynamask_mlflow.training.model import GRUClassifier
from dynamask_mlflow.training.scores import auroc

AREAS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
REMOVALS = (50, 100)
SCOPES = {"instance": "", "batch": "_batch"}

_SHOWN = (0.1, 0.3, 0.6)
COLUMNS: Mapping[str, str] = {
    **{f"ce/{a:g}": f"CE {a:g}" for a in _SHOWN},
    **{f"acc/{a:g}": f"ACC {a:g}" for a in _SHOWN},
    "ce_batch/0.1": "CE 0.1 (batch)",
    "acc_batch/0.1": "ACC 0.1 (batch)",
    **{f"cpd/{k}": f"CPD {k}" for k in REMOVALS},
    **{f"cpp/{k}": f"CPP {k}" for k in REMOVALS},
    "model_auroc": "model AUROC",
}

# "paper" is the appendix's text: one area, deletion, the moving average over all 48 hours. "released" is the code:
# the time mean, hard labels, means instead of sums.
PRESETS = {
    "nested-deletion": Preset("nested", {"deletion": True}),
    "extrmask-deletion": Preset("extrmask", {"deletion": True}),
    # Occlusion by what CE, ACC and CPD put in place of a cell; "ig_mean" is a method of its own.
    "fo_mean": Preset("fo", {"operators": ("time_mean",)}),
    "paper": Preset(
        "paper",
        {
            "area": 0.1,
            "operators": ("moving_average:48",),
            "size_weight": 0.1,
            "dilation": 1000.0,
            "momentum": 1.0,
            "time_weight": 0.0,
            "deletion": True,
        },
    ),
}
PRESETS["released"] = Preset(
    "paper",
    {
        **PRESETS["paper"].options,
        "operators": ("time_mean",),
        "dilation": 10000.0,
        "loss": "log_loss",
        "reduction": "mean",
    },
)


@dataclass(frozen=True)
class Stays:
    """Where the stays come from: a name for the table, and how to build them."""

    name: str
    open: Callable[[bool], StayDataset]


def find_stays(path: Path | None = None) -> Stays:
    """The synthetic hospital without a path; else PhysioNet 2012, MIMIC-III or a built dataset, by what is there."""
    if path is None:
        return Stays("synthetic hospital", lambda quick: hospital_stays(0, quick)[0])
    if (path / META).is_file():
        return Stays(f"dataset {path.name}", lambda quick: StayDataset.load(path))
    if (path / "events.parquet").is_file() and (path / "outcomes.csv").is_file():
        return Stays("PhysioNet 2012", lambda quick: _physionet(path))
    if path.is_dir() and any("icustays" in file.name.lower() for file in path.iterdir()):
        return Stays("MIMIC-III", lambda quick: _mimic(path))
    raise ValueError(
        "Expected a folder with a built dataset, with events.parquet and outcomes.csv of PhysioNet 2012, or with the "
        f"tables of MIMIC-III, but got {path}."
    )


def mimic_experiment(path: Path | None = None) -> Experiment:
    stays = find_stays(path)
    return Experiment(
        name="mimic",
        title=f"Mortality after 48 hours: {stays.name}, one GRU, cells replaced by their mean over time",
        make_case=partial(_case, lru_cache(maxsize=1)(stays.open)),
        score=replacement_scores,
        columns=COLUMNS,
        seeds=3,
        instances=200,
        quick_seeds=1,
        quick_instances=8,
        presets=PRESETS,
        default_methods=("nested", "nested-deletion"),
    )


def _case(opened: Callable[[bool], StayDataset], seed: int, instances: int, quick: bool) -> Case:
    """Test stays drawn by the seed, and a GRU trained on the training stays from the same seed."""
    dataset = opened(quick)
    test = dataset.part("test")
    if instances > len(test):
        raise ValueError(f"Expected at most {len(test)} instances, the test stays, but got {instances}.")
    model = train_on(dataset, seed, quick)
    rows = np.sort(np.random.default_rng([seed, 3]).permutation(len(test))[:instances])
    rows = rows[_extremes_first(predict(model, test.x[rows]))]
    known = ~np.isnan(test.labels)
    facts = {"model_auroc": auroc(predict(model, test.x[known]), test.labels[known])}
    return Case(
        model=model,
        x=test.x[rows],
        truth=None,
        task="classification",
        facts=facts,
        background=dataset.part("train").x[:2000],
        channel_names=dataset.channel_names,
    )


def _extremes_first(risk: NDArray[np.float64], each: int = 2) -> NDArray[np.int64]:
    """The stays most and least at risk first: those are the ones that figures show."""
    order = np.argsort(-risk, kind="stable")
    shown = np.concatenate([order[:each], order[each:][-each:]])
    return np.concatenate([shown, np.setdiff1d(np.arange(len(risk)), shown)])


def train_on(dataset: StayDataset, seed: int, quick: bool) -> GRUClassifier:
    """The GRU of these stays and this seed, trained once and kept."""
    config = TrainConfig(units=16, epochs=2, seed=seed) if quick else TrainConfig(seed=seed)
    parts = [dataset.part(name) for name in ("train", "validation")]

    def learn(model: GRUClassifier) -> None:
        known = [part.select(~np.isnan(part.labels)) for part in parts]
        train, validation = ((part.x, part.labels) for part in known)
        model.load_state_dict(fit(train, validation, config).model.state_dict())

    settings = {"data": parts[0].digest, "validation": parts[1].digest, **config.to_dict()}
    return cached_model("mimic", settings, lambda: GRUClassifier(dataset.x.shape[2], config.units), learn)


def replacement_scores(case: Case, masks: Masks) -> Mapping[str, float]:
    """CE and ACC at every area in both scopes, CPD and CPP.

    CE and ACC ask which cells the answer falls without: they are removed in the order of `masks.deletion_ranking`. CPD
    and CPP count movements of either sign: there the order is that of `masks.change_ranking`. Both are the scores for
    methods that know no sign.
    """
    x = case.x

    def risk(values: NDArray[Any]) -> NDArray[np.float64]:
        return predict(case.model, np.asarray(values, dtype=np.float32))

    before = risk(x)
    values: dict[str, float] = {}
    for scope, suffix in SCOPES.items():
        for area in AREAS:
            cells = m.top_cells(masks.deletion_ranking, area, scope=scope)  # type: ignore[arg-type]
            after = risk(m.replace_by_time_mean(x, cells))
            values[f"ce{suffix}/{area:g}"] = float(m.cross_entropy_shift(before, after))
            values[f"acc{suffix}/{area:g}"] = float(m.accuracy_shift(before, after))
    for name, path in (("cpd", m.cpd), ("cpp", m.cpp)):
        for k, sums in zip(REMOVALS, path(risk, x, masks.change_ranking, k=REMOVALS), strict=True):
            values[f"{name}/{k}"] = float(sums.mean())
    return values


def _physionet(path: Path) -> StayDataset:
    from dynamask_mlflow.data import BuildConfig, build, open_source

    source = open_source("long", str(path / "events.parquet"), stays=str(path / "outcomes.csv"))
    return build(source, BuildConfig(features="physionet2012", threads=1))


def _mimic(path: Path) -> StayDataset:
    from dynamask_mlflow.data import BuildConfig, build, open_source

    return build(open_source("mimic3", str(path)), BuildConfig(threads=1))
