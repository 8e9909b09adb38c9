"""What the steps of an audit hand to each other: small records, which JSON holds between processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.audit.config import AuditConfig
from dynamask_mlflow.audit.identity import DEFAULT_SITE, EXPERIMENT
from dynamask_mlflow.audit.models import ModelRef
from dynamask_mlflow.audit.verdict import Verdict


@dataclass(frozen=True, kw_only=True)
class AuditSource:
    """What to audit, as a caller names it, and where its results go.

    Attributes:
        model: models:/name@alias or models:/name/version. data: folder of a built dataset. window: which stays.
        site: where the stays come from. split: only stays of this split.
        store: folder of the shards; None for the default. experiment: of MLflow.
        reference_run_id: another reference than the version's own.
    """

    model: str
    data: str
    window: str = "all"
    site: str = DEFAULT_SITE
    split: str | None = None
    store: str | None = None
    experiment: str = EXPERIMENT
    reference_run_id: str | None = None

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """From a mapping with these keys among others; an empty value is the default.

        >>> AuditSource.from_dict({"model": "models:/icu/1", "data": "icu", "window": "2026-03", "site": ""}).site
        'default'
        """
        return cls(**{each.name: stored[each.name] for each in fields(cls) if stored.get(each.name)})


@dataclass(frozen=True, kw_only=True)
class Request:
    """One run that was opened, with all that its later steps need.

    Attributes:
        model: the version. rows: of the stays that were drawn to be explained. predicted_rows: of more stays, which are
            predicted only. content: a digest of all of them.
        store: folder of the shards. run_id: of MLflow. key: the same for the same work.
    """

    kind: ClassVar[str]

    model: ModelRef
    data: str
    site: str
    window: str
    split: str | None
    rows: tuple[int, ...]
    content: str
    config: AuditConfig
    store: str
    experiment: str
    run_id: str
    key: str
    predicted_rows: tuple[int, ...] = ()

    @property
    def all_rows(self) -> NDArray[np.intp]:
        """Of all stays, explained or only predicted."""
        return np.asarray([*self.rows, *self.predicted_rows], dtype=np.intp)

    @property
    def root(self) -> Path:
        """The store as a folder."""
        return Path(self.store)

    @property
    def stays(self) -> StaySource:
        """The stays that are explained."""
        return StaySource(stays=self.data, rows=self.rows, hashed=self.config.hash_ids)

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        stored = {each.name: _plain(getattr(self, each.name)) for each in fields(self)}
        return {"kind": self.kind, **stored}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """What `to_dict` gave, also after JSON."""
        given: dict[str, Any] = {each.name: stored[each.name] for each in fields(cls) if each.name in stored}
        for name in ("rows", "predicted_rows"):
            given[name] = tuple(int(row) for row in given.get(name, ()))
        given["config"] = AuditConfig.from_mapping(given["config"])
        for name in ("model", "reference_model"):
            if name in given:
                given[name] = ModelRef.from_dict(given[name])
        return cls(**given)


@dataclass(frozen=True, kw_only=True)
class ReferenceRequest(Request):
    """A reference to be built."""

    kind = "reference"


@dataclass(frozen=True, kw_only=True)
class AuditRequest(Request):
    """An audit of a window against a reference.

    Attributes:
        population: stays from which the rows were drawn. series: of the windows that are followed over time.
        reference_run_id, reference_model: the reference and the version it belongs to.
        blockers: why the reference cannot be compared with, if it cannot: kind -> a sentence.
    """

    kind = "audit"

    population: int
    series: str
    reference_run_id: str
    reference_model: ModelRef
    blockers: Mapping[str, str] = field(default_factory=dict)


def request_from_dict(stored: Mapping[str, Any]) -> AuditRequest | ReferenceRequest:
    """A request of either kind.

    >>> ref = ModelRef("icu", "1", "models:/m-1")
    >>> about = {"data": "icu", "site": "default", "window": "2026-01", "split": None, "rows": (0, 1), "content": "c"}
    >>> run = {"store": "shards", "experiment": EXPERIMENT, "run_id": "r", "key": "k"}
    >>> request = ReferenceRequest(model=ref, config=AuditConfig(), **about, **run)
    >>> request_from_dict(request.to_dict()) == request
    True
    """
    kind = AuditRequest if stored["kind"] == AuditRequest.kind else ReferenceRequest
    return kind.from_dict(stored)


@dataclass(frozen=True, kw_only=True)
class StaySource:
    """Which sequences: rows of a built dataset (`stays`), with hashed ids or not, or a file of sequences."""

    stays: str | None = None
    sequences: str | None = None
    rows: tuple[int, ...] | None = None
    hashed: bool = False

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it: what is not said is left out."""
        rows = {} if self.rows is None else {"rows": list(self.rows)}
        if self.stays is None:
            return {"sequences": self.sequences, **rows}
        return {"stays": self.stays, **rows, "hashed": self.hashed}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        rows = stored.get("rows")
        return cls(**{**stored, "rows": None if rows is None else tuple(int(row) for row in rows)})


@dataclass(frozen=True, kw_only=True)
class ShardGroup:
    """Shards of one role: a model that explains some sequences.

    Attributes:
        role: what the shards are for; `gather_role` finds them again. keep: how many masks to keep, over all shards.
        salt: enters the name; another salt makes a fit of its own, which the canary needs.
    """

    model: ModelRef
    source: StaySource
    config: AuditConfig
    role: str = "window"
    keep: int = 0
    salt: str = ""


@dataclass(frozen=True, kw_only=True)
class ShardSpec:
    """What one shard is to do, and where its result goes.

    Attributes:
        ids, content: of the sequences, as they were planned. code: a digest of the code that will fit them.
        result: the file of the result, named by all that determines its content.
    """

    model: ModelRef
    source: StaySource
    ids: tuple[str, ...]
    content: str
    config: AuditConfig
    code: str
    salt: str
    role: str
    keep: int
    result: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {each.name: _plain(getattr(self, each.name)) for each in fields(self)}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        return cls(
            **{
                **stored,
                "model": ModelRef.from_dict(stored["model"]),
                "source": StaySource.from_dict(stored["source"]),
                "ids": tuple(stored["ids"]),
                "config": AuditConfig.from_mapping(stored["config"]),
            }
        )


@dataclass(frozen=True, kw_only=True)
class ShardResult:
    """What came of a shard. skipped: whether its result was there already."""

    uri: str
    result: str
    instances: int
    failures: int
    seconds: float
    skipped: bool

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class ReferenceResult:
    """What came of building a reference."""

    model: ModelRef
    site: str
    window: str
    instances: int
    failures: int
    noise_floor: Mapping[str, float]
    run_id: str

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class AuditResult:
    """A verdict and the run that holds it."""

    verdict: Verdict
    run_id: str

    def to_dict(self) -> dict[str, Any]:
        return {**self.verdict.to_dict(), "run_id": self.run_id}


def _plain(value: Any) -> Any:
    if isinstance(value, ModelRef | AuditConfig | StaySource):
        return value.to_dict()
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value
