"""Which code a trial's numbers came from: a digest of the definitions that its case, its metrics and its method reach.

The digest of another method does not depend on the engine of nested masks.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import dynamask_mlflow
from dynamask_mlflow._provenance import PACKAGE, digest, normalized, reached, symbol_at, symbols_of
from dynamask_mlflow.experiments.protocol import Experiment
from dynamask_mlflow.masks.registry import method_location

_ROOT = Path(str(dynamask_mlflow.__file__)).parent
JUDGED_BY = (f"{PACKAGE}.experiments", f"{PACKAGE}.metrics")
_ENGINE = f"{PACKAGE}.masks"
# Algorithm 1 stands on these alone; what else it takes from the engine is fixed by tests against the formulas.
_PAPER = (f"{_ENGINE}.paper", f"{_ENGINE}.objective")


def code_digest(experiment: Experiment, method: str) -> str:
    """Equal digests: the same code made the numbers of this method in this experiment, with the same settings."""
    roots = [root for part in (experiment.make_case, experiment.score, experiment.explain) for root in symbols_of(part)]
    texts = dict(reached(roots, JUDGED_BY))
    preset = experiment.preset(method)
    location = method_location(preset.method)
    if location is not None:
        root = symbol_at(location)
        if root[0] == _PAPER[0]:
            texts |= reached([root], _PAPER)
        elif root[0].startswith(_ENGINE):
            texts |= engine()
        else:
            texts |= reached([root], (root[0].rpartition(".")[0], _PAPER[1]))
    return digest([{"method": preset.method, **preset.options}, sorted(texts.items())])


@cache
def engine() -> dict[str, str]:
    """All of it but Algorithm 1 and the list of names."""
    files = [file for file in (_ROOT / "masks").glob("*.py") if file.stem not in ("paper", "registry")]
    return {file.name: normalized(ast.parse(file.read_text(encoding="utf-8"))) for file in files}
