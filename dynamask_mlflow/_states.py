"""The states of an audit, in one place: what each is called, means, and ends a command with."""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """What an audit, or a version with all its audits, is found to be."""

    OK = "ok"
    WARNING = "warning"
    DRIFT = "drift"
    INCONCLUSIVE = "inconclusive"

    @property
    def exit_code(self) -> int:
        """Of the command line. 3 is kept for errors: nothing was audited."""
        return {State.OK: 0, State.DRIFT: 1, State.INCONCLUSIVE: 2, State.WARNING: 4}[self]

    @property
    def severity(self) -> int:
        """Of several states the one with the highest severity stands for all."""
        return (State.OK, State.INCONCLUSIVE, State.WARNING, State.DRIFT).index(self)

    @property
    def heading(self) -> str:
        return {State.OK: "No drift", State.WARNING: "Warning", State.DRIFT: "Drift"}.get(self, "Inconclusive")

    @property
    def meaning(self) -> str:
        """One sentence for a banner."""
        return {
            State.OK: "The model looks at the same things as in the reference window.",
            State.WARNING: "Inputs that matter to the model, or its predictions, moved; a change of attention that "
            "matters is not proven.",
            State.DRIFT: "The model does not look at the same things as in the reference window.",
            State.INCONCLUSIVE: "The evidence does not allow a verdict.",
        }[self]

    @property
    def colour(self) -> str:
        """In a terminal."""
        return {State.OK: "green", State.DRIFT: "red", State.WARNING: "magenta"}.get(self, "yellow")


EXIT_ERROR = 3
STATES: tuple[str, ...] = tuple(state.value for state in State)


def worst(states: list[State]) -> State:
    """The most severe of some states."""
    return max(states, key=lambda state: state.severity)
