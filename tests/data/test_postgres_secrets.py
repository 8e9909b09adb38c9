"""A database's password is in no description and in no error."""

from __future__ import annotations

import pytest

from dynamask_mlflow.data.errors import DataError
from dynamask_mlflow.data.postgres import PostgresTables


@pytest.mark.parametrize(
    "uri",
    [
        "postgresql://ann:hunter2@127.0.0.1:9/mimic",
        "postgresql://127.0.0.1:9/mimic?user=ann&password=hunter2",
        "host=127.0.0.1 port=9 user=ann password=hunter2 dbname=mimic",
        "host=127.0.0.1 port=9 user=ann password='hunter2 x' dbname=mimic",
    ],
)
def test_no_form_of_the_address_shows_the_password(uri: str) -> None:
    tables = PostgresTables(uri, ("public",))
    assert "hunter2" not in tables.describe()
    pytest.importorskip("adbc_driver_postgresql")
    with pytest.raises(DataError) as raised:
        tables._find("patients")
    assert "hunter2" not in str(raised.value)
