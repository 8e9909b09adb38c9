"""What every test can rely on: one thread of torch, MLflow as it was before; and no test is left out in silence."""

import os
import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings
from pages import browser, watch  # noqa: F401  (fixtures)
from skip_list import pytest_sessionfinish, pytest_terminal_summary  # noqa: F401  (hooks)

# The same examples in every run: a failure belongs to the change that is tested, and comes again.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Real servers and browsers may be late on a busy machine: one more try, which the summary shows as a rerun."""
    for item in items:
        if item.get_closest_marker("server") or item.get_closest_marker("browser"):
            item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.fixture(autouse=True, scope="session")
def one_torch_thread() -> None:
    """The suite's own processes already share the cores."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def the_same_networks_in_every_run() -> None:
    """Untrained networks of a test have the same weights whatever ran before it."""
    import torch

    torch.manual_seed(0)


@pytest.fixture(autouse=True, scope="module")
def no_registry_of_another_module() -> Iterator[None]:
    """Set up before a module's other fixtures and torn down after them: what they set back pins nothing."""
    yield
    _forget_registry()


@pytest.fixture(autouse=True)
def mlflow_as_before() -> Iterator[None]:
    """Experiment and registry that a test sets in the environment and in the process do not outlive it."""
    before = {name: value for name, value in os.environ.items() if name.startswith("MLFLOW_")}
    yield
    for name in [name for name in os.environ if name.startswith("MLFLOW_")]:
        del os.environ[name]
    os.environ.update(before)
    for name in ("MLFLOW_EXPERIMENT_ID", "MLFLOW_RUN_ID"):
        os.environ.pop(name, None)
    if "mlflow.tracking.fluent" in sys.modules:
        from mlflow.tracking import fluent

        fluent._active_experiment_id = None
    _forget_registry()


def _forget_registry() -> None:
    os.environ.pop("MLFLOW_REGISTRY_URI", None)
    if "mlflow.tracking.fluent" in sys.modules:
        from mlflow.tracking._model_registry import utils

        utils._registry_uri = None
