"""An Airflow of our own, in a temporary folder; its settings must stand before the first import of airflow."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

HERE = Path(__file__).parent
HOME = Path(tempfile.mkdtemp(prefix="airflow-tests-"))
SETTINGS = {
    "AIRFLOW_HOME": str(HOME),
    "AIRFLOW__CORE__DAGS_FOLDER": str(HERE / "ward_dags"),
    "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(
        [
            {
                "name": name,
                "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
                "kwargs": {"path": str(folder)},
            }
            for name, folder in (("dags-folder", HERE / "ward_dags"), ("shipped", HERE.parents[1] / "dags"))
        ]
    ),
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{HOME}/airflow.db",
    "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "WARD": str(HOME / "ward"),
}
os.environ.update(SETTINGS)


def pytest_sessionfinish() -> None:
    shutil.rmtree(HOME, ignore_errors=True)


@pytest.fixture(scope="session")
def ward() -> SimpleNamespace:
    """Data, a registered model and its reference, in a sqlite MLflow."""
    from small_ward import make_ward

    root = HOME / "ward"
    make_ward(root)
    return SimpleNamespace(uri=f"sqlite:///{root}/mlflow.db", root=root)


@pytest.fixture(scope="session")
def airflow_db() -> None:
    pytest.importorskip("airflow")
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.utils.db import initdb

    initdb()
    DagBundlesManager().sync_bundles_to_db()


@pytest.fixture
def dags(ward: SimpleNamespace, airflow_db: None) -> dict[str, Any]:
    """The DAGs of `ward_dags`, parsed anew for each test: `dag.test()` leaves its params behind."""
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db

    bag = DagBag(HERE / "ward_dags", bundle_path=HERE / "ward_dags", bundle_name="dags-folder")
    assert not bag.import_errors
    sync_bag_to_db(bag, "dags-folder", None)
    return bag.dags
