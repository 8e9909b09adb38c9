"""The artifacts of an `EvaluationResult`: what their `.content` is, and how they are saved and loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mlflow.models.evaluation.artifacts import ImageEvaluationArtifact, JsonEvaluationArtifact
from mlflow.models.evaluation.base import EvaluationArtifact

from dynamask_mlflow.masks.change.result import Change
from dynamask_mlflow.masks.result import Masks
from dynamask_mlflow.tracking.artifacts import (
    CARD,
    CHANGE,
    CHANGE_RECORD,
    CHANGE_TABLE,
    CONFIG,
    MASKS,
    PROFILE,
    REPORT,
    TABLE,
)

_NAMES = {
    TABLE: "dynamask_instances",
    REPORT: "dynamask_report",
    CARD: "dynamask_model_card",
    MASKS: "dynamask_masks",
    PROFILE: "dynamask_profile",
    CONFIG: "dynamask_config",
    CHANGE: "dynamask_change",
    CHANGE_RECORD: "dynamask_change_record",
    CHANGE_TABLE: "dynamask_changes",
}


class MasksEvaluationArtifact(EvaluationArtifact):
    """Content: `Masks`."""

    _content: Masks | None

    def _save(self, output_artifact_path: str) -> None:
        masks: Masks = self.content
        masks.save(output_artifact_path)

    def _load_content_from_file(self, local_artifact_path: str) -> Masks:
        self._content = Masks.load(local_artifact_path)
        return self._content


class ChangeEvaluationArtifact(EvaluationArtifact):
    """Content: `Change`."""

    _content: Change | None

    def _save(self, output_artifact_path: str) -> None:
        change: Change = self.content
        change.save(output_artifact_path)

    def _load_content_from_file(self, local_artifact_path: str) -> Change:
        self._content = Change.load(local_artifact_path)
        return self._content


class HtmlEvaluationArtifact(EvaluationArtifact):
    """Content: a page or a card as text."""

    _content: str | None

    def _save(self, output_artifact_path: str) -> None:
        Path(output_artifact_path).write_text(self.content, encoding="utf-8")

    def _load_content_from_file(self, local_artifact_path: str) -> str:
        self._content = Path(local_artifact_path).read_text(encoding="utf-8")
        return self._content


_KINDS: dict[str, Any] = {
    ".json": JsonEvaluationArtifact,
    ".html": HtmlEvaluationArtifact,
    ".md": HtmlEvaluationArtifact,
    ".npz": MasksEvaluationArtifact,
    ".png": ImageEvaluationArtifact,
}


def listed_artifacts(folder: Path, files: list[str], artifact_uri: str) -> dict[str, EvaluationArtifact]:
    """One artifact a file, its content loaded: `EvaluationResult.save` does not fetch what was never read."""
    found: dict[str, EvaluationArtifact] = {}
    for name in files:
        path = Path(name)
        kind = ChangeEvaluationArtifact if name == CHANGE else _KINDS[path.suffix]
        artifact: EvaluationArtifact = kind(uri=f"{artifact_uri.rstrip('/')}/{name}")
        artifact._load(str(folder / name))  # type: ignore[no-untyped-call]
        found[_NAMES.get(name, f"dynamask_{path.stem}")] = artifact
    return found
