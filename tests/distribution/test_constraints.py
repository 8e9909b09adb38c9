"""The pinned versions fit what setup.cfg declares: the oldest Python, and the ranges."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
OLDEST = "3.11.2"  # of Debian 12


def _pinned() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line.partition(" ")[0].split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pins}


def test_every_pinned_package_admits_the_oldest_python() -> None:
    refused = []
    for name, version in _pinned().items():
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:  # an extra that is not installed
            continue
        wanted = found.metadata.get("Requires-Python", "")
        if found.version == version and OLDEST not in SpecifierSet(wanted):
            refused.append(f"{name} {version} requires {wanted}")
    assert not refused


def test_pins_are_within_the_declared_ranges() -> None:
    pins = _pinned()
    for line in metadata.requires("dynamask_mlflow") or ():
        wanted = Requirement(line)
        version = pins.get(canonicalize_name(wanted.name))
        assert version is not None, f"constraints.txt does not pin {wanted.name}"
        assert wanted.specifier.contains(version), f"{wanted} but {version} is pinned"
