"""The verb: fit masks to a batch of sequences."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dynamask_mlflow._provenance import versions
from dynamask_mlflow._settings import ConfigError
from dynamask_mlflow.masks.adapted_model import AdaptedModel, Model
from dynamask_mlflow.masks.batching import LEAST, batch_size, in_batches
from dynamask_mlflow.masks.binding import Binding, asks_for_missing, open_bound
from dynamask_mlflow.masks.black_box import as_inputs, as_numbers, frozen, resolve_device
from dynamask_mlflow.masks.config import TASKS, ExplainConfig
from dynamask_mlflow.masks.draws import Draws
from dynamask_mlflow.masks.errors import ModelError
from dynamask_mlflow.masks.fitted import Fitted
from dynamask_mlflow.masks.forward_only import ForwardOnly, Labelled, as_torch_model, callable_of, unflattened
from dynamask_mlflow.masks.operators import parse_operators
from dynamask_mlflow.masks.process_state import untouched_process
from dynamask_mlflow.masks.progress import Progress
from dynamask_mlflow.masks.registry import FORWARD_METHODS, find_method
from dynamask_mlflow.masks.result import Masks
from dynamask_mlflow.masks.side_inputs import SideInputs, check_extras
from dynamask_mlflow.masks.target_spec import parse_target
from dynamask_mlflow.masks.unseen_channels import ROWS, warn_of_unseen_channels

# How many baselines are made of a reference set, and of how many of its sequences each is the mean: single sequences
# bring events of their own, and the mean of all is like none of them.
REFERENCE_DRAWS, REFERENCE_GROUP = 8, 4

_logger = logging.getLogger(__name__)


def explain(
    model: Model,
    x: NDArray[Any] | Tensor,
    *,
    task: str = "classification",
    lengths: Sequence[int] | NDArray[Any] | Tensor | None = None,
    observed: NDArray[Any] | Tensor | None = None,
    extras: Mapping[str, Any] | None = None,
    reference: NDArray[Any] | Tensor | None = None,
    config: ExplainConfig | None = None,
    **options: Any,
) -> Masks:
    """Which cells of each sequence moved the model's answer, and which way.

    Args:
        model: module or callable on (B, T, d) that returns (B,), (B, C), (B, T) or (B, T, C): of tensors, with
            gradients where there are any, or of numpy arrays. Without gradients `forward_budget` forward passes explain
            an instance. What else its arguments name (lengths, mask, static, ...) it is given; `inputs`, `layout` and
            `output_key` say more.
        x: (N, T, d), finite, or NaN where a cell was not measured, for models that take it; or (N, T d) with
            shape=(T, d), for models that take windows in one row.
        task: "classification" or "regression".
        lengths: (N,) how many steps of each sequence exist; the rest is padding.
        observed: (N, T, d) which cells were measured. The others keep their values and are never salient.
        extras: further inputs of the model, name -> (N, ...). Floats (N,), (N, s) are static features.
        reference: (M, T, d) other sequences, or their mean (T, d). The answer is then explained against theirs: "the
            risk is .03 where others have .19". Some are drawn by the seed. Without it the baselines are dynamic: the
            sequence's own neighbours in time.
        config: settings; `options` of the same names override it.
        **options: any field of `ExplainConfig`, for instance target, method, area, seed, device.

    Returns:
        Masks of the N instances, in their order.

    Example:
        >>> import torch
        >>> from dynamask_mlflow import explain
        >>> def last_step_of_channel_0(x):
        ...     return x[:, -1, 0]
        >>> x = torch.randn(2, 6, 3, generator=torch.Generator().manual_seed(0))
        >>> masks = explain(last_step_of_channel_0, x, task="regression", progress=False)
        >>> (masks.masks > 0.5).nonzero()
        (array([0, 1]), array([5, 5]), array([0, 0]))
    """
    settings = _settings(task, config, options)
    method = find_method(settings.method)
    inputs = as_inputs(unflattened(x, settings.shape), nan=True)
    side = SideInputs(_host(lengths), _host(observed), check_extras(extras, len(inputs)))
    exists = existing_cells(inputs, lengths, observed)
    # Cells that were never measured need no other sequences.
    drawn = None if asks_for_missing(settings) else draw_reference(reference, inputs, settings.seed)
    device = resolve_device(settings.device)
    model = callable_of(model, task)
    total, steps = inputs.shape[:2]
    with untouched_process(model), frozen(model, device):
        asked = as_torch_model(model, inputs, task, settings.shape)
        black_box, binding = open_bound(
            Binding.of(asked, inputs, exists, side, settings), task, settings.output, device
        )
        if not black_box.differentiable:
            _check_forward(settings, black_box.model)
        elif binding.missing and binding.side.nan is not None and settings.method != "forward":
            raise ConfigError(
                "Expected method='forward' with the operator 'missing' and a model that takes NaN, since no gradient "
                f"leads from a value to NaN, but got {settings.method!r}."
            )
        several = settings.method == "paper" and isinstance(settings.area, str)
        replicas = len(settings.areas or range(11)) if several else 1
        most = batch_size(
            model, black_box, binding.inputs_of(torch.zeros(1).long(), device), settings.memory_budget, replicas
        )
        draws = Draws(settings.seed, steps, binding.drawn_channels, device)
        description = _description(settings, task, black_box.output, drawn, binding)

        with Progress(settings.progress, total) as bar:

            def fit(part: slice, size: int) -> Masks:
                number, least = part.stop - part.start, min(size, LEAST)
                # A batch is filled up with its last instance to a multiple of `least`, and cut again afterwards.
                filled = -(-number // least) * least if replicas == 1 else max(number, -(-least // replicas))
                rows = torch.arange(part.start, part.start + filled).clamp(max=part.stop - 1)
                # Where memory ran out, questions share a call no more.
                rows_at_once = most.rows if size == most.instances else size
                bound = black_box.with_model(binding.model_of(rows, device), rows_at_once)
                fitted = method(bound, binding.batch(rows, device, draws, drawn), settings, bar.tick)
                bar.done(number)
                return _to_masks(binding.map_of(fitted, rows), description)[:number]

            parts = list(in_batches(total, most.instances, fit))
        masks = Masks.concatenate(parts)
        _check(masks)
        if black_box.differentiable and not binding.missing:
            first = torch.arange(min(total, most.instances, ROWS))
            here = None if exists is None else exists[first].to(device)
            bound = black_box.with_model(binding.model_of(first, device))
            warn_of_unseen_channels(bound, binding.inputs_of(first, device), here, masks)
    return masks


def _settings(task: str, config: ExplainConfig | None, options: Mapping[str, Any]) -> ExplainConfig:
    """The settings of a call; what cannot be meant is refused before anything is computed."""
    if task not in TASKS:
        raise ValueError(f"Expected task to be one of {TASKS}, but got {task!r}.")
    names = [name for name in ("channel_names", "ids", "times") if name in options]
    if names:
        raise ConfigError(
            f"Expected no {names[0]}, since masks have no names, but got some. Pass them to `to_frame` or `plot` of "
            "the result."
        )
    settings = (config or ExplainConfig()).with_options(**options)
    find_method(settings.method)
    target = parse_target(settings.target, settings.class_names)
    if not target.is_auto and (settings.method not in ("nested", "forward") or settings.deletion):
        raise ConfigError(
            f"Expected target='auto' with method={settings.method!r} and deletion={settings.deletion}, which explain "
            f"the prediction as it is, but got {target.spec!r}."
        )
    if settings.operators is not None:
        parse_operators(settings.operators)
    return settings


def _check_forward(settings: ExplainConfig, model: Model) -> None:
    """Refuse what needs gradients, and say so where they were probably lost by mistake."""
    usual = settings.loss == "auto" and not settings.deletion
    if settings.method not in FORWARD_METHODS or not usual:
        raise ModelError(
            "Expected a model that is differentiable by its inputs, but its output carries no gradient (labels, "
            "argmax, numpy, .detach() and torch.no_grad() have that effect), which "
            f"method={settings.method!r}, deletion={settings.deletion} and loss={settings.loss!r} need. Leave them "
            f"out, or choose the method among {', '.join(FORWARD_METHODS)}."
        )
    inner = model.network if isinstance(model, AdaptedModel) else model
    if settings.method == "nested" and not isinstance(inner, ForwardOnly | Labelled):
        _logger.warning(
            "dynamask: the model's output carries no gradient (argmax, .detach(), numpy or torch.no_grad() in it), "
            "so it is explained by %d forward passes an instance.",
            settings.forward_budget,
        )


def _check(masks: Masks) -> None:
    failed = {name.removeprefix("failed/"): v for name, v in masks.diagnostics.items() if name.startswith("failed/")}
    if failed and np.all(list(failed.values()), axis=0).any():
        raise ModelError(
            f"Expected finite outputs and gradients on perturbed inputs, but some are NaN or infinite under every "
            f"operator ({', '.join(failed)}). Pass `operators` that keep inputs within the model's range, or a "
            "`reference`."
        )
    if not np.isfinite(masks.masks).all() or not np.isfinite(masks.errors).all():
        raise ModelError(
            "Expected finite masks, but the model returned NaN or infinity on perturbed inputs. Pass `operators` that "
            "keep inputs within the model's range, or a `reference`."
        )


def draw_reference(reference: NDArray[Any] | Tensor | None, inputs: Tensor, seed: int) -> Tensor | None:
    """(K, T, d): means of a few reference sequences each, drawn by the seed, never by the batch."""
    if reference is None:
        return None
    values = as_numbers(reference, "reference").float()
    values = values[None] if values.ndim == 2 else values
    if values.ndim != 3 or values.shape[1:] != inputs.shape[1:] or not len(values):
        raise ValueError(
            f"Expected reference sequences of shape (M, {inputs.shape[1]}, {inputs.shape[2]}), "
            f"but got {tuple(values.shape)}."
        )
    if not bool(torch.isfinite(values).all()):
        raise ValueError("Expected finite reference sequences, but some values are NaN or infinite.")
    order = np.random.default_rng([seed, 0x4EF]).permutation(len(values))
    group = min(REFERENCE_GROUP, max(1, len(values) // REFERENCE_DRAWS))
    chosen = order[: REFERENCE_DRAWS * group].reshape(-1, group)
    return values[torch.from_numpy(chosen[np.argsort(chosen[:, 0])])].mean(1)


def existing_cells(
    inputs: Tensor,
    lengths: Sequence[int] | NDArray[Any] | Tensor | None,
    observed: NDArray[Any] | Tensor | None,
) -> Tensor | None:
    """(N, T, d) booleans, or None when every cell exists."""
    total, steps, _ = inputs.shape
    exists = None
    if lengths is not None:
        ends = as_numbers(lengths, "lengths").cpu()
        whole = ends.dtype != torch.bool and not bool((ends != ends.round()).any())
        if ends.shape != (total,) or not whole or bool((ends < 1).any()) or bool((ends > steps).any()):
            raise ValueError(f"Expected {total} lengths, whole numbers in 1 .. {steps}, but got {ends.tolist()}.")
        exists = (torch.arange(steps)[None] < ends[:, None])[:, :, None].expand_as(inputs)
    if observed is not None:
        seen = as_numbers(observed, "observed").cpu()
        if not bool(((seen == 0) | (seen == 1)).all()):
            raise ValueError("Expected observed to be True or False (1 or 0) in every cell, but got other numbers.")
        seen = seen.bool()
        if seen.shape != inputs.shape:
            raise ValueError(f"Expected observed of shape {tuple(inputs.shape)}, but got {tuple(seen.shape)}.")
        exists = seen if exists is None else exists & seen
    absent = inputs.isnan()
    if bool(absent.any()):
        exists = ~absent if exists is None else exists & ~absent
    if exists is not None and not bool(exists.flatten(1).any(1).all()):
        missing = int((~exists.flatten(1).any(1)).sum())
        raise ValueError(
            f"Expected at least one measured cell an instance, but {missing} of {total} have none: all is NaN, padding "
            "or not observed. Leave them out."
        )
    return exists


def _host(values: Any) -> Any:
    return (
        values.detach().cpu().numpy() if isinstance(values, Tensor) else None if values is None else np.asarray(values)
    )


def _description(
    settings: ExplainConfig, task: str, output: str, reference: Tensor | None, binding: Binding
) -> dict[str, Any]:
    keep = settings.to_dict()
    for key in ("device", "memory_budget", "progress"):
        keep.pop(key)
    if settings.operators is not None:
        keep["operators"] = [op if isinstance(op, str) else op.spec for op in settings.operators]
    if settings.areas is not None:
        keep["areas"] = list(settings.areas)
    if settings.class_names is not None:
        keep["class_names"] = list(settings.class_names)
    if binding.static_names:
        keep["static"] = binding.static_names
    keep["target"] = parse_target(settings.target, settings.class_names).spec
    if reference is not None:
        keep["reference"] = hashlib.sha256(reference.numpy().tobytes()).hexdigest()[:16]
    return {**keep, "task": task, "output": output, "versions": versions("torch", "numpy")}


def _to_masks(fitted: Fitted, description: dict[str, Any]) -> Masks:
    def array(values: Tensor) -> NDArray[Any]:
        return values.detach().cpu().numpy()

    def if_known(values: Tensor | None, dtype: Any = np.float32) -> Any:
        return None if values is None else array(values).astype(dtype)

    names = np.asarray(fitted.contestants or ("",))
    winner = if_known(fitted.winner, np.int64)
    algorithm: Any = None if winner is None else names[winner]

    return Masks(
        masks=array(fitted.masks).astype(np.float32),
        scores=array(fitted.scores).astype(np.float32),
        areas=np.asarray(fitted.areas, dtype=np.float64),
        errors=array(fitted.errors).astype(np.float64),
        area=array(fitted.area).astype(np.float64),
        diagnostics={name: array(values) for name, values in fitted.diagnostics.items()},
        config=description,
        binary=if_known(fitted.binary, np.bool_),
        attributions=if_known(fitted.attributions),
        answer_attributions=if_known(fitted.answer_attributions),
        deletion_scores=if_known(fitted.deletion_scores),
        direction=if_known(fitted.direction, np.int8),
        algorithm=algorithm,
        spread=if_known(fitted.spread),
        channel_spread=if_known(fitted.channel_spread),
        static_masks=if_known(fitted.static_masks),
        static_attributions=if_known(fitted.static_attributions),
    )
