"""One kind of model in the zoo, and the list of all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from dynamask_mlflow.experiments.zoo.planted import Planted, one_event

MODULES = ("torch_entries", "forward_entries", "library_entries")
"""Modules of this package whose ENTRIES make the zoo."""


@dataclass(frozen=True, eq=False)
class Entry:
    """One kind of model.

    Attributes:
        name: of the registered model, prefixed by "zoo-", and of the row.
        about: what is particular about it, a few words for the table.
        register: takes the planted training data and the name to register under; trains, logs and registers the model
            and returns its URI, or whatever else `mlflow.models.evaluate` takes as a model; a context of that where
            something has to run meanwhile.
        planted: takes a number of sequences and a seed.
        model_type, options: for `mlflow.models.evaluate`; the options are those of the evaluator.
        dataset: keywords for `mlflow.data.from_sequences` beside those that the planted data bring.
        other_methods: methods beside the default one.
        training: sequences to train on, where the usual number is not enough.
        needs: packages; without them the kind is left out, and the table says so.
    """

    name: str
    about: str
    register: Callable[[Planted, str], Any]
    planted: Callable[[int, int], Planted] = one_event
    model_type: str = "sequence-classifier"
    options: Mapping[str, Any] = field(default_factory=dict)
    dataset: Mapping[str, Any] = field(default_factory=dict)
    other_methods: tuple[str, ...] = ("ig", "random")
    training: int | None = None
    needs: tuple[str, ...] = ()

    @property
    def missing(self) -> list[str]:
        """The packages that are not installed."""
        return [name for name in self.needs if find_spec(name) is None]


def entries() -> dict[str, Entry]:
    """All kinds by name, in the order of the table."""
    found = [entry for name in MODULES for entry in import_module(f"{__package__}.{name}").ENTRIES]
    return {entry.name: entry for entry in found}
