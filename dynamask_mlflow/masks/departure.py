"""How far the target score has moved from its reference answer, and what masks do to that departure.

Every perturbation operator, applied to all cells, gives a baseline. The departure is the target score of the input
minus that of its baselines, and its direction is the way in which the score moved: raised or lowered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import torch
from torch import Tensor

from dynamask_mlflow.masks.batching import LEAST, added_up
from dynamask_mlflow.masks.black_box import BlackBox
from dynamask_mlflow.masks.operators import (
    BackgroundNoise,
    Batch,
    Fade,
    NoiseFade,
    Operator,
    Perturbation,
    ReferenceSequence,
    parse_operators,
)
from dynamask_mlflow.masks.target import TargetScore, open_target
from dynamask_mlflow.masks.target_spec import Target

# Noise replaces the baselines where it takes the class away, they do not, and they move the score by less than this
# share of what noise moves: "nothing happens here" is evidence that a constant baseline cannot remove. A value has no
# class to lose, so both kinds of noise must move it so far.
NOISE_FACTOR = 0.5
# A classifier's score that departs by less than one per cent of the odds has nothing to explain.
NEGLIGIBLE_LOGIT = 0.01
NEGLIGIBLE_SHARE = 1e-6

_NOISE_STEP = 3001


@dataclass(frozen=True)
class Departure:
    """A batch, its baselines and the target score, ready to be asked about masks.

    Scores inside are counted in the direction of the departure, so that a larger score is always more of it.

    Attributes:
        perturbations: the operators' perturbations of this batch.
        operators: what they were prepared from.
        target: the target score.
        direction: (B,) +1 raised, -1 lowered.
        score: (B,) of the input. baseline_scores: (O, B) of the baselines, 0 where one is not usable.
        usable: (O, B) whether the model's answer to the baseline is finite, and its gradients on the way there.
        noise: (B,) whether noise replaces the baselines.
        even: count all baselines alike (reference sequences), not by how far they take the score away.
    """

    batch: Batch
    operators: tuple[Operator, ...]
    perturbations: tuple[Perturbation, ...]
    target: TargetScore
    direction: Tensor
    score: Tensor
    baseline_scores: Tensor
    usable: Tensor
    noise: Tensor
    even: bool = False

    @classmethod
    def open(
        cls,
        black_box: BlackBox,
        batch: Batch,
        operators: Sequence[Operator],
        target: Target,
        *,
        noise_may_replace: bool = False,
        even: bool = False,
    ) -> Departure:
        """Ask for the answers to the input and to its baselines, and settle target and direction."""
        operators, number = tuple(operators), len(operators)
        draws: tuple[Operator, ...] = (
            (*(NoiseFade(),) * number, *(BackgroundNoise(),) * number) if noise_may_replace else ()
        )
        perturbations = _prepare(batch, (*operators, *draws))
        with torch.no_grad():
            nothing = torch.zeros_like(batch.x)
            inputs = [batch.x, *(perturb(nothing)[0] for perturb in perturbations)]
            together = torch.cat([black_box.of_stack(x) for x in black_box.calls(inputs, len(batch.x))])
            outputs, answers = together[0], together[1:]
            finite = torch.isfinite(answers).flatten(2).all(2)
            answers = torch.where(finite[:, :, None, None], answers, outputs)
            mean = added_up(answers[:number]) / number
            target_score = open_target(target, black_box, outputs, mean)
            if target_score.function is None:
                score, baselines = target_score.of_outputs(outputs), target_score.of_outputs(answers)
            else:
                scores = torch.cat([target_score.of_stack(x) for x in black_box.calls(inputs, len(batch.x))])
                score, baselines = scores[0], scores[1:]
        usable = finite & torch.isfinite(baselines)
        baselines = torch.where(usable, baselines, score)
        replaced = torch.zeros_like(score, dtype=torch.bool)
        if noise_may_replace:
            replaced = _noise_replaces(black_box.task, outputs, answers, score - baselines, number)
            perturbations = tuple(
                _either(replaced, noise, plain)
                for noise, plain in zip(perturbations[number : 2 * number], perturbations[:number], strict=True)
            )
            baselines = torch.where(replaced, baselines[number : 2 * number], baselines[:number])
            usable = torch.where(replaced, usable[number : 2 * number], usable[:number])
        gap = score - baselines
        lowered = added_up(gap) < 0
        direction = torch.where(lowered, -torch.ones_like(score), torch.ones_like(score))
        return cls(
            batch,
            operators,
            perturbations,
            target_score,
            direction,
            direction * score,
            direction * baselines,
            usable,
            replaced,
            even,
        )

    @property
    def gap(self) -> Tensor:
        """(O, B): how much further the score is than at each baseline; 0 where one is not usable."""
        return torch.where(self.usable, self.score - self.baseline_scores, torch.zeros_like(self.baseline_scores))

    @property
    def reach(self) -> Tensor:
        """(B,): the largest gap, the yardstick of what masks keep and remove."""
        return self._taken().amax(0).clamp(min=1e-12)

    @property
    def strength(self) -> Tensor:
        """(O, B) in [0, 1]: how far each baseline takes the score away, beside the best of them."""
        return self._taken() / self.reach

    def _taken(self) -> Tensor:
        gap = self.gap
        positive = gap.clamp(min=0)
        return torch.where(positive.amax(0) > 0, positive, gap.abs())

    @property
    def weights(self) -> Tensor:
        """(O, B), summing to 1: what each baseline counts in attributions and in the reference answer."""
        counted = self.usable.to(self.score.dtype)
        weights = counted if self.even else self._taken() * counted
        weights = torch.where(added_up(weights) > 0, weights, counted)
        return weights / added_up(weights).clamp(min=1e-12)

    @property
    def departure(self) -> Tensor:
        """(B,): the score minus the reference answer, in the target's own sign."""
        return self.direction * added_up(self.weights * self.gap)

    @property
    def negligible(self) -> Tensor:
        """(B,): whether there is nothing to explain."""
        least = NEGLIGIBLE_SHARE * torch.maximum(self.score.abs(), self.baseline_scores.abs().amax(0)) + 1e-9
        if self.target.black_box.task == "classification" and self.target.function is None:
            least = least.clamp(min=NEGLIGIBLE_LOGIT)
        gap = self.departure.abs() if self.even else self.gap.abs().amax(0)
        return gap < least

    def by_strength(self, most: int = 2) -> list[Departure]:
        """The departure under one baseline alone, for the strongest of each instance, the second, and so on."""
        order = self.strength.argsort(dim=0, descending=True, stable=True)
        return [self._single(index) for index in order[:most]]

    def by_first_usable(self) -> tuple[Departure, Tensor]:
        """The departure under the first baseline that is usable, for each instance, and which one that is (B,)."""
        index = self.usable.to(torch.int8).argmax(0)
        return self._single(index), index

    def _single(self, index: Tensor) -> Departure:
        pick = index[None]
        return replace(
            self,
            perturbations=(_choose(self.perturbations, index),),
            baseline_scores=self.baseline_scores.gather(0, pick),
            usable=self.usable.gather(0, pick),
        )

    def score_under(self, mask: Tensor) -> Tensor:
        """(B,): the score when the mask keeps."""
        return self.scores_under([mask])[0]

    def scores_under(self, masks: Iterable[Tensor]) -> Tensor:
        """(K, B): the scores when the masks keep, under the first operator."""
        inputs = (self.perturbations[0](mask)[0] for mask in masks)
        with torch.no_grad():
            scores = [self.target.of_stack(x) for x in self.target.black_box.calls(inputs, len(self.score))]
        found = self.direction * torch.cat(scores)
        return torch.where(torch.isfinite(found), found, self.baseline_scores[0])

    def gradient_under(self, mask: Tensor) -> Tensor:
        """(B, T, d): the derivative of the score by the mask under the first operator, 0 where it is not finite."""
        (gradient,) = self.raw_gradients_under([(mask, 0)])
        return torch.where(torch.isfinite(gradient), gradient, torch.zeros_like(gradient))

    def raw_gradients_under(self, asked: Iterable[tuple[Tensor, int]]) -> Iterator[Tensor]:
        """(B, T, d) each: the derivative of the score by a mask under an operator, as the model gives it."""
        slopes: list[Tensor] = []

        def perturbed() -> Iterator[Tensor]:
            for mask, operator in asked:
                moved, slope = self.perturbations[operator](mask)
                slopes.append(slope)
                yield moved

        for moved in self.target.black_box.calls(perturbed(), len(self.score)):
            moved = moved.detach().requires_grad_()
            (gradients,) = torch.autograd.grad((self.direction * self.target.of_stack(moved)).sum(), moved)
            yield from (gradient * slope for gradient, slope in zip(gradients, slopes, strict=True))
            slopes.clear()

    def kept(self, masks: Sequence[Tensor]) -> Tensor:
        """(K, B) in [-1, 1]: the share of the departure that the cells of a mask keep, all others removed."""
        return self.kept_and_lost(masks, [])[0]

    def lost(self, masks: Sequence[Tensor]) -> Tensor:
        """(K, B) in [-1, 1]: the share of the departure that is lost when the cells of a mask are removed."""
        return self.kept_and_lost([], masks)[1]

    def kept_and_lost(self, keep: Sequence[Tensor], remove: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """What the masks of the first list keep, and what is lost without those of the second."""
        scores = self.scores_under(chain(keep, (1 - mask for mask in remove)))
        kept, left = scores[: len(keep)], scores[len(keep) :]
        shares = (kept - self.baseline_scores[0]) / self.reach, (self.score - left) / self.reach
        return shares[0].clamp(-1, 1), shares[1].clamp(-1, 1)

    @property
    def fades(self) -> bool:
        """Whether every operator fades to a baseline."""
        return all(isinstance(perturb, Fade) for perturb in self.perturbations)

    def rows_where(self, condition: Tensor) -> Tensor | None:
        """Places of the instances that still need work, or None where work cannot be divided.

        The one place of a fit that waits for its device. It cannot be divided on torch's meta device, which knows no
        values, and with operators that are no fades. They are filled up to a multiple of LEAST, as the batch
        was, so that each keeps the same bits.
        """
        if condition.is_meta or not self.fades:
            return None
        index = condition.nonzero()[:, 0]
        missing = -len(index) % min(LEAST, len(condition))
        return torch.cat([index, index[-1:].expand(missing)]) if missing else index

    def rows(self, index: Tensor) -> Departure:
        """The departures of some of the instances."""
        fades = [perturb for perturb in self.perturbations if isinstance(perturb, Fade)]
        return replace(
            self,
            batch=self.batch.take(index),
            perturbations=tuple(Fade(fade.baseline[index], fade.slope[index]) for fade in fades),
            target=self.target.rows(index),
            direction=self.direction[index],
            score=self.score[index],
            baseline_scores=self.baseline_scores[:, index],
            usable=self.usable[:, index],
            noise=self.noise[index],
        )


def _noise_replaces(task: str, outputs: Tensor, answers: Tensor, gap: Tensor, number: int) -> Tensor:
    """(B,): whether noise, and no baseline, takes the answer away.

    `answers` are those to the baselines, to noise, and to the background's noise, `number` of each. The last holds no
    events of its own and must take the class away, too: the class is then lost for want of quiet, not because of new
    events.
    """
    if task != "classification":
        return gap[:number].abs().amax(0) < NOISE_FACTOR * gap[number:].abs().amin(0)
    by_noise = added_up(gap[number : 2 * number]) / number
    little = (by_noise.sign() * gap[:number]).amax(0) < NOISE_FACTOR * by_noise.abs()
    lost = (answers.argmax(-1) != outputs.argmax(-1)).flatten(2).any(2)
    without, with_noise, with_background = (lost[k * number : (k + 1) * number].any(0) for k in range(3))
    return ~without & with_noise & with_background & little


def baseline_operators(batch: Batch, specs: Sequence[str | Operator]) -> tuple[Operator, ...]:
    """The reference sequences where there are any, else the operators of these specs."""
    if batch.reference is None:
        return parse_operators(specs)
    return tuple(ReferenceSequence(values, str(k)) for k, values in enumerate(batch.reference))


def _prepare(batch: Batch, operators: Sequence[Operator]) -> tuple[Perturbation, ...]:
    """Perturbations that leave cells that do not exist as they are; random operators make one fixed draw each."""
    prepared = []
    for place, operator in enumerate(operators):
        perturb = operator.prepare(batch, _NOISE_STEP + place if operator.random else 0)
        prepared.append(_where_cells_exist(perturb, batch))
    return tuple(prepared)


def _where_cells_exist(perturb: Perturbation, batch: Batch) -> Perturbation:
    if isinstance(perturb, Fade):
        if batch.exists is None:
            return perturb
        return Fade(*batch.settled(torch.zeros_like(batch.x), perturb.baseline, perturb.slope))

    def only_existing(mask: Tensor) -> tuple[Tensor, Tensor]:
        return batch.settled(mask, *perturb(mask))

    return only_existing


def _either(condition: Tensor, yes: Perturbation, no: Perturbation) -> Perturbation:
    return _choose((no, yes), condition.long())


def _choose(perturbations: Sequence[Perturbation], index: Tensor) -> Perturbation:
    """For each instance the perturbation at its index (B,)."""
    if len(perturbations) == 1:
        return perturbations[0]
    at = index[:, None, None]

    def chosen(values: Sequence[Tensor]) -> Tensor:
        result = values[0]
        for place, value in enumerate(values[1:], 1):
            result = torch.where(at == place, value, result)
        return result

    fades = [perturb for perturb in perturbations if isinstance(perturb, Fade)]
    if len(fades) == len(perturbations):
        return Fade(chosen([fade.baseline for fade in fades]), chosen([fade.slope for fade in fades]))

    def perturb(mask: Tensor) -> tuple[Tensor, Tensor]:
        results = [each(mask) for each in perturbations]
        return chosen([moved for moved, _ in results]), chosen([slope for _, slope in results])

    return perturb
