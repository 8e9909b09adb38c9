"""With what a fit was computed, so that a canary that looks elsewhere can be given a name."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

WEIGHTS = "weights"


def runtime_of(network: torch.nn.Module, device: str) -> dict[str, str]:
    """Libraries, processor, precision, and a hash of the weights."""
    import numpy as np
    import torch

    from dynamask_mlflow.masks.black_box import resolve_device

    chosen = resolve_device(device)
    on_cuda = chosen.type == "cuda"
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "machine": f"{platform.system()} {platform.machine()}",
        "device": torch.cuda.get_device_name(chosen) if on_cuda else chosen.type,
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "precision": torch.get_float32_matmul_precision(),
        "threads": str(torch.get_num_threads()),
        WEIGHTS: weights_digest(network),
    }


def weights_digest(network: torch.nn.Module) -> str:
    """Of all parameters and buffers in their order; names are left out, for exports rename them."""
    sha = hashlib.sha256()
    for tensor in network.state_dict().values():
        plain = tensor.detach().cpu().contiguous()
        sha.update(f"{plain.dtype} {tuple(plain.shape)}".encode())
        sha.update(plain.flatten().view(dtype=_bytes()).numpy().tobytes())
    return sha.hexdigest()[:16]


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """What is recorded on both sides and differs: name -> (then, now)."""
    return {name: (str(then[name]), str(now[name])) for name in then if name in now and then[name] != now[name]}


def _bytes() -> torch.dtype:
    import torch

    return torch.uint8
