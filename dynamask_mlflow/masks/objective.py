"""The objective (section 2.3 of the paper): the error L_e, the size regulariser L_a, the time regulariser L_c."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Discrepancy:
    """L_e(M): how far the outputs y (B, S, C) of perturbed inputs are from those of the inputs themselves.

    All are sums over the output times and the outputs, one number an instance:

    - squared: sum (y - y0)^2, on values, or on class probabilities;
    - cross_entropy: - sum p0 log p;
    - log_loss: - sum log p[class of y0];
    - logit: sum (z - z0)^2 with z the logits minus their mean over the classes;
    - margin: sum max(0, g0 - g)^2, g the logit of y0's class minus the best other: what is lost of the decision's
      clearance, while gaining more costs nothing.

    Attributes:
        reference: y0 (B, S, C), logits for classification, values for regression.
        loss: one of the names above.
        classification: whether outputs are logits.
        when: (B, S) weights of the output times, or None for all alike.
    """

    reference: Tensor
    loss: str
    classification: bool
    when: Tensor | None = None

    def __call__(self, outputs: Tensor) -> Tensor:
        terms = self._terms(outputs)
        if self.when is not None:
            terms = terms * self.when
        return terms.sum(1)

    def _terms(self, y: Tensor) -> Tensor:
        y0 = self.reference
        if not self.classification:
            return (y - y0).square().sum(-1)
        if self.loss == "squared":
            return (y.softmax(-1) - y0.softmax(-1)).square().sum(-1)
        if self.loss == "cross_entropy":
            return -(y0.softmax(-1) * y.log_softmax(-1)).sum(-1)
        if self.loss == "log_loss":
            return -y.log_softmax(-1).gather(-1, y0.argmax(-1, keepdim=True))[..., 0]
        if self.loss == "logit":
            shift = y - y0
            return (shift - shift.mean(-1, keepdim=True)).square().sum(-1)
        return (class_margin(y0, y0) - class_margin(y, y0)).clamp(min=0).square()


def class_margin(y: Tensor, reference: Tensor) -> Tensor:
    """(B, S): the logit in y of the reference's class, minus the best other one."""
    chosen = reference.argmax(-1, keepdim=True)
    others = y.scatter(-1, chosen, float("-inf"))
    return y.gather(-1, chosen)[..., 0] - others.amax(-1)


def size_regulariser(mask: Tensor, ones: Tensor, exists: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """L_a(M) = ||vecsort(M) - r_a||^2 and its gradient, with equal shares among ties.

    Cells of equal value have no order of their own: those that straddle the step of r_a share its ones equally, so
    that no cell becomes salient by the accident of a sort.

    Args:
        mask: (R, T, d).
        ones: (R,) whole numbers, how many ones r_a has.
        exists: (R, T, d) or None; other cells have no part in it.
    """
    flat = mask.flatten(1)
    present = None if exists is None else exists.flatten(1)
    ranked = flat if present is None else flat.masked_fill(~present, -1.0)
    descending = ranked.sort(1, descending=True).values
    last = (ones.long() - 1).clamp(min=0)[:, None]
    threshold = descending.gather(1, last)
    above, equal = ranked > threshold, ranked == threshold
    share = (ones[:, None] - above.sum(1, keepdim=True)) / equal.sum(1, keepdim=True)
    difference = flat - above.to(flat.dtype) - equal.to(flat.dtype) * share
    if present is not None:
        difference = difference * present
    return difference.square().sum(1), (2 * difference).view_as(mask)


def time_regulariser(mask: Tensor, exists: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """L_c(M) = sum over t < T and i of |m_{t+1,i} - m_{t,i}|, and its gradient."""
    jump = mask[:, 1:] - mask[:, :-1]
    if exists is not None:
        jump = jump * (exists[:, 1:] & exists[:, :-1])
    sign = torch.sign(jump)
    gradient = torch.zeros_like(mask)
    gradient[:, 1:] += sign
    gradient[:, :-1] -= sign
    return jump.abs().flatten(1).sum(1), gradient
