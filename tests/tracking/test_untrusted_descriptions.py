"""What an untrusted model says of itself costs neither memory nor a long message."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dynamask_mlflow.tracking.untrusted import UntrustedModelError, load_untrusted


@pytest.mark.parametrize(
    "last",
    [
        "flavors: {python_function: {code: *a9}}",
        "flavors: {python_function: {loader_module: *a9}}",
        "flavors: {python_function: {<<: [*a9, *a9]}}",
    ],
)
def test_a_description_that_stands_for_billions_of_values_is_refused(saved: str, tmp_path: Path, last: str) -> None:
    shutil.copytree(saved, tmp_path / "m")
    lines = [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
    (tmp_path / "m" / "MLmodel").write_text("\n".join(["a0: &a0 [x]", *lines, last]))
    with pytest.raises(UntrustedModelError, match="without references"):
        load_untrusted(str(tmp_path / "m"))


def test_a_long_name_makes_no_long_message(saved: str, tmp_path: Path) -> None:
    shutil.copytree(saved, tmp_path / "m")
    (tmp_path / "m" / "MLmodel").write_text(f"flavors: {{python_function: {{loader_module: {'x' * 100_000}}}}}")
    with pytest.raises(UntrustedModelError, match="Expected one of the loaders") as raised:
        load_untrusted(str(tmp_path / "m"))
    assert len(str(raised.value)) < 500


def test_settings_beyond_all_measure_are_refused(saved: str, tmp_path: Path) -> None:
    shutil.copytree(saved, tmp_path / "m")
    with (tmp_path / "m" / "dynamask.json").open("wb") as file:
        file.truncate(1 << 33)
    with pytest.raises(UntrustedModelError, match=r"Expected dynamask.json of at most 4,194,304 bytes"):
        load_untrusted(str(tmp_path / "m"))
