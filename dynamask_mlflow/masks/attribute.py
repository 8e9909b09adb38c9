"""The interface of captum's attribution methods, for code that already speaks it. Captum itself is not needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from dynamask_mlflow.masks.adapted_model import Model
from dynamask_mlflow.masks.config import ExplainConfig
from dynamask_mlflow.masks.explain import explain
from dynamask_mlflow.masks.result import Masks

Position = int | tuple[int, ...] | None
CaptumTarget = Position | Tensor | list[int]


class DynamicMask:
    """`explain` behind the verb `attribute` of captum and time_interpret.

    Args:
        forward_func: module or callable on (B, T, d) that returns (B,), or (B, ..., C) with a `target`.
        config: settings of `explain`; `options` of the same names override it.

    Example:
        >>> import torch
        >>> from dynamask_mlflow import DynamicMask
        >>> def two_channels(x):
        ...     return x.sum(1)[:, :2]
        >>> x = torch.randn(3, 6, 4, generator=torch.Generator().manual_seed(0))
        >>> attributions, delta = DynamicMask(two_channels).attribute(x, target=1, return_convergence_delta=True)
        >>> attributions.shape, bool(attributions[:, :, [0, 2, 3]].abs().max() < 1e-6), bool(delta.abs().max() < 1e-4)
        (torch.Size([3, 6, 4]), True, True)
    """

    def __init__(self, forward_func: Model, config: ExplainConfig | None = None, **options: Any) -> None:
        self.forward_func = forward_func
        self.config = (config or ExplainConfig(progress=False)).with_options(**options)

    def has_convergence_delta(self) -> bool:
        """As captum asks: `attribute` can return the delta."""
        return True

    def attribute(
        self,
        inputs: Tensor | tuple[Tensor, ...],
        baselines: Tensor | None = None,
        target: CaptumTarget = None,
        additional_forward_args: Any = None,
        return_convergence_delta: bool = False,
    ) -> Any:
        """Signed contributions of the cells to the output `target`, in the output's own units.

        They sum to F(x) - F(reference): raw outputs are explained, not probabilities or logits made of them.

        Args:
            inputs: (N, T, d), or a tuple with that one tensor.
            baselines: (M, T, d) sequences, or their mean (T, d), to compare with; None: the sequence's own neighbours
                in time.
            target: the position in the output after the batch axis: an index, a tuple of them, or one index for each
                instance; None where the output is one number an instance.
            additional_forward_args: further arguments of `forward_func`, the same for every instance.
            return_convergence_delta: also return (N,) how far the sum is from F(x) - F(reference).

        Returns:
            Tensor (N, T, d), in a tuple if `inputs` was one; with the delta (N,) if asked for.
        """
        x = _one_tensor(inputs)
        masks = self.explain(inputs, baselines, target, additional_forward_args)
        assert masks.attributions is not None  # a target of one number always has them
        attributions = torch.as_tensor(masks.attributions).to(x)
        given: Any = (attributions,) if isinstance(inputs, tuple) else attributions
        if not return_convergence_delta:
            return given
        departure = torch.as_tensor(masks.diagnostics["answer"] - masks.diagnostics["reference_answer"]).to(x)
        return given, attributions.sum((1, 2)) - departure

    def explain(
        self,
        inputs: Tensor | tuple[Tensor, ...],
        baselines: Tensor | None = None,
        target: CaptumTarget = None,
        additional_forward_args: Any = None,
    ) -> Masks:
        """The masks behind `attribute`: coefficients, mask of whole cells, attributions, error bars."""
        x = _one_tensor(inputs)
        model = _with_arguments(self.forward_func, additional_forward_args, len(x))
        if not isinstance(target, Tensor | list):
            return self._explain(model, x, baselines, target)
        chosen = torch.as_tensor(target).flatten()
        if len(chosen) != len(x):
            raise ValueError(f"Expected one target, or one for each of {len(x)} instances, but got {len(chosen)}.")
        found: dict[int, Masks] = {}
        for value in sorted(set(chosen.tolist())):
            rows = (chosen == value).nonzero().flatten().tolist()
            masks = self._explain(model, x[rows], baselines, int(value))
            found |= {row: masks[place] for place, row in enumerate(rows)}
        first = dict(found[0].config)
        same = [Masks(**{**vars(found[row]), "config": first}) for row in range(len(x))]
        return Masks.concatenate(same)

    def _explain(
        self, model: Model, x: Tensor, baselines: Tensor | None, target: int | tuple[int, ...] | None
    ) -> Masks:
        config = self.config.with_options(target=_score(target))
        return explain(model, x.detach(), task="regression", reference=baselines, config=config)


def _one_tensor(inputs: Tensor | tuple[Tensor, ...]) -> Tensor:
    if isinstance(inputs, tuple):
        if len(inputs) != 1:
            raise ValueError(f"Expected one tensor of inputs (N, T, d), but got {len(inputs)}.")
        return inputs[0]
    return inputs


def _score(target: Position) -> Callable[[Tensor], Tensor]:
    """One number an instance, out of the model's output."""
    index: tuple[int, ...] = () if target is None else (target,) if isinstance(target, int) else tuple(target)

    def chosen_output(y: Tensor) -> Tensor:
        if target is None and y.ndim == 2 and y.shape[1] == 1:
            return y[:, 0]
        if y.ndim != 1 + len(index):
            raise ValueError(
                f"Expected a target with {y.ndim - 1} positions for an output of shape {tuple(y.shape)}, "
                f"but got {target!r}."
            )
        position: Any = (slice(None), *index)
        chosen: Tensor = y[position]
        return chosen

    return chosen_output


def _with_arguments(model: Model, arguments: Any, instances: int) -> Model:
    if arguments is None:
        return model
    more = arguments if isinstance(arguments, tuple) else (arguments,)
    for value in more:
        if isinstance(value, Tensor) and value.ndim and len(value) == instances and instances > 1:
            raise ValueError(
                f"Expected additional arguments that are the same for every instance, but got a tensor of shape "
                f"{tuple(value.shape)} for {instances} instances: explain the instances one by one."
            )
    return lambda x: model(x, *more)
