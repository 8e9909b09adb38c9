"""`python -m benchmarks.gpu`: the fit on a GPU beside the CPU, with TF32, autocast and torch.compile.

Never run on a GPU by the maintainers: the tables of whoever has one are welcome. Without one it says so and ends.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from dynamask_mlflow.masks.explain import explain

STEPS, CHANNELS = 48, 31


class Gru(nn.Module):
    """The paper's network for MIMIC: one layer of 200 cells."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(CHANNELS, 200, batch_first=True)
        self.head = nn.Linear(200, 2)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.gru(x)[0][:, -1])
        return logits


class Autocast(nn.Module):
    """A network that computes in half precision where torch thinks it safe."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast(x.device.type):
            logits: Tensor = self.network(x)
        return logits.float()


class Convolutions(nn.Module):
    """A network without recurrence."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(CHANNELS, 64, 5, padding=2)
        self.head = nn.Linear(64, 2)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(torch.relu(self.first(x.transpose(1, 2))).mean(2))
        return logits


def measure(network: nn.Module, x: Tensor, device: str, tf32: bool) -> tuple[float, np.ndarray]:
    """Seconds an instance, the first run left out, and the masks."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = tf32
    try:
        explain(network, x[:2], device=device, progress=False)
        begun = time.perf_counter()
        masks = explain(network, x, device=device, progress=False)
        return (time.perf_counter() - begun) / len(x), masks.masks
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "mps")
    parser.add_argument("--instances", type=int, nargs="*", default=[16, 256])
    parser.add_argument("--compile", default="inductor", help="Backend of torch.compile, for the CNN; '' for none.")
    options = parser.parse_args()
    if options.device.startswith("cuda") and not torch.cuda.is_available():
        raise SystemExit("Expected CUDA on this machine, but torch finds none; --device cpu tries the script itself.")
    if options.device == "mps" and not torch.backends.mps.is_available():
        raise SystemExit("Expected a GPU on this machine, but torch finds none; --device cpu tries the script itself.")
    networks: dict[str, Callable[[], nn.Module]] = {"gru": Gru, "cnn": Convolutions}
    print(f"torch {torch.__version__}, {options.device}\n")
    print("| network | instances | setting | s an instance | CPU, s | times faster | largest difference of a mask |")
    print("|---|---|---|---|---|---|---|")
    for name, make in networks.items():
        torch.manual_seed(0)
        network = make().eval()
        for count in options.instances:
            x = torch.randn(count, STEPS, CHANNELS, generator=torch.Generator().manual_seed(1))
            plain, expected = measure(network, x, "cpu", False)
            settings = {"float32": (network, False), "TF32": (network, True), "autocast": (Autocast(network), False)}
            if name == "cnn" and options.compile:
                compiled: nn.Module = torch.compile(network, backend=options.compile)  # type: ignore[assignment]
                settings["torch.compile"] = (compiled, False)
            for setting, (asked, tf32) in settings.items():
                seconds, masks = measure(asked, x, options.device, tf32)
                off = float(np.abs(masks - expected).max())
                row = (name, count, setting, f"{seconds:.4f}", f"{plain:.4f}", f"{plain / seconds:.1f}", f"{off:.2g}")
                print("| " + " | ".join(map(str, row)) + " |", flush=True)


if __name__ == "__main__":
    main()
