"""Check a bundle: not one byte changed, and every verdict comes out of its arrays again. Needs no MLflow server."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dynamask_mlflow._files import checksum
from dynamask_mlflow._secrets import first_line
from dynamask_mlflow.audit.artifacts import CONFIG, MADE_FROM, VERDICT
from dynamask_mlflow.audit.bundle import AUDITS, FORMAT, MANIFEST, SEAL
from dynamask_mlflow.audit.comparison import MadeFrom, compare_arrays, load_arrays, not_compared
from dynamask_mlflow.audit.config import AuditConfig
from dynamask_mlflow.audit.errors import AuditError
from dynamask_mlflow.audit.verdict import Verdict, evaluate_verdict

_ABOUT = ("model", "version", "site", "window", "content", "reference_run_id")
# Another processor adds in another order: the last digits, and a p-value by a few permutations, may differ.
_RELATIVE, _ABSOLUTE, _CHANCE = 1e-4, 1e-5, 2e-3
_MOST_FILES, _MOST_BYTES = 100_000, 20 * 1024**3


class TamperedError(AuditError):
    """The bundle is not as it was written."""


@dataclass(frozen=True)
class Recomputed:
    """One verdict: as it is stored, and as it comes out again. differences: sentences; empty if they agree."""

    name: str
    stored: str
    computed: str
    differences: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        return not self.differences


@dataclass(frozen=True)
class Verification:
    """A bundle whose bytes are right. seal: its SHA-256."""

    seal: str
    model: str
    year: str
    files: int
    verdicts: tuple[Recomputed, ...]

    @property
    def good(self) -> bool:
        return all(verdict.same for verdict in self.verdicts)


def verify_evidence(path: str | Path, expect: str | None = None) -> Verification:
    """Check the seal, every file's hash, and every verdict.

    Args:
        expect: the seal that was noted when the bundle was made; whoever can write the file could seal it anew.

    Raises:
        TamperedError: if a byte differs from what was written.
        AuditError: if the bytes are right, but it is no bundle that this release can read.

    >>> _ = Path("evidence.zip").write_bytes(b"something else")
    >>> verify_evidence("evidence.zip")
    Traceback (most recent call last):
    ...
    dynamask_mlflow.audit.verify.TamperedError: Expected the seal ...
    """
    data = Path(path).read_bytes()
    sealed = data[-SEAL:].decode("ascii", errors="replace")
    actual = hashlib.sha256(data[:-SEAL]).hexdigest()
    if sealed != actual:
        raise TamperedError(
            f"Expected the seal {actual} at the end of {path}, but got {sealed!r}: the file was changed."
        )
    if expect is not None and expect.lower() != sealed:
        raise TamperedError(f"Expected the bundle with the seal {expect}, but {path} has {sealed}.")
    try:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder).resolve()
            manifest = _unpack(data, root, path)
            audits = json.loads((root / AUDITS).read_text(encoding="utf-8"))
            verdicts = tuple(_recompute(root, audit) for audit in audits)
        return Verification(sealed, manifest["model"], manifest["year"], len(manifest["files"]), verdicts)
    except AuditError:
        raise
    except Exception as error:  # sealed by somebody else, or by another release
        why = f"{type(error).__name__}: {first_line(error)}"
        raise AuditError(f"Expected a bundle of evidence that can be read at {path}, but got {why}") from error


def _unpack(data: bytes, root: Path, path: str | Path) -> dict[str, Any]:
    """Write the members whose hashes are right; nothing else is in there. `data`: the bytes whose seal is right."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        if len(members) > _MOST_FILES or sum(member.file_size for member in members) > _MOST_BYTES:
            raise TamperedError(f"Expected a bundle of evidence at {path}, but it is far too large.")
        manifest: dict[str, Any] = json.loads(archive.read(MANIFEST))
        if manifest.get("format") != FORMAT:
            raise AuditError(f"Expected a bundle of format {FORMAT}, but {path} has {manifest.get('format')}.")
        names = [member.filename for member in members if member.filename != MANIFEST]
        if sorted(names) != sorted(manifest["files"]) or len(set(names)) != len(names):
            raise TamperedError(f"Expected the files of the manifest in {path}, but there are others.")
        for name, wanted in manifest["files"].items():
            target = (root / name).resolve()
            if root.resolve() not in target.parents:
                raise TamperedError(f"Expected files within the bundle, but got {name!r}.")
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(name) as source, target.open("wb") as file:
                shutil.copyfileobj(source, file)  # in pieces: a member may claim gigabytes
            if checksum(target) != wanted:
                raise TamperedError(f"Expected {name} as it was written, but its content differs.")
    return manifest


def _recompute(root: Path, audit: Mapping[str, Any]) -> Recomputed:
    told = (f"version {audit['version']}", audit["site"], audit["window"], audit.get("settings", ""))
    name = ", ".join(filter(None, told))
    run_id = audit["run_id"]
    stored = json.loads(_member(root, run_id, VERDICT).read_text(encoding="utf-8"))
    if not audit["recomputable"]:
        return Recomputed(name, stored["state"], "-", ("its arrays were not kept, as by versions before this one",))
    if stored["state"] != audit["state"]:
        return Recomputed(name, stored["state"], audit["state"], ("the list of audits says another state",))
    config = AuditConfig.from_mapping(json.loads(_member(root, run_id, CONFIG).read_text(encoding="utf-8")))
    made_from = MadeFrom.from_json(_member(root, run_id, MADE_FROM).read_text(encoding="utf-8"))
    if made_from.blockers:
        result = not_compared(made_from.blockers)
    else:
        arrays = load_arrays(run_id, lambda run, artifact: _member(root, run, artifact))
        result = compare_arrays(arrays, config)
    verdict = evaluate_verdict(result, config, **{key: stored[key] for key in _ABOUT})
    return Recomputed(name, stored["state"], str(verdict.state), tuple(differences(stored, verdict)))


def _member(root: Path, run_id: str, artifact: str) -> Path:
    """A file of the bundle; ids of runs in it are anybody's, and must not lead out of it."""
    path = (root / "runs" / run_id / artifact).resolve()
    if root not in path.parents:
        raise TamperedError(f"Expected runs within the bundle, but got {run_id[:80]!r}.")
    return path


def differences(stored: Mapping[str, Any], verdict: Verdict) -> list[str]:
    """What a verdict that was computed again says otherwise, beyond the last digits."""
    again = verdict.to_dict()
    found = [
        f"{key} was {stored[key]!r} and is {again[key]!r}"
        for key in ("state", "moved_channels", "moved_inputs", "causes")
        if list(stored[key]) != list(again[key])
    ]
    kinds = [[(entry["kind"], entry["subject"]) for entry in record["violations"]] for record in (stored, again)]
    if kinds[0] != kinds[1]:
        found.append(f"the violations were {kinds[0]} and are {kinds[1]}")
    names = set(stored["metrics"]) | set(again["metrics"])
    for name in sorted(names):
        then, now = stored["metrics"].get(name), again["metrics"].get(name)
        if then is None or now is None or abs(then - now) > _tolerance(name, then):
            found.append(f"{name} was {then} and is {now}")
    return found


def _tolerance(name: str, value: float) -> float:
    chance = name.endswith("p_value") or name.startswith("p_")
    return _CHANCE if chance else _ABSOLUTE + _RELATIVE * abs(value)
