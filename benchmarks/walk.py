"""The walk of one stay: which files of the package one evaluation and one audit go through, by their calls.

A file is counted when a function defined in it is called, in the order of the first call; imports do not count. The
evaluation is `mlflow.models.evaluate` of one sequence on a local store, from the call to its return. The audit is the
fit of one shard and the report of its verdict; its reference and its plan are made before. Both run in this process.

The main path is shorter: of a subpackage that computes behind one interface (`masks`, `metrics`, `report`, and within
`audit` its `statistics`, `comparison` and `verdict`) only the file that is entered first is counted, and of what lies
beside the subpackages (`_files`, `_settings`, ...) nothing.

    python -m benchmarks.walk [--page docs/architecture.md]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import dynamask_mlflow
from benchmarks.pages import write_between

PACKAGE = str(Path(str(dynamask_mlflow.__file__)).parent) + "/"
BEHIND_AN_INTERFACE = ("masks", "metrics", "report", "audit/statistics", "audit/comparison", "audit/verdict")


@contextmanager
def followed() -> Iterator[list[str]]:
    """Files of the package in the order in which one of their functions is first called."""
    found: dict[str, None] = {}

    def profile(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE) and frame.f_code.co_flags & 0x2:
            found.setdefault(frame.f_code.co_filename.removeprefix(PACKAGE).removesuffix(".py"))

    names: list[str] = []
    sys.setprofile(profile)
    try:
        yield names
    finally:
        sys.setprofile(None)
        names += [name for name in found if not name.endswith(("__init__", "_lazy"))]


def main_path(files: list[str]) -> list[str]:
    """Without what an interface hides, and without what lies beside the subpackages."""
    kept: list[str] = []
    seen: set[str] = set()
    for file in files:
        inside = next((name for name in BEHIND_AN_INTERFACE if file.startswith(f"{name}/")), None)
        if "/" in file and (inside is None or inside not in seen):
            kept.append(file)
        seen |= {inside} if inside else set()
    return kept


def by_subpackage(files: list[str]) -> str:
    counted = Counter(file.partition("/")[0] if "/" in file else "beside them" for file in files)
    return ", ".join(f"{name} {count}" for name, count in counted.most_common())


def walks(folder: Path) -> dict[str, list[str]]:
    """Both walks, in a folder that may be thrown away."""
    import mlflow
    import numpy as np
    import torch

    from dynamask_mlflow import audit, log_model
    from dynamask_mlflow.audit.shards import read_spec
    from dynamask_mlflow.tracking.dataset import from_sequences

    torch.manual_seed(0)
    torch.set_num_threads(1)
    mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
    mlflow.create_experiment("walk", artifact_location=(folder / "artifacts").as_uri())
    mlflow.create_experiment("dynamask-audits", artifact_location=(folder / "artifacts").as_uri())
    mlflow.set_experiment("walk")
    stays = _stays()
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(stays.x[0].size, 2))
    with mlflow.start_run():
        log_model(
            network,
            name="model",
            task="classification",
            input_example=stays.x[:2],
            channel_names=stays.channel_names,
            registered_model_name="icu",
        )
    dataset = from_sequences(stays.x[:1], targets=np.zeros(1, dtype=np.int64), ids=["a"])
    settings = {"progress": False, "device": "cpu"}
    with mlflow.start_run(), followed() as evaluation:
        mlflow.models.evaluate(  # type: ignore[no-untyped-call]
            "models:/icu/1",
            dataset,
            model_type="sequence-classifier",
            evaluators="dynamask",
            evaluator_config=settings,
        )
    config = audit.AuditConfig(**settings, minimum=20, anchors=5)  # type: ignore[arg-type]
    where = {"model": "models:/icu/1", "data": str(stays.save(folder / "icu")), "store": str(folder / "shards")}
    audit.build_reference(where["model"], where["data"], "2026-01", config=config, store=where["store"])
    request = audit.prepare_audit(audit.AuditSource(**where, window="2026-02"), config)
    uris = audit.plan_audit(request)
    for uri in uris:
        if read_spec(uri).role != "window":
            audit.fit_shard(uri)
    with followed() as audited:
        audit.fit_shard(uris[0])
        audit.report_audit(request, uris)
    return {"evaluate to artifact": evaluation, "shard to verdict": audited}


def _stays() -> Any:
    import numpy as np

    from dynamask_mlflow.data.dataset import StayDataset
    from dynamask_mlflow.data.preprocess import Preprocessing

    n, names = 80, ("HeartRate", "Lactate")
    windows = np.repeat(["2026-01", "2026-02"], n // 2)
    per_channel = {"mean": (0.0, 0.0), "std": (1.0, 1.0), "default": (0.0, 0.0), "units": ("bpm", "mmol/L")}
    made = {"feature_set": "walk", "feature_set_version": 1, "feature_set_digest": "0", "hours": 6}
    fitted = {"fitted_on_stays": n, "fitted_on_patients": n}
    statistics = Preprocessing(channel_names=names, fill=("forward",) * 2, **per_channel, **made, **fitted)  # type: ignore[arg-type]
    x = np.random.default_rng(0).normal(size=(n, 6, 2)).astype(np.float32)
    return StayDataset(
        x=x,
        observed=np.ones(x.shape, dtype=bool),
        ids=np.arange(n),
        patient_ids=np.arange(n),
        labels=(x[:, -1, 1] > 0).astype(np.float32),
        splits=np.full(n, "test"),
        windows=windows,
        admitted=windows.astype("datetime64[M]").astype("datetime64[s]"),
        times=tuple(range(6)),
        channel_names=names,
        preprocessing=statistics,
    )


def page(found: dict[str, list[str]]) -> str:
    """What docs/architecture.md holds between the marks."""
    lines = []
    for name, files in found.items():
        short = main_path(files)
        listed = " → ".join(f"`{file}`" for file in short)
        lines += [
            f"From {name}: {len(short)} files on the main path ({by_subpackage(short)}),",
            f"of {len(files)} in all ({by_subpackage(files)}).",
            "",
            listed,
            "",
        ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", type=Path, help="Write the lists between the marks of this page.")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = walks(Path(folder))
    text = page(found)
    print(text)
    if arguments.page:
        write_between(arguments.page, "walk", f"\n{text}\n")


if __name__ == "__main__":
    main()
