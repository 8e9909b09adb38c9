"""One thread for torch: the suite's own processes already share the cores."""

import pytest


@pytest.fixture(autouse=True, scope="session")
def one_torch_thread() -> None:
    import torch

    torch.set_num_threads(1)
