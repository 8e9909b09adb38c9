"""Loading models of unknown origin: nothing that could run code gets as far as a loader."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlflow.pyfunc import PyFuncModel

LOADERS = ("dynamask_mlflow", "mlflow.pytorch")
_FLAVORS = ("dynamask", "python_function", "pytorch")
_ALLOW_PICKLE = "MLFLOW_ALLOW_PICKLE_DESERIALIZATION"


class UntrustedModelError(ValueError):
    """The model could run code of its own when it is loaded."""


def load_untrusted(model_uri: str, dst_path: str | None = None) -> PyFuncModel:
    """Download a model, refuse it if it could run code, load it without pickle: a model for `evaluate`.

    Allowed are pt2 networks under MLflow's pytorch loader or ours, without a `code` folder.
    """
    import mlflow.pyfunc
    from mlflow.artifacts import download_artifacts

    local = download_artifacts(artifact_uri=str(model_uri), dst_path=dst_path)
    refuse_code(local)
    with no_pickle():
        model: PyFuncModel = mlflow.pyfunc.load_model(local)
        return model


def refuse_code(folder: str | os.PathLike[str]) -> None:
    """Raise `UntrustedModelError` unless the model folder holds data alone."""
    import yaml

    root = Path(folder).resolve()
    try:
        described = yaml.safe_load((root / "MLmodel").read_text(encoding="utf-8"))
        flavors = described["flavors"]
    except (OSError, yaml.YAMLError, KeyError, TypeError) as error:
        raise UntrustedModelError(f"Expected a readable MLmodel file in {root}, but got {error!r}.") from error
    for name, conf in flavors.items():
        if name not in _FLAVORS:
            raise UntrustedModelError(f"Expected only the flavors {_FLAVORS}, but the model has {name!r}.")
        _check_flavor(root, name, conf)
    loader = flavors.get("python_function", {}).get("loader_module")
    if loader not in LOADERS:
        raise UntrustedModelError(f"Expected one of the loaders {LOADERS}, but the model names {loader!r}.")
    pickles = [str(file.relative_to(root)) for file in root.rglob("*") if file.suffix in (".pth", ".pkl", ".pt")]
    if pickles:
        raise UntrustedModelError(f"Expected a network in pt2 format, but the model holds pickles: {pickles}.")


def _check_flavor(root: Path, name: str, conf: dict[str, Any]) -> None:
    if conf.get("code"):
        raise UntrustedModelError(f"Expected a model without code, but flavor {name!r} brings {conf['code']!r}.")
    for key in ("data", "model_data"):
        inside = conf.get(key)
        if inside is not None and not (root / str(inside)).resolve().is_relative_to(root):
            raise UntrustedModelError(f"Expected {key} inside the model's folder, but got {inside!r}.")


@contextmanager
def no_pickle() -> Iterator[None]:
    """Make MLflow verify that pt2 archives hold no pickled objects."""
    before = os.environ.get(_ALLOW_PICKLE)
    os.environ[_ALLOW_PICKLE] = "false"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_ALLOW_PICKLE]
        else:
            os.environ[_ALLOW_PICKLE] = before
