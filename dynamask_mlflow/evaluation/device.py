"""Where to compute, found out before the fits."""

from __future__ import annotations

from dynamask_mlflow._settings import ConfigError


def require_device(device: str) -> None:
    """Raise `ConfigError` unless torch can compute there."""
    import torch

    if device == "auto":
        return
    try:
        torch.empty(1, device=device).cpu()
    except (AssertionError, RuntimeError, ValueError) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ConfigError(f"Expected a device of this machine, but got {device!r}: {first}") from error
