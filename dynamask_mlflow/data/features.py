"""Feature sets: which codes of which source make which channel, in which unit and range, and its gaps."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from importlib import resources
from pathlib import Path
from typing import Any

from dynamask_mlflow.data.errors import DataError

KINDS = ("lab", "vital", "static")
# forward: carry the last value on. window_mean: the mean of the stay's own window, which looks ahead.
# none: leave every gap to the imputation.
FILLS = ("forward", "window_mean", "none")
CODE_LISTS = ("lab", "carevue", "metavision", "variable", "meds")
CONVERSIONS = {"": (1.0, 0.0), "fahrenheit": (5 / 9, -160 / 9)}


@dataclass(frozen=True)
class CodeGroup:
    """Codes of a channel in one unit: v is kept if low < v <= high and becomes v * scale + offset."""

    codes: Mapping[str, tuple[int | str, ...]]
    low: float
    high: float
    units: tuple[str, ...] = ()
    scale: float = 1.0
    offset: float = 0.0
    missing: tuple[float, ...] = ()


@dataclass(frozen=True)
class Channel:
    """One column of the tensor.

    Attributes:
        name: as it appears in the tensor and the model. label: as a clinician knows it, "Potassium (lab)".
        kind: "lab", "vital" or "static".
        groups: the codes, by unit; of a static channel one without codes, if it has a range.
        fill: how gaps between observations are filled (`FILLS`).
        unit: of the tensor before standardisation.
        default: what stands before the first observation; None is the mean of the training patients.
        typical: where the median of a hospital's values must lie; outside it the unit is probably wrong.
        static: for kind "static": the column of the table of stays.
        levels: for a static text column: prefix (upper case) to number; anything else is `other`.
    """

    name: str
    kind: str
    groups: tuple[CodeGroup, ...] = ()
    fill: str = "forward"
    unit: str = ""
    default: float | None = None
    typical: tuple[float, float] | None = None
    static: str = ""
    levels: Mapping[str, float] = field(default_factory=dict)
    other: float | None = None
    label: str = ""


@dataclass(frozen=True)
class FeatureSet:
    """A named, versioned list of channels over some hours; `groups` names subsets that may be required."""

    name: str
    version: int
    channels: tuple[Channel, ...]
    hours: int = 48
    description: str = ""
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def channel_names(self) -> tuple[str, ...]:
        return tuple(channel.name for channel in self.channels)

    @property
    def digest(self) -> str:
        stored = asdict(self)
        for channel in stored["channels"]:
            del channel["label"]  # a name for readers changes no tensor
        return hashlib.sha256(json.dumps(stored, sort_keys=True).encode()).hexdigest()[:16]

    def members(self, require: str) -> tuple[str, ...]:
        """The channels behind "none", "all", the name of a group, or a comma-separated list of channels."""
        if require == "none":
            return ()
        if require == "all":
            return tuple(c.name for c in self.channels if c.kind != "static")
        if require in self.groups:
            return self.groups[require]
        wanted = tuple(name.strip() for name in require.split(","))
        for name in wanted:
            if name not in self.channel_names:
                valid = ("none", "all", *self.groups, *self.channel_names)
                raise DataError(f"Expected require to be one of {', '.join(valid)}, but got {name!r}.")
        return wanted


def load_feature_set(name: str) -> FeatureSet:
    """A feature set of the package by name, or a user's own by the path of its YAML file.

    Example:
        >>> len(load_feature_set("fit31").channels)
        31
    """
    return _parse(_read(name), name)


def packaged_feature_sets() -> list[str]:
    folder = resources.files("dynamask_mlflow.data") / "feature_sets"
    return sorted(entry.name.removesuffix(".yaml") for entry in folder.iterdir() if entry.name.endswith(".yaml"))


def _read(name: str) -> dict[str, Any]:
    import yaml

    if name.endswith((".yaml", ".yml")) or "/" in name:
        path = Path(name)
        if not path.is_file():
            raise DataError(f"Expected a feature set at {path}, but there is no such file.")
        text = path.read_text(encoding="utf-8")
    elif name in packaged_feature_sets():
        text = (resources.files("dynamask_mlflow.data") / "feature_sets" / f"{name}.yaml").read_text(encoding="utf-8")
    else:
        valid = ", ".join(packaged_feature_sets())
        raise DataError(f"Expected a feature set, one of {valid} or a YAML file, but got {name!r}.")
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise DataError(f"Expected YAML in the feature set {name}, but it cannot be parsed: {error}") from error
    if not isinstance(document, dict):
        raise DataError(f"Expected a mapping in the feature set {name}, but got {type(document).__name__}.")
    return document


def _parse(document: Mapping[str, Any], where: str) -> FeatureSet:
    known = {
        "name",
        "version",
        "description",
        "hours",
        "extends",
        "drop",
        "replace",
        "fill",
        "channels",
        "groups",
    }
    _reject_unknown(document, known, f"feature set {where}")
    for key in ("name", "version"):
        if key not in document:
            raise DataError(f"Expected the key {key!r} in the feature set {where}, but it is missing.")
    base: dict[str, Any] = dict(_read(document["extends"])) if "extends" in document else {}
    dropped = set(document.get("drop", ()))
    replaced = document.get("replace", {})
    entries = [replaced.get(e.get("name"), e) for e in base.get("channels", ()) if e.get("name") not in dropped]
    entries += list(document.get("channels", ()))
    fill_by_kind = document.get("fill", {})
    channels = tuple(_channel(entry, fill_by_kind, where) for entry in entries)
    names = [channel.name for channel in channels]
    if not channels:
        raise DataError(f"Expected at least one channel in the feature set {where}, but got none.")
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise DataError(f"Expected unique channel names in the feature set {where}, but got {repeated} twice.")
    groups = {
        name: tuple(member for member in members if member in names)
        for name, members in document.get("groups", base.get("groups", {})).items()
    }
    return FeatureSet(
        name=str(document["name"]),
        version=int(document["version"]),
        channels=channels,
        hours=int(document.get("hours", base.get("hours", 48))),
        description=str(document.get("description", "")),
        groups=groups,
    )


def _channel(entry: Any, fill_by_kind: Mapping[str, str], where: str) -> Channel:
    if not isinstance(entry, Mapping) or "name" not in entry:
        raise DataError(f"Expected every channel of the feature set {where} to have a name, but got {entry!r}.")
    name = str(entry["name"])
    group_keys = {f.name for f in fields(CodeGroup)} - {"low", "high"} | {"range", "convert"}
    own_keys = {f.name for f in fields(Channel)} - {"groups"} | {"also"}
    _reject_unknown(entry, own_keys | group_keys, f"channel {name} of {where}")
    kind = entry.get("kind", "vital")
    fill = entry.get("fill", fill_by_kind.get(kind, "forward"))
    for value, valid, key in ((kind, KINDS, "kind"), (fill, FILLS, "fill")):
        if value not in valid:
            raise DataError(f"Expected {key} of channel {name} to be one of {valid}, but got {value!r}.")
    if kind == "static" and not entry.get("static"):
        raise DataError(f"Expected channel {name} of kind static to name a column of the stays, but got none.")
    groups = []
    if entry.get("codes") or (kind == "static" and {"range", "missing", "scale", "offset", "convert"} & set(entry)):
        groups.append(_group({"codes": {}, **entry}, name))
    for other in entry.get("also", ()):
        _reject_unknown(other, group_keys, f"channel {name} of {where}")
        groups.append(_group({"range": entry.get("range", [None, None]), **other}, name))
    typical = entry.get("typical")
    return Channel(
        name=name,
        kind=kind,
        groups=tuple(groups),
        fill=fill,
        unit=str(entry.get("unit", "")),
        default=None if entry.get("default") is None else float(entry["default"]),
        typical=(float(typical[0]), float(typical[1])) if typical else None,
        static=str(entry.get("static", "")),
        levels={str(key).upper(): float(value) for key, value in entry.get("levels", {}).items()},
        other=None if entry.get("other") is None else float(entry["other"]),
        label=str(entry.get("label", "")),
    )


def _group(entry: Mapping[str, Any], channel: str) -> CodeGroup:
    codes = entry["codes"]
    _reject_unknown(codes, set(CODE_LISTS), f"codes of channel {channel}")
    low, high = entry.get("range", [None, None])
    low, high = -1e9 if low is None else float(low), 1e9 if high is None else float(high)
    if not low < high:
        raise DataError(f"Expected range [low, high] of channel {channel} with low < high, but got [{low}, {high}].")
    convert = entry.get("convert", "")
    if convert not in CONVERSIONS:
        valid = ", ".join(repr(key) for key in CONVERSIONS if key)
        raise DataError(f"Expected convert of channel {channel} to be one of {valid}, but got {convert!r}.")
    scale, offset = CONVERSIONS[convert]
    return CodeGroup(
        codes={key: tuple(values) for key, values in codes.items()},
        low=low,
        high=high,
        units=tuple(str(unit) for unit in entry.get("units", ())),
        scale=float(entry.get("scale", scale)),
        offset=float(entry.get("offset", offset)),
        missing=tuple(float(value) for value in entry.get("missing", ())),
    )


def _reject_unknown(entry: Mapping[str, Any], known: set[str], where: str) -> None:
    for key in entry:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1, cutoff=0.5)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise DataError(f"Unknown key {key!r} in {where}.{hint} Valid keys: {', '.join(sorted(known))}.")
