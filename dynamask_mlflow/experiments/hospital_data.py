"""The stays of the synthetic hospital that experiments explain, with their planted truth."""

from __future__ import annotations

from functools import lru_cache

from dynamask_mlflow.data.dataset import StayDataset
from dynamask_mlflow.data.hospital.truth import Truth, load_truth
from dynamask_mlflow.experiments.cache import cache_folder


@lru_cache(maxsize=1)
def hospital_stays(seed: int, quick: bool) -> tuple[StayDataset, Truth]:
    """Built once and kept: these stays are nobody's."""
    from dynamask_mlflow.data import BuildConfig, build, open_source
    from dynamask_mlflow.data.hospital import HospitalConfig, synthesize

    stays = 300 if quick else 4000
    root = cache_folder() / "hospital"
    tables, target = root / f"tables-{stays}-{seed}", root / f"stays-{stays}-{seed}"
    if not target.exists():
        synthesize(tables, HospitalConfig(stays=stays, seed=seed), overwrite=True)
        build(open_source("synthetic", str(tables)), BuildConfig(threads=1)).save(target)
    return StayDataset.load(target), load_truth(tables)
