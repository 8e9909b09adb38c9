"""The error of a mask under perturbation operators (section 2.3): what fits by descent minimise.

Preservation: keep the mask's cells and reproduce the outputs. Deletion: remove them and change the outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from dynamask_mlflow.masks.black_box import BlackBox
from dynamask_mlflow.masks.objective import Discrepancy, class_margin
from dynamask_mlflow.masks.operators import Batch, Operator, Perturbation

_FRESH_STEP = 4001

Score = Callable[[Tensor], Tensor]
"""Takes the outputs, returns one number an instance, (B,)."""


def choose_loss(loss: str, black_box: BlackBox, reference: Tensor) -> str:
    """The loss when none is asked for: squared error for values, logits for classes at every step.

    One class for the whole sequence is compared by its margin: the decision has to be kept, not every digit of its
    logit.
    """
    if loss != "auto":
        return loss
    if black_box.task == "regression":
        return "squared"
    return "margin" if reference.shape[1] == 1 else "logit"


@dataclass(frozen=True)
class PerturbationObjective:
    """A batch, its operators and its error.

    Errors are counted from the value at M = 1 and divided by one normaliser an instance, the largest error that any
    operator makes on the empty mask: an operator that removes next to nothing then counts next to nothing.

    Attributes:
        floor: (B,) the error at M = 1. empty: (O, B) the error of each operator at M = 0, 0 where it failed.
        moved: (B,) the furthest that any of them moves the outputs, squared.
        usable: (O, B) whether the outputs of the empty mask are finite, and the gradients on the way to the full one;
            the others take no part.
    """

    black_box: BlackBox
    batch: Batch
    operators: tuple[Operator, ...]
    prepared: tuple[Perturbation | None, ...]
    discrepancy: Discrepancy
    floor: Tensor
    empty: Tensor
    normaliser: Tensor
    deletion: bool
    moved: Tensor
    usable: Tensor

    @classmethod
    def prepare(
        cls, black_box: BlackBox, batch: Batch, operators: tuple[Operator, ...], loss: str, deletion: bool
    ) -> PerturbationObjective:
        """Ask for the outputs with all cells and with none."""
        x = batch.x
        prepared = tuple(None if operator.random else operator.prepare(batch, 0) for operator in operators)
        with torch.no_grad():
            reference = black_box(x)
            when = None
            if batch.exists is not None and reference.shape[1] == x.shape[1]:
                when = batch.exists.any(-1).to(x.dtype)
            classification = black_box.task == "classification"
            discrepancy = Discrepancy(reference, choose_loss(loss, black_box, reference), classification, when)
            floor = discrepancy(reference)
            nothing = torch.zeros_like(x)
            emptied = torch.stack(
                [
                    black_box(_perturb(batch, prepared[i] or operator.prepare(batch, _FRESH_STEP), nothing)[0])
                    for i, operator in enumerate(operators)
                ]
            )
            usable = torch.isfinite(emptied).flatten(2).all(2)
            emptied = torch.where(usable[:, :, None, None], emptied, reference)
            empty = torch.stack([discrepancy(answer) - floor for answer in emptied]).clamp(min=0)
            moved = (emptied - reference).square().flatten(2).sum(2).amax(0)
        if discrepancy.classification and discrepancy.loss == "margin":
            # Where the empty input gives the same class, a tenth of the margin is the yardstick.
            least = 1e-12 + 0.01 * class_margin(reference, reference).square().sum(1)
        else:
            least = 1e-12 + 1e-9 * reference.flatten(1).square().sum(1)
        normaliser = torch.maximum(empty.amax(0), least)
        return cls(
            black_box, batch, operators, prepared, discrepancy, floor, empty, normaliser, deletion, moved, usable
        )

    def perturb(self, mask: Tensor, index: int, step: int) -> tuple[Tensor, Tensor]:
        """Pi_M(X) by one operator, and its derivative; cells that do not exist stay as they are."""
        return _perturb(self.batch, self.prepared[index] or self.operators[index].prepare(self.batch, step), mask)

    @property
    def by_margin(self) -> bool:
        return self.discrepancy.classification and self.discrepancy.loss == "margin"

    def _loss(self, outputs: Tensor) -> Tensor:
        share = (self.discrepancy(outputs) - self.floor).clamp(min=0) / self.normaliser
        return torch.sqrt(share + 1e-4)

    def _class_score(self, outputs: Tensor) -> Tensor:
        """(B,): the margin of the predicted classes, summed over the output times, in units of the root normaliser."""
        score = class_margin(outputs, self.discrepancy.reference)
        if self.discrepancy.when is not None:
            score = score * self.discrepancy.when
        return score.sum(1) / self.normaliser.sqrt()

    def gradient(self, mask: Tensor, index: int, step: int) -> Tensor:
        """Gradient by the mask of what the fit minimises at this step, (B, T, d)."""
        if not self.deletion:
            return self._gradient_of(self._loss, mask, index, step)
        # Removing must lower the class score, or raise the error; d(1 - M)/dM turns the sign once more.
        if self.by_margin:
            return -self._gradient_of(self._class_score, 1 - mask, index, step)
        return self._gradient_of(self._loss, 1 - mask, index, step)

    def class_gradient(self, mask: Tensor, index: int, step: int) -> Tensor:
        """Gradient by the mask of the predicted classes' score, all output times together, (B, T, d)."""
        return self._gradient_of(self._class_score, mask, index, step)

    def _gradient_of(self, score: Score, mask: Tensor, index: int, step: int) -> Tensor:
        gradient = self._raw_gradient_of(score, mask, index, step)
        usable = self.usable[index][:, None, None] & torch.isfinite(gradient)
        return torch.where(usable, gradient, torch.zeros_like(gradient))

    def _raw_gradient_of(self, score: Score, mask: Tensor, index: int, step: int) -> Tensor:
        moved, slope = self.perturb(mask, index, step)
        moved = moved.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(score(self.black_box(moved)).sum(), moved)
        return gradient * slope

    def gain(self, level: float, index: int, step: int) -> tuple[Tensor, Tensor]:
        """How fast the outputs come back as each cell is restored, with all cells restored to `level`.

        Returns:
            (B, T, d) the gain, 0 where it is not finite, and (B,) whether all of it is.
        """
        mask = torch.full_like(self.batch.x, level)
        score, sign = (self._class_score, 1) if self.by_margin else (self._loss, -1)
        gain = sign * self._raw_gradient_of(score, mask, index, step)
        known = torch.isfinite(gain)
        usable = self.usable[index][:, None, None] & known
        return torch.where(usable, gain, torch.zeros_like(gain)), known.flatten(1).all(1)

    def error(self, mask: Tensor) -> Tensor:
        """L_e(M), or L_e(1 - M) for deletion, counted from its value at M = 1, by the first operator."""
        return self.discrepancy(self.black_box(self.perturb(1 - mask if self.deletion else mask, 0, 0)[0])) - self.floor

    def error_gradient(self, mask: Tensor, step: int) -> Tensor:
        """Gradient of L_e(M), or of -L_e(1 - M) for deletion, as Algorithm 1 has it."""
        moved, slope = self.perturb(1 - mask if self.deletion else mask, 0, step)
        moved = moved.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(self.discrepancy(self.black_box(moved)).sum(), moved)
        return gradient * slope

    def distance(self, mask: Tensor, index: int, step: int) -> Tensor:
        """(B,): 0 when the mask does all it should, about 1 for the empty mask; 0 for an operator that failed."""
        with torch.no_grad():
            outputs = self.black_box(self.perturb(1 - mask if self.deletion else mask, index, step)[0])
            share = (self.discrepancy(outputs) - self.floor).clamp(min=0) / self.normaliser
            distance = share.sqrt()
            if self.deletion:
                distance = ((self.empty[index] / self.normaliser).sqrt() - distance).clamp(min=0)
            return torch.where(self.usable[index] & torch.isfinite(distance), distance, torch.zeros_like(distance))


def _perturb(batch: Batch, perturbation: Perturbation, mask: Tensor) -> tuple[Tensor, Tensor]:
    return batch.settled(mask, *perturbation(mask))
