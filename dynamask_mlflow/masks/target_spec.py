"""How a configuration names what is explained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dynamask_mlflow._settings import shown

TargetFunction = Callable[[Any], Any]
"""Takes the model's own output, returns one number an instance, (B,)."""

_FORMS = '"auto", a class (index or name), "class:1", "step:5", "step:5,class:1", "horizon:2", or a callable'

ONE_LABEL = "explain its output as a value: task 'regression' (model_type 'sequence-regressor'), target 'horizon:2'"
"""The way out where outputs are labels that do not exclude each other, here for the third of them."""


@dataclass(frozen=True)
class Target:
    """A target as a configuration names it.

    Attributes:
        spec: how it is written and stored.
        output: the class, or the position of a value; None for the predicted class, or all values.
        step: the output time; None for all of them.
        function: a user's own score of the model's output.
    """

    spec: str = "auto"
    output: int | None = None
    step: int | None = None
    function: TargetFunction | None = None

    @property
    def is_auto(self) -> bool:
        return self.output is None and self.step is None and self.function is None


def parse_target(target: Any, class_names: Sequence[str] | None = None) -> Target:
    """Read a target; a class name needs `class_names`."""
    if isinstance(target, Target):
        return target
    if callable(target):
        return Target(f"callable:{getattr(target, '__qualname__', type(target).__name__)}", function=target)
    if isinstance(target, bool) or not isinstance(target, int | str):
        raise ValueError(f"Expected a target of the form {_FORMS}, but got {shown(target, kind=False)}.")
    if isinstance(target, int):
        return Target(f"class:{_at_least_zero(target, target)}", output=target)
    if target == "auto":
        return Target()
    if class_names is not None and target in class_names:
        index = list(class_names).index(target)
        return Target(f"class:{index}", output=index)
    parts: dict[str, int] = {}
    for part in target.split(","):
        name, _, number = part.strip().partition(":")
        if name not in ("class", "output", "step", "horizon") or not number.strip().isdigit():
            known = f" Known class names: {', '.join(class_names)}." if class_names else ""
            raise ValueError(f"Expected a target of the form {_FORMS}, but got {shown(target, kind=False)}.{known}")
        parts["output" if name in ("class", "output") else "step"] = int(number)
    return Target(target.replace(" ", ""), parts.get("output"), parts.get("step"))


def _at_least_zero(number: int, target: object) -> int:
    if number < 0:
        raise ValueError(f"Expected a class of at least 0, but got {target!r}.")
    return number
