"""The model under audit: an alias pinned to a version, and the network inside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from dynamask_mlflow._model_uri import ModelUri
from dynamask_mlflow.audit.config import AuditConfig
from dynamask_mlflow.audit.errors import AuditError
from dynamask_mlflow.tracking.mlflow_client import equals

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

    from dynamask_mlflow.evaluation.model_settings import ModelSettings
    from dynamask_mlflow.evaluation.sequences import Sequences


@dataclass(frozen=True)
class ModelRef:
    """One version of a registered model; an alias may move on, this does not."""

    name: str
    version: str
    source: str

    @property
    def uri(self) -> str:
        return str(ModelUri(self.name, version=self.version))

    @property
    def model_id(self) -> str | None:
        """Of the logged model, where MLflow knows one."""
        name = self.source.removeprefix("models:/")
        return name if name.startswith("m-") else None

    def to_dict(self) -> dict[str, str]:
        return asdict(self)

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> ModelRef:
        return cls(str(stored["name"]), str(stored["version"]), str(stored["source"]))


def resolve_model(uri: str) -> ModelRef:
    """Pin `models:/name@alias`, `models:/name/3` or `models:/name` (the latest) to a version."""
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    try:
        asked = ModelUri.parse(uri)
    except ValueError as error:
        raise AuditError(str(error)) from error
    name, alias, version = asked.name, asked.alias, asked.version
    client = MlflowClient()
    try:
        registered = client.get_registered_model(name)
        if alias:
            found = client.get_model_version_by_alias(name, alias)
        elif version:
            found = client.get_model_version(name, version)
        else:
            versions = client.search_model_versions(equals("name", name))
            found = max((v for v in versions if v.name == name), key=lambda v: int(v.version))
    except (MlflowException, ValueError) as error:
        if isinstance(error, MlflowException) and not _says_no(error):
            raise
        try:
            known = ", ".join(sorted(registered.aliases)) or "none"
            raise AuditError(
                f"Expected {uri} in the registry, but {name} has no such version; its aliases: {known}."
            ) from error
        except NameError:
            raise AuditError(f"Expected the model {name!r} in the registry, but there is none.") from error
    return ModelRef(name, str(found.version), str(getattr(found, "model_id", None) or found.source))


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A version as MLflow loads it, its task, and its settings and reference."""

    model: Any
    task: str
    settings: ModelSettings | None = None
    reference: NDArray[Any] | None = None

    def network(self, sequences: Sequences, config: AuditConfig) -> tuple[torch.nn.Module, AuditConfig]:
        """The network inside, or the model itself as one without gradients, and how it is called.

        What the model was logged with (`inputs`, `layout`, `output_key`) holds unless the audit says otherwise.
        """
        from dynamask_mlflow.masks.errors import ModelError
        from dynamask_mlflow.tracking.open_network import NoModelError, call_settings, open_network

        default = AuditConfig()
        logged = call_settings(self.model)
        unset = {name: value for name, value in logged.items() if getattr(config, name) == getattr(default, name)}
        try:
            network, called = open_network(self.model, sequences, self.task, config.with_options(**unset), quiet=True)
        except (ModelError, NoModelError) as error:
            raise AuditError(str(error)) from error
        classes = getattr(network, "classes", None)
        if classes is not None and not set(classes.tolist()) <= {0, 1}:
            raise AuditError(
                f"Expected probabilities, or labels 0 and 1, but the model answers with {classes.tolist()}: which of "
                "them is the risk cannot be told from one window to the next. Log a model that gives probabilities."
            )
        return network, called


def load_network(ref: ModelRef, task: str | None, trust: str | list[str] | None = None) -> LoadedModel:
    """Load a version for an audit.

    Args:
        trust: names of registered models that may bring code, or "all"; by default the variable DYNAMASK_TRUST.
    """
    from dynamask_mlflow.tracking.open_network import reference_of, settings_of

    model = _load(ref, trust)
    settings = settings_of(model)
    if settings is not None and task is not None and task != settings.task:
        raise AuditError(f"Expected the task {settings.task}, as {ref.uri} was logged, but got {task!r}.")
    known = task if settings is None else settings.task
    if known is None:
        raise AuditError(f"Expected the setting `task`, since {ref.uri} does not say what it predicts.")
    return LoadedModel(model, known, settings, reference_of(model) if settings else None)


def _load(ref: ModelRef, trust: str | list[str] | None) -> Any:
    from dynamask_mlflow.tracking.signatures import signed_folder
    from dynamask_mlflow.tracking.untrusted import UntrustedModelError, accepts_signed, is_trusted, load_untrusted

    if is_trusted(ref.name, trust):
        return _load_with_code(ref.uri)
    try:
        if accepts_signed(trust):
            return _load_with_code(signed_folder(ref.name, ref.version))
        return load_untrusted(ref.uri)
    except UntrustedModelError as error:
        raise AuditError(
            f"{error} An audit runs no code of a model. If you trust {ref.name!r}, say so with "
            "--trust or the environment variable DYNAMASK_TRUST."
        ) from error


def _load_with_code(uri: str) -> Any:
    """Our own flavor directly: as a pyfunc, MLflow would compare all installed packages first, for a second."""
    from mlflow.models import get_model_info

    from dynamask_mlflow.tracking.loading import FLAVOR_NAME, load_model

    if FLAVOR_NAME in (get_model_info(uri).flavors or {}):
        return load_model(uri)
    import mlflow.pyfunc

    from dynamask_mlflow.tracking.mlflow_client import new_folder

    return mlflow.pyfunc.load_model(uri, dst_path=new_folder())


def _says_no(error: Any) -> bool:
    return getattr(error, "error_code", "") in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE")
