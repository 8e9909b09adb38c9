"""Trained models are kept on disk, named by a hash of everything that determines them."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn

from dynamask_mlflow._files import atomic_file

Module = TypeVar("Module", bound=nn.Module)

_FORMAT = 1


def cache_folder() -> Path:
    """DYNAMASK_CACHE, or ~/.cache/dynamask_mlflow."""
    named = os.environ.get("DYNAMASK_CACHE")
    return Path(named) if named else Path.home() / ".cache" / "dynamask_mlflow"


def settings_key(name: str, settings: Mapping[str, Any]) -> str:
    """`name` and a hash of the settings: equal settings, equal key."""
    text = json.dumps({"format": _FORMAT, **settings}, sort_keys=True, default=str)
    return f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def cached_model(
    name: str, settings: Mapping[str, Any], build: Callable[[], Module], train: Callable[[Module], None]
) -> Module:
    """The model of these settings: built, then its weights read from the cache, or trained and kept there.

    A file that cannot be read counts as absent. The returned model is in evaluation mode.
    """
    path = cache_folder() / "models" / f"{settings_key(name, settings)}.pt"
    model = build()
    try:
        weights = torch.load(path, map_location="cpu", weights_only=True)
        model.load_state_dict(weights)
    except Exception:  # torch reports a damaged file in many ways; each means: train again
        model = build()
        train(model)
        _write(model, path)
    return model.eval()


def _write(model: nn.Module, path: Path) -> None:
    with atomic_file(path) as file:
        torch.save(model.state_dict(), file)


def cached_json(name: str, settings: Mapping[str, Any], compute: Callable[[], Any]) -> Any:
    """What `compute` returned for these settings, as JSON holds it; a file that cannot be read counts as absent."""
    path = cache_folder() / f"{settings_key(name, settings)}.json"
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = json.dumps(compute())
    with atomic_file(path) as file:
        file.write(found.encode())
    return json.loads(found)
