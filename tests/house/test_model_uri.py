"""Addresses of registered models are read in one place."""

import pytest

from dynamask_mlflow._model_uri import ModelUri


@pytest.mark.parametrize(
    ("uri", "found"),
    [
        ("models:/icu@champion", ModelUri("icu", alias="champion")),
        ("models:/icu/3", ModelUri("icu", version="3")),
        ("models:/icu", ModelUri("icu")),
        ("models:/icu ward 4/12", ModelUri("icu ward 4", version="12")),
    ],
)
def test_addresses_are_read_and_written(uri: str, found: ModelUri) -> None:
    assert ModelUri.parse(uri) == found
    assert str(found) == uri


@pytest.mark.parametrize("uri", ["icu", "runs:/abc/model", "models:/", "models:/a/3/b", "models:/a@b@c"])
def test_other_addresses_are_refused(uri: str) -> None:
    with pytest.raises(ValueError, match="Expected a registered model such as"):
        ModelUri.parse(uri)
