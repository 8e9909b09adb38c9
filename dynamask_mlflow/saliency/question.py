"""What a saliency method is asked: how one number, made of the model's answer, depends on each cell.

The answer of a sequence may have many outputs. `value` condenses them into the number whose credit is shared
among the cells; `change` tells how far the answer has moved, whichever way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

Outputs = Callable[[Tensor], Tensor]
"""(B, T, d) to (B, S, C): logits of C classes, or C values, at S output times."""


@dataclass(frozen=True, eq=False)
class Question:
    """The black box and the part of its answer that is asked about.

    Attributes:
        outputs: the black box.
        classification: whether its outputs are logits.
        reference: (B, S, C) the answer to the inputs themselves.
        when: (B, S) weights of the output times; those in the padding count nothing.
        module: the torch module behind it, for methods that look inside.
    """

    outputs: Outputs
    classification: bool
    reference: Tensor
    when: Tensor
    module: nn.Module | None = None

    @property
    def context(self) -> tuple[Tensor, Tensor]:
        """What `value` and `change` need of each instance; whoever repeats the inputs repeats it as well."""
        return self.reference, self.when

    def value(self, x: Tensor, reference: Tensor, when: Tensor) -> Tensor:
        """(B,): the logit of the class that the model chose, minus the mean over the classes; values as they
        are.

        Summed over the output times. The class is that of the unperturbed input, at each output time its own.
        """
        y = self.outputs(x)
        if not self.classification:
            return (y.sum(-1) * when).sum(-1)
        chosen = y.gather(-1, reference.argmax(-1, keepdim=True))[..., 0] - y.mean(-1)
        return (chosen * when).sum(-1)

    def change(self, x: Tensor, reference: Tensor, when: Tensor) -> Tensor:
        """(B,): sum of |p - p0| over classes and output times; of |y - y0| for values."""
        y = self.outputs(x)
        if self.classification:
            y, reference = y.softmax(-1), reference.softmax(-1)
        return ((y - reference).abs().sum(-1) * when).sum(-1)

    def rows(self, part: slice) -> Question:
        """The same question about some of the instances."""
        return Question(self.outputs, self.classification, self.reference[part], self.when[part], self.module)


def ask(
    outputs: Outputs,
    x: Tensor,
    classification: bool,
    exists: Tensor | None = None,
    module: nn.Module | None = None,
) -> Question:
    """Put the question about these inputs: note the black box's answer to them."""
    with torch.no_grad():
        reference = outputs(x).detach()
    when = torch.ones(reference.shape[:2], dtype=x.dtype, device=x.device)
    if exists is not None and reference.shape[1] == x.shape[1]:
        when = exists.any(-1).to(x.dtype)
    return Question(outputs, classification, reference, when, module)
