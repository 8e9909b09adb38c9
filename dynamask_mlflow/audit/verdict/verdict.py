"""The verdict of an audit: ok, warning, drift or inconclusive, with reasons that people can read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from dynamask_mlflow._json import plain
from dynamask_mlflow._provenance import digest
from dynamask_mlflow._states import State
from dynamask_mlflow.audit.identity import DEFAULT_SITE

_INVALIDATING = ("reference", "settings", "channels", "failures", "sample", "canary", "trust")


@dataclass(frozen=True, kw_only=True)
class Violation:
    """One expectation that was not met.

    Attributes:
        kind: "attention", "trend", "version", "legibility", "faithfulness" (drift); "predictions", "performance",
            "inputs", "subgroup" (warnings); "canary", "trust", "sample", "failures", "settings", "channels", "power"
            (no verdict).
        subject: what it is about: "channels", "hours", a channel, a metric.
        message: one sentence.
        value, threshold, p_value, low, high: the numbers, where there are any.
    """

    kind: str
    subject: str
    message: str
    value: float | None = None
    threshold: float | None = None
    p_value: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What an audit found.

    Attributes:
        state: ok (proven: no move of weight), warning, drift or inconclusive.
        reasons: sentences with the evidence, the most important first.
        diagnosis: what the combination of findings fits, one sentence each, the most important first.
        places: where findings sit, and which charted codes changed. steps: what to do next.
        violations: what was not met; empty when ok.
        causes: "data", "model", both or none; and "inputs" or "predictions" if those moved.
        metrics: the numbers, name -> value, finite.
        moved_channels, moved_times: names and labels of what moved beyond chance.
        moved_inputs: channels whose values or gaps moved.
        subgroups: sentences on differences between groups of the window, and on groups that are too small.
        culprit: names of the slice that explains the finding, the smallest last; empty if there is none.
        model, version, site, window: what was audited. content: a digest of the stays. reference_run_id: against what.
    """

    state: State
    reasons: tuple[str, ...]
    diagnosis: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    violations: tuple[Violation, ...] = ()
    causes: tuple[str, ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    moved_channels: tuple[str, ...] = ()
    moved_times: tuple[Any, ...] = ()
    moved_inputs: tuple[str, ...] = ()
    subgroups: tuple[str, ...] = ()
    culprit: tuple[str, ...] = ()
    model: str = ""
    version: str = ""
    site: str = DEFAULT_SITE
    window: str = ""
    content: str = ""
    reference_run_id: str | None = None

    @property
    def sections(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """What to read, in this order: (title, sentences) of what was found, of the evidence and of what to do next.

        >>> power = Violation(kind="power", subject="in time", message="Too few stays.")
        >>> reasons = ("Too few stays.", "Nothing moved.")
        >>> dict(Verdict(state=State.INCONCLUSIVE, reasons=reasons, violations=(power,)).sections)
        {'Finding': ('Too few stays.',), 'Evidence': ('Nothing moved.',)}
        """
        invalidating = [v.message for v in self.violations if v.kind in _INVALIDATING]
        # That an input moved is evidence for what it fits; anything else that was violated is a finding of its own.
        apart = (*_INVALIDATING, "inputs") if self.diagnosis else _INVALIDATING
        others = [v.message for v in self.violations if v.kind not in apart]
        found = tuple(dict.fromkeys([*invalidating, *self.diagnosis, *others])) or self.reasons[:1]
        rest = (*(text for text in self.reasons if text not in found), *self.places, *self.subgroups)
        parts = (("Finding" if len(found) == 1 else "Findings", found), ("Evidence", rest), ("Next steps", self.steps))
        return tuple((title, sentences) for title, sentences in parts if sentences)

    @property
    def headline(self) -> str:
        """The two most important sentences: what the change fits, and what was proven."""
        return " ".join(self.sections[0][1][:2]) if self.sections else ""

    @property
    def exit_code(self) -> int:
        return self.state.exit_code

    @property
    def fingerprint(self) -> str:
        """The same for the same finding, however the numbers vary."""
        kinds = sorted({(v.kind, v.subject) for v in self.violations})
        return digest([self.model, self.version, self.site, self.state, kinds, sorted(self.moved_channels)])

    @property
    def channels(self) -> tuple[str, ...]:
        """The channels that the finding is about: whose attention moved, or whose inputs warn."""
        warned = {v.subject for v in self.violations if v.kind == "inputs"}
        return tuple(sorted(warned | set(self.moved_channels)))

    def to_dict(self) -> dict[str, Any]:
        record = asdict(self)
        record["state"] = str(self.state)
        record["metrics"] = {name: plain(value) for name, value in self.metrics.items()}
        record["violations"] = [{k: plain(v) for k, v in asdict(violation).items()} for violation in self.violations]
        return {**record, "fingerprint": self.fingerprint, "exit_code": self.exit_code}

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=1, ensure_ascii=False)

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Verdict:
        """Read what `to_dict` gave."""
        known: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in stored.items()
            if name not in ("fingerprint", "exit_code")
        }
        known["state"] = State(known["state"])
        known["violations"] = tuple(Violation(**entry) for entry in known.get("violations", ()))
        return cls(**known)

    def violations_json(self) -> str:
        """The file that other monitors write, too: what was violated, by how much, and what to read."""
        record = self.to_dict()
        what = ("model", "version", "site", "window", "content", "reference_run_id")
        keys = (*what, "state", "fingerprint", "violations")
        return json.dumps({key: record[key] for key in keys}, indent=1, ensure_ascii=False)
