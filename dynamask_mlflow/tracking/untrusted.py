"""Loading models of unknown origin: nothing that a model brings is imported or executed.

One loader for all ways to a model: `load_untrusted`, `dynamask_mlflow.load_model(..., untrusted=True)`, and audits.
MLflow's own loaders are not called: they import what a model's requirements, loader or pickles name.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dynamask_mlflow.evaluation.model_settings import load_reference
from dynamask_mlflow.evaluation.sequence_model import SequenceModel
from dynamask_mlflow.tracking.errors import UntrustedModelError

if TYPE_CHECKING:
    import torch

LOADERS = ("dynamask_mlflow", "mlflow.pytorch")
TRUST_VARIABLE = "DYNAMASK_TRUST"
ALL = "all"
SIGNED = "signed"
_FLAVORS = ("dynamask", "python_function", "pytorch")
_FILES = {
    "MLmodel", "conda.yaml", "python_env.yaml", "requirements.txt", "dynamask.json", "input_example.json",
    "serving_input_example.json", "registered_model_meta", "reference.npz", "data/model.pt2",
}  # fmt: skip
_LARGEST_TEXT = 1 << 26


def load_untrusted(
    model_uri: str, dst_path: str | None = None, device: str = "auto"
) -> SequenceModel | torch.nn.Module:
    """Download a model, refuse it if it could run code, load its network: a model for `evaluate`.

    Allowed are pt2 networks under MLflow's pytorch loader or ours, without a `code` folder.

    Returns:
        A `SequenceModel` if the model is of our flavor, else the network alone.

    Raises:
        UntrustedModelError: before anything is loaded.
    """
    from dynamask_mlflow.tracking.downloads import download

    return load_folder(download(str(model_uri), dst_path=dst_path), device)


def load_folder(folder: str | os.PathLike[str], device: str = "auto") -> SequenceModel | torch.nn.Module:
    """The model in a local folder, as `load_untrusted` does it."""
    from dynamask_mlflow.evaluation.model_settings import ModelSettings
    from dynamask_mlflow.tracking.exported import load_exported

    described = refuse_code(folder)
    root = Path(folder)
    settings = ModelSettings.load(root) if "dynamask" in described["flavors"] else None
    network = load_exported(root / "data" / "model.pt2")
    if settings is None:
        return network
    model_id = described.get("model_id")
    identity = model_id if isinstance(model_id, str) else None
    return SequenceModel(network, settings, device, identity, load_reference(root))


def is_trusted(name: str, trust: str | list[str] | tuple[str, ...] | None = None) -> bool:
    """Whether a registered model may bring code.

    Args:
        name: of the registered model.
        trust: names, "signed" (versions with a right signature, see `signatures`), or "all"; by default the
            environment variable DYNAMASK_TRUST (names with commas between them).
    """
    names = _trusted_names(trust)
    return ALL in names or (name in names and name != SIGNED)


def accepts_signed(trust: str | list[str] | tuple[str, ...] | None = None) -> bool:
    """Whether versions with a right signature may bring code."""
    return SIGNED in _trusted_names(trust)


def _trusted_names(trust: str | list[str] | tuple[str, ...] | None) -> list[str]:
    given = os.environ.get(TRUST_VARIABLE, "") if trust is None else trust
    return [part.strip() for part in given.split(",")] if isinstance(given, str) else list(given)


def refuse_code(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Raise `UntrustedModelError` unless the model folder holds data alone; returns its description."""
    root = Path(folder)
    described = _description(root)
    flavors = described["flavors"]
    for name, conf in flavors.items():
        if name not in _FLAVORS or not isinstance(conf, dict):
            raise UntrustedModelError(f"Expected only the flavors {_FLAVORS}, but the model has {name!r}.")
        _check_flavor(name, conf)
    loader = flavors.get("python_function", {}).get("loader_module")
    if loader not in LOADERS:
        raise UntrustedModelError(f"Expected one of the loaders {LOADERS}, but the model names {loader!r}.")
    for path in root.rglob("*"):
        name = path.relative_to(root).as_posix()
        if path.is_symlink():
            raise UntrustedModelError(f"Expected plain files, but the model holds the link {name!r}.")
        if path.suffix in (".pth", ".pkl", ".pt", ".pickle", ".joblib"):
            raise UntrustedModelError(f"Expected a network in pt2 format, but the model holds pickles: {name!r}.")
        if path.is_file() and name not in _FILES:
            raise UntrustedModelError(f"Expected a model without code, but it brings the file {name!r}.")
    if not (root / "data" / "model.pt2").is_file():
        raise UntrustedModelError("Expected a network in pt2 format at data/model.pt2, but there is none.")
    return described


def _description(root: Path) -> dict[str, Any]:
    import yaml

    path = root / "MLmodel"
    try:
        if path.stat().st_size > _LARGEST_TEXT:
            raise UntrustedModelError(f"Expected an MLmodel file of at most {_LARGEST_TEXT:,} bytes, but got more.")
        described = yaml.safe_load(path.read_text(encoding="utf-8"))
        if not isinstance(described, dict) or not isinstance(described.get("flavors"), dict):
            raise UntrustedModelError(f"Expected the model's flavors in {path}, but there are none.")
        return described
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        if isinstance(error, UntrustedModelError):
            raise
        raise UntrustedModelError(f"Expected a readable MLmodel file in {root}, but got {error!r}.") from error


def _check_flavor(name: str, conf: dict[str, Any]) -> None:
    if conf.get("code"):
        raise UntrustedModelError(f"Expected a model without code, but flavor {name!r} brings {conf['code']!r}.")
    wanted = {"model_data": "data", "data": {"dynamask": "dynamask.json"}.get(name, "data")}
    for key, value in wanted.items():
        if conf.get(key) not in (None, value):
            raise UntrustedModelError(f"Expected {key} inside the model's folder, at {value!r}, but got {conf[key]!r}.")


__all__ = ["UntrustedModelError", "accepts_signed", "is_trusted", "load_folder", "load_untrusted", "refuse_code"]
