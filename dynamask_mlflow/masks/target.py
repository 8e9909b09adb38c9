"""What is explained: one number of the model's answer, the target score.

A binary risk is explained by its logit, one of several classes by its logit minus those of the others, a value by
itself, several values by how far they lie on the way from the reference answer to the answer.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from dynamask_mlflow.masks.black_box import BlackBox
from dynamask_mlflow.masks.target_spec import Target, TargetFunction


@dataclass(frozen=True)
class TargetScore:
    """The target score of any input of a batch.

    Attributes:
        weights: (B, S, C) by which outputs are summed; None where the user's own function scores the raw output.
        chosen: (B,) the explained class, or -1 where it is not a class.
        for_answer: (B,) +1 where a higher score speaks for the model's own answer, -1 where it speaks against it (a
            risk below one half).
    """

    black_box: BlackBox
    weights: Tensor | None
    function: TargetFunction | None
    chosen: Tensor
    for_answer: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """(B,): the score of inputs x (B, T, d)."""
        if self.function is not None:
            score: Tensor = self.function(self.black_box.raw(x))
            return score
        return self.of_outputs(self.black_box(x))

    def of_stack(self, x: Tensor) -> Tensor:
        """(K, B): the scores of K inputs of each instance, (K, B, T, d), in one call of the model."""
        if self.function is not None:
            score: Tensor = self.function(self.black_box.raw(x.flatten(0, 1)))
            return score.view(x.shape[:2])
        return self.of_outputs(self.black_box.of_stack(x))

    def of_outputs(self, outputs: Tensor) -> Tensor:
        """(..., B): the score of outputs (..., B, S, C)."""
        assert self.weights is not None
        return (outputs * self.weights).sum((-2, -1))

    def rows(self, index: Tensor) -> TargetScore:
        """The same target of some of the instances."""
        weights = None if self.weights is None else self.weights[index]
        return TargetScore(self.black_box, weights, self.function, self.chosen[index], self.for_answer[index])


def open_target(target: Target, black_box: BlackBox, outputs: Tensor, baseline_outputs: Tensor) -> TargetScore:
    """Settle what the target means for these instances.

    Args:
        outputs: (B, S, C) the answers to the inputs.
        baseline_outputs: (B, S, C) the mean answer to their baselines, for values that have no class.
    """
    size, steps, width = outputs.shape
    none = torch.full((size,), -1, dtype=torch.long, device=outputs.device)
    ahead = torch.ones_like(outputs[:, 0, 0])
    if target.function is not None:
        return TargetScore(black_box, None, target.function, none, ahead)
    output, step = target.output, target.step
    if step is not None and steps == 1 and black_box.task == "regression" and output is None:
        output, step = step, None  # horizons (B, H) are the values of one answer
    if step is not None and step >= steps:
        raise ValueError(f"Expected a target step below {steps}, but got {target.spec!r}.")
    if output is not None and output >= width:
        raise ValueError(f"Expected a target class or output below {width}, but got {target.spec!r}.")
    times = torch.zeros_like(outputs[..., :1]) if step is not None else torch.ones_like(outputs[..., :1])
    if step is not None:
        times[:, step] = 1
    if black_box.task == "classification":
        predicted = (outputs * times).sum(1).argmax(-1)
        if output is not None:
            chosen = torch.full_like(predicted, output)
        else:
            chosen = torch.ones_like(predicted) if width == 2 else predicted
        of_class = F.one_hot(chosen, width).to(outputs.dtype)[:, None]
        weights = (of_class - (1 - of_class) / (width - 1)) * times
        if output is None and width > 2:
            weights = _against_usual_class(weights, of_class, outputs * times, baseline_outputs * times)
        return TargetScore(black_box, weights, None, chosen, torch.where(predicted == chosen, ahead, -ahead))
    if output is not None:
        single = torch.zeros(width, device=outputs.device, dtype=outputs.dtype)
        single[output] = 1
        return TargetScore(black_box, times * single, None, none, ahead)
    if steps * width == 1 or (step is not None and width == 1):
        return TargetScore(black_box, times.expand_as(outputs), None, none, ahead)
    way = (outputs - baseline_outputs) * times
    weights = way / way.flatten(1).norm(dim=1).clamp(min=1e-12)[:, None, None]
    return TargetScore(black_box, weights, None, none, ahead)


def _against_usual_class(weights: Tensor, of_class: Tensor, outputs: Tensor, baseline_outputs: Tensor) -> Tensor:
    """(B, S, C): the weights, with the other classes counted by their probability at the baselines where that is due.

    The mean of the others may rise by more than the predicted class does, though the class it replaced has fallen: the
    class would be explained as lowered. Where the baselines have another class, what counts is that class.
    """
    usual = baseline_outputs.sum(1, keepdim=True)
    lowered = ((outputs - baseline_outputs) * weights).sum((1, 2)) < 0
    replaced = of_class.gather(2, usual.argmax(2, keepdim=True))[:, 0, 0] == 0
    odds = usual.masked_fill(of_class > 0, float("-inf")).softmax(2)
    against_odds = (of_class - odds) * (weights != 0)
    return torch.where((lowered & replaced)[:, None, None], against_odds, weights)
