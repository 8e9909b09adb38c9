"""Methods by name. Each is imported when it is first asked for, so that unused ones cost nothing."""

from __future__ import annotations

import difflib
from importlib import import_module

from dynamask_mlflow.masks.fitted import Method

SALIENCY_METHODS = (
    "fo", "afo", "fp", "ig", "gs", "svs", "lime", "dl", "retain", "fit", "extrmask", "random",
    "ig_signed", "gs_signed", "svs_signed", "lime_signed", "dl_signed",
    "ig_mean", "ig_mean_signed", "ig_smooth",
)  # fmt: skip

_METHODS: dict[str, str] = {
    "nested": "dynamask_mlflow.masks.nested:fit_nested",
    "paper": "dynamask_mlflow.masks.paper:fit_paper",
    **{name: f"dynamask_mlflow.saliency.methods:{name}" for name in SALIENCY_METHODS},
}


def method_names() -> tuple[str, ...]:
    return tuple(_METHODS)


def method_location(name: str) -> str | None:
    """Where the method of that name is defined, "package.module:function"; None if it is unknown."""
    return _METHODS.get(name)


def register_method(name: str, location: str) -> None:
    """Make `location` ("package.module:function") known as `name`; the function is a `Method`."""
    _METHODS[name] = location


def find_method(name: str) -> Method:
    """The method of that name; an unknown name lists the known ones."""
    if name not in _METHODS:
        near = difflib.get_close_matches(name, _METHODS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"Unknown method {name!r}.{hint} Known methods: {', '.join(_METHODS)}.")
    module, _, attribute = _METHODS[name].partition(":")
    method: Method = getattr(import_module(module), attribute)
    return method
