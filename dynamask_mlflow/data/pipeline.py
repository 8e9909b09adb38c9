"""Tables to tensors: source, cohort, hour blocks, split, statistics of the training patients, contracts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.data import contracts, preprocess
from dynamask_mlflow.data.attributes import stay_attributes
from dynamask_mlflow.data.cohort import LABELS, Exclusion, select_cohort
from dynamask_mlflow.data.dataset import StayDataset
from dynamask_mlflow.data.engine import Engine
from dynamask_mlflow.data.errors import DataError, Finding, raise_errors
from dynamask_mlflow.data.features import FeatureSet, load_feature_set
from dynamask_mlflow.data.grid import Grid, fill_grid
from dynamask_mlflow.data.preprocess import Preprocessing
from dynamask_mlflow.data.sources.base import HOUR, Source
from dynamask_mlflow.data.split import SHARES, split_by_patient
from dynamask_mlflow.data.static import fill_static

if TYPE_CHECKING:
    import pandas as pd

Progress = Callable[[str, int], None]


@dataclass(frozen=True, kw_only=True)
class BuildConfig:
    """Settings of `build`.

    Attributes:
        features: a feature set of the package ("fit32", "fit31", "physionet2012") or the path of a YAML file.
        label: "hospital" or "icu": death in the hospital admission or in the ICU stay, after the window.
        require: channels that must be observed at least once: "none", "all", a group of the feature set
            ("vitals", "named"), or a comma-separated list.
        until: the last window that belongs to training, validation and test; stays of later windows become
            the split "later". None: there are no later ones.
        seed: of the split.
        shares: of training, validation and test patients.
        drop_contradictory_deaths: leave out stays that go on although a death is recorded inside the window.
        memory_limit: of the query engine; the tensors come on top.
        threads: of the query engine; None is all cores.
    """

    features: str = "fit32"
    label: str = "hospital"
    require: str = "none"
    until: str | None = None
    seed: int = 0
    shares: tuple[float, float, float] = SHARES
    drop_contradictory_deaths: bool = False
    memory_limit: str = "512MB"
    threads: int | None = None


def build(
    source: Source,
    config: BuildConfig | None = None,
    preprocessing: Preprocessing | None = None,
    progress: Progress | None = None,
) -> StayDataset:
    """Build a dataset.

    With `preprocessing`, that of a trained model, nothing is fitted and every stay gets the split "later".

    >>> from dynamask_mlflow.data import open_source
    >>> from dynamask_mlflow.data.hospital import HospitalConfig, synthesize
    >>> tables = synthesize("tables", HospitalConfig(stays=80), overwrite=True)
    >>> build(open_source("synthetic", str(tables)), BuildConfig(threads=1)).x.shape[1:]
    (48, 32)
    """
    config = config or BuildConfig()
    features = load_feature_set(config.features)
    required = features.members(config.require)
    tables = _read(source, features, config, progress or (lambda _stage, _count: None))
    cohort, exclusions, findings = tables.cohort, tables.exclusions, tables.findings
    values, observed = tables.grid.means()
    empty = np.asarray(~observed.any(axis=(1, 2)))
    findings += fill_static(features, cohort, values, observed)
    coverage = _coverage(features, observed, empty)
    keep, more = _screen(features, observed, empty, required)
    exclusions += more
    patients = cohort["patient_id"].to_numpy()
    splits = _splits(cohort, config, keep, preprocessing is not None)
    again = keep & (splits == "")
    if config.until is not None:
        exclusions.append(Exclusion(f"a later stay of a patient seen until {config.until}", int(again.sum())))
    keep &= splits != ""
    if not keep.any():
        raise DataError(f"Expected stays with events in the window, but none of {len(cohort)} is left.")
    if not keep.all():
        cohort, values, observed = cohort[keep].reset_index(drop=True), values[keep], observed[keep]
        splits, patients = splits[keep], patients[keep]
    labels = cohort["label"].to_numpy(dtype=np.float32)
    findings += contracts.check_tensor(features, values, observed, labels)
    findings += contracts.check_splits(patients, splits)
    raise_errors(findings)
    training = splits == "train"
    fitted = (
        preprocess.fit(features, values, observed, training, len(np.unique(patients[training])))
        if preprocessing is None
        else _matching(preprocessing, features)
    )
    return StayDataset(
        x=fitted.apply(values, observed),
        observed=observed,
        ids=_plain(cohort["stay_id"]),
        patient_ids=_plain(cohort["patient_id"]),
        labels=labels,
        splits=splits,
        windows=np.asarray(cohort["window"].fillna("").astype(str).to_list(), dtype=np.str_),
        admitted=cohort["admitted"].to_numpy(dtype="datetime64[s]"),
        times=tuple(float(hour) for hour in range(features.hours)),
        channel_names=features.channel_names,
        preprocessing=fitted,
        attributes=stay_attributes(cohort),
        report={
            "source": source.describe(),
            "config": asdict(config),
            "stays_in": tables.stays,
            "exclusions": [asdict(exclusion) for exclusion in exclusions],
            "stays_out": len(cohort),
            "patients_out": int(cohort["patient_id"].nunique()),
            "coverage": coverage,
            "findings": [finding.to_dict() for finding in findings],
            "events": {name: int(counts.sum()) for name, counts in tables.grid.tallies.items()},
        },
    )


@dataclass(frozen=True)
class _Tables:
    """What was read of a source: how many stays it has, those of the cohort, and their events by hour."""

    stays: int
    cohort: pd.DataFrame
    grid: Grid
    exclusions: list[Exclusion]
    findings: list[Finding]


def _read(source: Source, features: FeatureSet, config: BuildConfig, report: Progress) -> _Tables:
    """Stays, cohort and events, each checked; the source is closed afterwards."""
    with Engine(config.memory_limit, config.threads) as engine:
        try:
            stays, findings = source.stays(engine)
            stays = before_predictions(stays, features.hours)
            report("stays", len(stays))
            findings += contracts.check_stays(stays, LABELS.get(config.label, "died_hospital"))
            raise_errors(findings)
            cohort, exclusions, leaks = select_cohort(
                stays, features.hours, config.label, config.drop_contradictory_deaths
            )
            codes, unknown = source.codes(engine, features)
            grid = Grid.empty(len(cohort), features.hours, len(features.channels), len(codes))
            for label, count in fill_grid(engine, source, register_cohort(engine, cohort, features.hours), codes, grid):
                report(label, count)
        finally:
            source.close()
    findings += leaks + unknown + contracts.check_events(features, codes, grid)
    return _Tables(len(stays), cohort, grid, exclusions, findings)


def before_predictions(stays: pd.DataFrame, hours: int) -> pd.DataFrame:
    """Where a source names prediction times, the window ends with them, and holds what was known then."""
    import pandas as pd

    if "predicted_at" not in stays:
        return stays
    # One microsecond later, so that the half-open window holds events at the prediction time itself.
    start = stays["predicted_at"] - pd.Timedelta(hours=hours) + pd.Timedelta(microseconds=1)
    return stays.drop(columns="predicted_at").assign(admitted=start.astype("datetime64[us]"))


def register_cohort(engine: Engine, cohort: pd.DataFrame, hours: int) -> str:
    """The stays as a table that sources join their events to; returns its name."""
    import pandas as pd

    clocked = cohort["admitted"].notna()
    start = cohort["admitted"].astype("datetime64[us]").astype("int64").where(clocked, 0)
    table = pd.DataFrame(
        {
            "stay_row": np.arange(len(cohort)),
            "stay_id": cohort["stay_id"],
            "patient_id": cohort["patient_id"],
            "start": start,
            "stop": start + hours * HOUR,
            "first": ~cohort["patient_id"].duplicated(),
        }
    )
    return engine.register("cohort", table)


def _coverage(features: FeatureSet, observed: NDArray[np.bool_], empty: NDArray[np.bool_]) -> dict[str, int]:
    """How many stays would be left if every channel of a group had to be observed."""
    seen = np.asarray(observed.any(axis=1))
    counts = {}
    for group in (*features.groups, "all"):
        index = [features.channel_names.index(name) for name in features.members(group)]
        counts[group] = int((seen[:, index].all(axis=1) & ~empty).sum())
    return counts


def _screen(
    features: FeatureSet, observed: NDArray[np.bool_], empty: NDArray[np.bool_], required: tuple[str, ...]
) -> tuple[NDArray[np.bool_], list[Exclusion]]:
    keep = ~empty
    exclusions = [Exclusion("no events in the window", int(empty.sum()))]
    if required:
        index = [features.channel_names.index(name) for name in required]
        complete = np.asarray(np.asarray(observed[:, :, index].any(axis=1)).all(axis=1))
        exclusions.append(Exclusion("a required channel was never observed", int((keep & ~complete).sum())))
        keep = keep & complete
    return keep, exclusions


def _splits(cohort: pd.DataFrame, config: BuildConfig, keep: NDArray[np.bool_], fitted: bool) -> NDArray[np.str_]:
    """The split of each stay; "" for later stays of patients who were seen before."""
    splits = np.full(len(cohort), "", dtype="<U10")
    windows = cohort["window"].fillna("").astype(str).to_numpy(dtype=str)
    if fitted:
        splits[keep] = "later"
        return splits
    later = np.zeros(len(cohort), dtype=bool) if config.until is None else windows > config.until
    now = keep & ~later
    if not now.any():
        raise DataError(f"Expected stays in windows up to {config.until}, but the windows are {sorted(set(windows))}.")
    patients = cohort["patient_id"].to_numpy()
    labels = cohort["label"].to_numpy(dtype=np.float32)
    splits[now] = split_by_patient(patients[now], labels[now], config.seed, config.shares)
    splits[keep & later & ~np.isin(patients, patients[now])] = "later"
    return splits


def _matching(preprocessing: Preprocessing, features: FeatureSet) -> Preprocessing:
    if preprocessing.channel_names != features.channel_names or preprocessing.hours != features.hours:
        expected, got = len(preprocessing.channel_names), len(features.channels)
        raise DataError(
            f"Expected the feature set {preprocessing.feature_set} of the stored preprocessing ({expected} "
            f"channels), but got {features.name} ({got})."
        )
    return preprocessing


def _plain(column: pd.Series[Any]) -> NDArray[Any]:
    """Ids as int64 or fixed-width text: arrays of objects would need pickle."""
    values = column.to_numpy()
    return values.astype(np.int64) if np.issubdtype(values.dtype, np.integer) else np.asarray([str(v) for v in values])
