"""Commands set MLflow's address in the process; a test leaves it as it was."""

from collections.abc import Iterator

import mlflow
import pytest


@pytest.fixture(autouse=True)
def tracking_uri_as_before() -> Iterator[None]:
    before = mlflow.get_tracking_uri()
    yield
    mlflow.set_tracking_uri(before)
