"""The game a mask plays against the black box: keep a few cells and preserve the answer, or delete them and lose it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dynamask_mlflow.masks.black_box import BlackBox
from dynamask_mlflow.masks.objective import Discrepancy, class_margin
from dynamask_mlflow.masks.operators import Batch, Operator, Perturbation

_FRESH_STEP = 4001


def choose_loss(loss: str, black_box: BlackBox, reference: Tensor) -> str:
    """The loss when none is asked for.

    Values are compared by squared error and classes at every step by their logits. One class for the whole sequence is
    compared by its margin: the decision has to stand, not every digit of its logit.
    """
    if loss != "auto":
        return loss
    if black_box.task == "regression":
        return "squared"
    return "margin" if reference.shape[1] == 1 else "logit"


@dataclass(frozen=True)
class Game:
    """A batch, its operators and its error, ready to be played step after step.

    Errors are counted from the value at M = 1 and divided by one normaliser an instance, the largest error that any
    operator makes on the empty mask: an operator that removes next to nothing then has next to nothing to say.

    Attributes:
        floor: (B,) the error at M = 1. empty: (O, B) the error of each operator at M = 0.
        moved: (B,) the furthest that any of them moves the outputs, squared.
        direction: (B, S, C) the way from the empty input's values to the input's own, or None.
        emptied: (O, B, S, C) the answers to the empty masks, for one answer a sequence.
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
    direction: Tensor | None = None
    emptied: Tensor | None = None

    @classmethod
    def open(
        cls,
        black_box: BlackBox,
        batch: Batch,
        operators: tuple[Operator, ...],
        loss: str,
        deletion: bool,
        one_answer: bool = False,
    ) -> Game:
        """Ask for the answers with all cells and with none; `one_answer` notes the way from one to the other."""
        x = batch.x
        with torch.no_grad():
            reference = black_box(x)
            when = None
            if batch.exists is not None and reference.shape[1] == x.shape[1]:
                when = batch.exists.any(-1).to(x.dtype)
            discrepancy = Discrepancy(
                reference, choose_loss(loss, black_box, reference), black_box.task == "classification", when
            )
            prepared = tuple(None if op.random else op.prepare(batch, 0) for op in operators)
            floor = discrepancy(reference)
            game = cls(
                black_box,
                batch,
                operators,
                prepared,
                discrepancy,
                floor,
                floor,
                torch.ones_like(floor),
                deletion,
                floor,
            )
            nothing = torch.zeros_like(x)
            emptied = torch.stack([black_box(game.perturb(nothing, i, _FRESH_STEP)[0]) for i in range(len(operators))])
            empty = torch.stack([discrepancy(answer) - floor for answer in emptied]).clamp(min=0)
            moved = (emptied - reference).square().flatten(2).sum(2).amax(0)
            direction = None
            if one_answer and black_box.task == "regression":
                way = reference - emptied.mean(0)
                direction = way / way.flatten(1).norm(dim=1).clamp(min=1e-12)[:, None, None]
        if discrepancy.classification and discrepancy.loss == "margin":
            # Where the empty input gives the same class, a tenth of the margin is the yardstick.
            least = 1e-12 + 0.01 * class_margin(reference, reference).square().sum(1)
        else:
            least = 1e-12 + 1e-9 * reference.flatten(1).square().sum(1)
        return cls(
            black_box,
            batch,
            operators,
            prepared,
            discrepancy,
            floor,
            empty,
            torch.maximum(empty.amax(0), least),
            deletion,
            moved,
            direction,
            emptied if one_answer else None,
        )

    def perturb(self, mask: Tensor, index: int, step: int) -> tuple[Tensor, Tensor]:
        """Pi_M(X) by one operator, and its derivative; cells that do not exist stay as they are."""
        perturbation = self.prepared[index] or self.operators[index].prepare(self.batch, step)
        moved, slope = perturbation(mask)
        if self.batch.exists is None:
            return moved, slope
        return torch.where(self.batch.exists, moved, self.batch.x), slope * self.batch.exists

    def _loss(self, outputs: Tensor) -> Tensor:
        share = (self.discrepancy(outputs) - self.floor).clamp(min=0) / self.normaliser
        return torch.sqrt(share + 1e-4)

    def _standing(self, outputs: Tensor) -> Tensor:
        """How far the answer stands, in units of the root normaliser: it can also be gained, which no error can tell.

        For classes the margin; for values how far they lie on the way from the empty input's answer to this one.
        """
        if self.direction is None:
            standing = class_margin(outputs, self.discrepancy.reference)
        else:
            standing = (outputs * self.direction).sum(-1)
        if self.discrepancy.when is not None:
            standing = standing * self.discrepancy.when
        return standing.sum(1) / self.normaliser.sqrt()

    def margin(self) -> Tensor:
        """(B,): how clearly the classes were chosen, in logits, all output times together."""
        return class_margin(self.discrepancy.reference, self.discrepancy.reference).sum(1)

    @property
    def by_margin(self) -> bool:
        return self.discrepancy.classification and self.discrepancy.loss == "margin"

    def grip(self) -> Tensor:
        """(O, B) in [0, 1]: how far each operator, on the empty mask, takes the answer away, beside the best of them.

        One that leaves the answer standing has nothing to say about its cells: the mean over time of a long event is
        an event itself. Where none of them takes it away, all count alike.
        """
        reach = self.empty.sqrt()
        most = reach.amax(0)
        return torch.where(most > 0, reach / most.clamp(min=1e-12), torch.ones_like(reach))

    def whole(self) -> Tensor:
        """(B,): how far the answer stands with all cells."""
        return self._standing(self.discrepancy.reference)

    def nothing(self, index: int) -> Tensor:
        """(B,): how far the answer stands with all cells removed by one operator."""
        assert self.emptied is not None
        return self._standing(self.emptied[index])

    def gap(self) -> Tensor:
        """(O, B): how much further the answer stands with all cells than with none."""
        return torch.stack([self.whole() - self.nothing(index) for index in range(len(self.operators))])

    @property
    def signed(self) -> bool:
        """Whether the answer has a standing that can be lost and gained."""
        return self.by_margin or self.direction is not None

    def gradient(self, mask: Tensor, index: int, step: int) -> Tensor:
        """Gradient by the mask of what the fit minimises at this step, (B, T, d)."""
        moved, slope = self.perturb(1 - mask if self.deletion else mask, index, step)
        moved = moved.detach().requires_grad_()
        outputs = self.black_box(moved)
        if self.deletion:
            # Removing must lower the standing, or raise the error; d(1 - M)/dM turns the sign once more.
            loss = -self._standing(outputs) if self.signed else self._loss(outputs)
        else:
            loss = self._loss(outputs)
        (gradient,) = torch.autograd.grad(loss.sum(), moved)
        return gradient * slope

    def error(self, mask: Tensor) -> Tensor:
        """L_e(M), or L_e(1 - M) for deletion, counted from its value at M = 1, by the first operator."""
        return self.discrepancy(self.black_box(self.perturb(1 - mask if self.deletion else mask, 0, 0)[0])) - self.floor

    def error_gradient(self, mask: Tensor, step: int) -> Tensor:
        """Gradient of L_e(M), or of -L_e(1 - M) for deletion, as Algorithm 1 has it."""
        moved, slope = self.perturb(1 - mask if self.deletion else mask, 0, step)
        moved = moved.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(self.discrepancy(self.black_box(moved)).sum(), moved)
        return gradient * slope

    def worth(self, level: float, index: int, step: int) -> Tensor:
        """How fast the answer comes back as each cell is restored, with all cells restored to `level`, (B, T, d)."""
        moved, slope = self.perturb(torch.full_like(self.batch.x, level), index, step)
        moved = moved.detach().requires_grad_()
        outputs = self.black_box(moved)
        gain = self._standing(outputs) if self.signed else -self._loss(outputs)
        (gradient,) = torch.autograd.grad(gain.sum(), moved)
        return gradient * slope

    def credit(self, level: float, index: int, step: int) -> Tensor:
        """As `worth`, of how far the chosen classes stand at all output times together, (B, T, d)."""
        moved, slope = self.perturb(torch.full_like(self.batch.x, level), index, step)
        moved = moved.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(self._standing(self.black_box(moved)).sum(), moved)
        return gradient * slope

    def standing(self, mask: Tensor, index: int, step: int) -> Tensor:
        """(B,): how far the answer stands under a mask that keeps."""
        with torch.no_grad():
            return self._standing(self.black_box(self.perturb(mask, index, step)[0]))

    def distance(self, mask: Tensor, index: int, step: int) -> Tensor:
        """(B,): 0 when the mask does all it should, about 1 for the empty mask."""
        with torch.no_grad():
            outputs = self.black_box(self.perturb(1 - mask if self.deletion else mask, index, step)[0])
            share = (self.discrepancy(outputs) - self.floor).clamp(min=0) / self.normaliser
            if not self.deletion:
                return share.sqrt()
            return ((self.empty[index] / self.normaliser).sqrt() - share.sqrt()).clamp(min=0)
