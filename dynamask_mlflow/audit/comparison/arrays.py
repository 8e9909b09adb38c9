"""Everything a verdict is computed from, as arrays and a few facts, kept with the run: anyone can compute it again."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from dynamask_mlflow.audit.artifacts import ANCHORS, MADE_FROM, MEASURED, OTHERS, REFERENCE
from dynamask_mlflow.audit.explained_window import ExplainedWindow


@dataclass(frozen=True, kw_only=True)
class MadeFrom:
    """What a verdict was made from, beside its arrays.

    Attributes:
        reference_run_id: the pinned reference, whose anchors the canary is compared with.
        compared_with: the run whose stays are the reference: the same, or an audit if the reference is rolling.
        earlier: runs of the audits whose windows were tested together with this one.
        label: of the reference. under: the version that the tests were asked of, if it is not the audited one.
        population: stays of the window. changed_anchors: anchors whose inputs in the data are no longer the same.
        constant: channels that are the same all through every stay of the window, such as the age.
        noise, rounding: of the reference. parts: the arrays beside the window that are there, names of `OTHERS`.
        blockers: kind -> a sentence that forbids a comparison.
    """

    reference_run_id: str
    compared_with: str
    earlier: tuple[str, ...] = ()
    label: str = ""
    under: str = ""
    population: int = 0
    changed_anchors: int = 0
    constant: tuple[str, ...] = ()
    noise: Mapping[str, float] = field(default_factory=dict)
    rounding: float | None = None
    parts: tuple[str, ...] = ()
    blockers: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> MadeFrom:
        stored = json.loads(text)
        several = ("earlier", "parts", "constant")
        return cls(**{**stored, **{name: tuple(stored.get(name, ())) for name in several}})


@dataclass(frozen=True, kw_only=True, eq=False)
class AuditArrays:
    """The stays of an audit: of the reference, of the window, and what is set beside them.

    Attributes:
        anchors, canary: the reference's anchors, as they were and refitted. earlier: windows of the trend.
        old_window, new_anchors: for a new version: the window under the old one, and the anchors under the new one.
    """

    made_from: MadeFrom
    reference: ExplainedWindow
    current: ExplainedWindow
    anchors: ExplainedWindow | None = None
    canary: ExplainedWindow | None = None
    earlier: tuple[ExplainedWindow, ...] = ()
    old_window: ExplainedWindow | None = None
    new_anchors: ExplainedWindow | None = None

    @property
    def asked(self) -> ExplainedWindow:
        """The window as the version saw it that the tests are asked of."""
        return self.current if self.old_window is None else self.old_window

    def save(self, folder: Path) -> dict[str, Any]:
        """artifact -> file or text: what a run keeps."""
        files: dict[str, Any] = {MADE_FROM: self.made_from.to_json()}
        if len(self.current):
            files[MEASURED] = self.current.save(folder / "measured.npz")
        for name in self.made_from.parts:
            files[OTHERS[name]] = getattr(self, name).save(folder / f"{name}.npz")
        return files


Fetch = Callable[[str, str], Path]


def load_arrays(run_id: str, fetch: Fetch) -> AuditArrays:
    """The arrays of an audit. `fetch`: (run, artifact) -> a local file."""
    made_from = MadeFrom.from_json(fetch(run_id, MADE_FROM).read_text(encoding="utf-8"))
    pinned = made_from.compared_with == made_from.reference_run_id
    others = {name: ExplainedWindow.load(fetch(run_id, OTHERS[name])) for name in made_from.parts}
    return AuditArrays(
        made_from=made_from,
        reference=ExplainedWindow.load(fetch(made_from.compared_with, REFERENCE if pinned else MEASURED)),
        current=ExplainedWindow.load(fetch(run_id, MEASURED)),
        anchors=ExplainedWindow.load(fetch(made_from.reference_run_id, ANCHORS)) if others else None,
        earlier=tuple(ExplainedWindow.load(fetch(run, MEASURED)) for run in made_from.earlier),
        **others,
    )
