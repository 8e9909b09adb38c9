"""The model as the mathematics sees it: frozen, differentiable where it can be, with outputs of one form.

Outputs are brought to (B, S, C): S output times (1 for one answer a sequence), C >= 2 classes as logits for
classification, C values for regression.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dynamask_mlflow._secrets import first_line
from dynamask_mlflow._settings import ConfigError
from dynamask_mlflow.masks.adapted_model import AdaptedModel, Model
from dynamask_mlflow.masks.errors import LabelsError, ModelError
from dynamask_mlflow.masks.model_call import CallPlan, ModelCall
from dynamask_mlflow.masks.target_spec import ONE_LABEL

Output = Literal["logits", "probabilities", "values"]

_TINY = 1e-7
# In calls of at least 16 rows, and of a multiple of eight, matrix products and the gradients of recurrent layers give
# each row the same bits. For fewer rows processors with AVX-512 have products of their own.
_LEAST_ROWS, _MULTIPLE = 16, 8
_logger = logging.getLogger(__name__)
_said: set[str] = set()


def resolve_device(device: str | torch.device) -> torch.device:
    """ "auto" is CUDA, else MPS, else the CPU."""
    if device != "auto":
        try:
            return torch.empty(1, device=device).device
        except (AssertionError, RuntimeError, ValueError) as error:
            raise ConfigError(
                f"Expected a device of this machine, but got {str(device)!r}: {first_line(error)} device='auto' takes "
                "what there is."
            ) from error
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


@contextmanager
def frozen(model: Model, device: torch.device) -> Iterator[None]:
    """Hold a module on `device` in evaluation mode without weight gradients; restore everything afterwards.

    cuDNN computes gradients of recurrent layers in training mode only, so those layers alone are put into it, with
    their dropout off. Exported programs have that mode burnt in; for them cuDNN is left out.
    """
    with ExitStack() as undo:
        if isinstance(model, nn.Module):
            modules = list(model.modules())
            home = next((p.device for p in model.parameters()), device)
            # Flags are set one by one: exported programs refuse .eval(), and .train(mode) would be too coarse.
            for module in modules:
                recurrent = isinstance(module, nn.RNNBase)
                _set(undo, module, "training", recurrent)
                if recurrent:
                    _set(undo, module, "dropout", 0.0)
            for parameter in model.parameters():
                _set(undo, parameter, "requires_grad", False)
            if home != device:
                undo.callback(model.to, home)
                model.to(device)
            if not any(isinstance(m, nn.RNNBase) for m in modules):
                undo.enter_context(torch.backends.cudnn.flags(enabled=False))
        undo.enter_context(torch.enable_grad())
        yield


def _set(undo: ExitStack, owner: Any, name: str, value: Any) -> None:
    before = getattr(owner, name)
    undo.callback(setattr, owner, name, before)
    setattr(owner, name, value)


def _filled(rows: int) -> int:
    return max(_LEAST_ROWS, -(-rows // _MULTIPLE) * _MULTIPLE)


class BlackBox:
    """A model whose outputs are checked once and then read without looking back.

    Args:
        model: module or callable on (B, T, d).
        task: "classification" or "regression".
        output: for classification, whether the model gives "logits" or "probabilities".
        differentiable: whether answers carry gradients by the inputs.
        rows_at_once: how many rows one call should have at most; several questions about few instances share a call.
    """

    def __init__(
        self, model: Model, task: str, output: Output, differentiable: bool = True, rows_at_once: int = 128
    ) -> None:
        self._model = model
        self.task = task
        self.output = output
        self.differentiable = differentiable
        self.rows_at_once = rows_at_once

    def with_model(self, model: Model, rows_at_once: int | None = None) -> BlackBox:
        """Another model, read in the same way."""
        return BlackBox(model, self.task, self.output, self.differentiable, rows_at_once or self.rows_at_once)

    @property
    def model(self) -> Model:
        """The model itself, for methods that look inside or ask it in its own form."""
        return self._model

    def raw(self, x: Tensor) -> Tensor:
        """The output in the model's own form.

        A call of few rows is filled up with its last one, so that a row has the same bits whatever the others are.
        """
        missing = min(_filled(len(x)), max(self.rows_at_once, len(x))) - len(x)
        if missing <= 0:
            raw: Tensor = self._model(x)
            return raw
        filled: Tensor = self._model(torch.cat([x, x[-1:].expand(missing, -1, -1)]))
        return filled[: len(x)]

    def __call__(self, x: Tensor) -> Tensor:
        """(B, S, C): logits of C >= 2 classes, or values."""
        raw = self.raw(x)
        y = _with_time_axis(raw, x.shape[1])
        if self.task == "regression":
            return y
        if y.shape[-1] == 1:
            if self.output == "probabilities":
                y = torch.logit(y, eps=_TINY)
            return torch.cat([torch.zeros_like(y), y], -1)
        return y.clamp(min=_TINY).log() if self.output == "probabilities" else y

    def of_stack(self, x: Tensor) -> Tensor:
        """(K, B, S, C) of a stack of inputs (K, B, T, d), in one call."""
        y = self(x.flatten(0, 1))
        return y.view(*x.shape[:2], *y.shape[1:])

    def calls(self, inputs: Iterable[Tensor], size: int) -> Iterator[Tensor]:
        """Inputs (B, T, d) each, B = size, stacked to (K, B, T, d), as many as one call should have.

        A recurrent layer takes hardly longer for 128 rows than for 8, so questions that do not wait for each other's
        answers share a call.
        """
        rest = iter(inputs)
        while part := list(islice(rest, max(1, self.rows_at_once // size))):
            yield torch.stack(part)


def open_black_box(model: Model, x: Tensor, task: str, output: str = "auto") -> BlackBox:
    """Try the model on a few instances, check what comes, and settle how its outputs are to be read."""
    if not callable(model):
        name = type(model).__name__
        way = ": load it first, with mlflow.pyfunc.load_model" if isinstance(model, str) else ""
        raise ModelError(
            f"Expected a torch module, a callable on (B, T, d) or an object with `predict`, but got {name}{way}."
        )
    kept = x[: min(len(x), 4)].detach()
    probe = kept.clone().requires_grad_()
    raw = _plain_answer(model, probe, kept)
    if raw is None:
        model, probe = AdaptedModel(model, CallPlan(), ModelCall()), kept.clone().requires_grad_()
        raw = _first_answer(model, probe)
    _check_output(raw, probe, task)
    differentiable = _carries_gradient(raw, probe)
    if task == "regression":
        return BlackBox(model, task, "values", differentiable)
    if output != "auto":
        kind: Output = "probabilities" if output == "probabilities" else "logits"
    else:
        kind = "probabilities" if _gives_probabilities(model, probe.detach()) else "logits"
    if kind == "probabilities" and not differentiable:
        _warn_of_certainty(raw)
    return BlackBox(model, task, kind, differentiable)


def _warn_of_certainty(raw: Tensor) -> None:
    certain = bool(((raw == 0) | (raw == 1)).all())
    if certain and "certain" not in _said and not raw.is_meta:
        _said.add("certain")
        _logger.warning(
            "dynamask: the model answers with 0 and 1 alone, so that a mask sees a cell only where it turns the label. "
            "Explain its probabilities or logits instead."
        )


def _plain_answer(model: Model, probe: Tensor, kept: Tensor) -> Tensor | None:
    """One tensor in float32; None where the model gives something else, or writes to its input."""
    try:
        raw = _first_answer(model, probe)
    except ModelError as error:
        if isinstance(model, AdaptedModel) or "in-place operation" not in str(error):
            raise
        return None
    if not isinstance(raw, Tensor) or (raw.is_floating_point() and raw.dtype != torch.float32):
        return None
    written = not probe.is_meta and not torch.equal(probe, kept)
    return None if written and not isinstance(model, AdaptedModel) else raw


def _carries_gradient(raw: Tensor, probe: Tensor) -> bool:
    """Whether the output depends on this very input: one that is detached and asks for gradients again does not."""
    if not raw.requires_grad:
        return False
    try:
        (gradient,) = torch.autograd.grad(raw.sum(), probe, allow_unused=True)
    except RuntimeError as error:
        raise ModelError(f"Expected gradients by the inputs, but computing them failed: {error}.") from error
    return gradient is not None


def _first_answer(model: Model, probe: Tensor) -> Any:
    try:
        return model(probe)
    except ModelError:
        raise
    except Exception as error:
        what, hint = f"inputs of shape (B, {probe.shape[1]}, {probe.shape[2]})", ""
        if isinstance(model, AdaptedModel):
            what = model.described(probe.shape[1], probe.shape[2])
        elif _answers(model, probe.transpose(1, 2)):
            hint = " It takes (B, d, T): say layout='channels_first'."
        elif _answers(model, probe.detach().flatten(1)):
            hint = f" It takes windows in one row: say shape=({probe.shape[1]}, {probe.shape[2]})."
        elif isinstance(model, nn.Module) and any(isinstance(module, nn.Embedding) for module in model.modules()):
            hint = (
                " If x holds codes that it looks up in an embedding, explain what comes after: "
                "explain(rest, embedding(codes)); half a code means nothing."
            )
        raise ModelError(
            f"Expected a model that takes {what}, but it failed with {type(error).__name__}: {error}.{hint}"
        ) from error


def _answers(model: Model, probe: Tensor) -> bool:
    try:
        with torch.no_grad():
            model(probe)
    except Exception:
        return False
    return True


def _check_output(raw: Tensor, probe: Tensor, task: str) -> None:
    batch, steps = probe.shape[:2]
    fits = raw.ndim in (1, 2, 3) and raw.shape[0] == batch and raw.numel() > 0
    # Values may be a forecast (B, H, d) of more steps than the input has.
    if not fits or (raw.ndim == 3 and raw.shape[1] > steps and task == "classification"):
        hint = " If it takes (T, B, d), say layout='time_first'." if raw.ndim and raw.shape[0] == steps else ""
        raise ModelError(
            f"Expected an output of shape (B,), (B, C), (B, T) or (B, T, C) with B = {batch} and T = {steps}, "
            f"but got {tuple(raw.shape)}.{hint}"
        )
    if _unreadable(raw) or raw.is_complex():
        raise ModelError(f"Expected dense outputs of real numbers, but the model returned {_kind(raw)}.")
    if not raw.is_floating_point():
        raise LabelsError(f"Expected logits, probabilities or values as floats, but the model returned {raw.dtype}.")
    if not bool(torch.isfinite(raw).all()):
        raise ModelError(
            "Expected finite outputs, but the model returned NaN or infinity on the given inputs. If x has NaN, "
            "fill it as for the model's training."
        )


def _gives_probabilities(model: Model, probe: Tensor) -> bool:
    """Whether outputs are probabilities whatever comes in; exaggerated inputs give logits away."""
    summed = True
    with torch.no_grad():
        for scale in (1.0, 0.0, -1.0, 3.0, -3.0, 10.0, -10.0):
            raw = model(probe, scale) if isinstance(model, AdaptedModel) else model(probe * scale)
            y = _with_time_axis(raw, probe.shape[1])
            if bool((y < -1e-6).any()) or bool((y > 1 + 1e-6).any()):
                return False
            summed = summed and (y.shape[-1] == 1 or torch.allclose(y.sum(-1), torch.ones_like(y[..., 0]), atol=1e-4))
    if not summed and "labels" not in _said:
        _said.add("labels")
        _logger.warning(
            "dynamask: the model's outputs lie between 0 and 1 but do not sum to 1, as those of several labels do. "
            "They are read as logits of classes that exclude each other. To explain one label, %s.",
            ONE_LABEL,
        )
    return summed


def _with_time_axis(y: Tensor, steps: int) -> Tensor:
    """(B,), (B, C), (B, T), (B, S, C) -> (B, S, C).

    A second axis as long as the input is time; a model with as many classes as steps returns (B, 1, C) instead.
    """
    if y.ndim == 1:
        return y[:, None, None]
    if y.ndim == 2:
        per_step = y.shape[1] == steps and steps > 1
        return y[:, :, None] if per_step else y[:, None, :]
    return y


def as_inputs(x: NDArray[Any] | Tensor, *, nan: bool = False) -> Tensor:
    """Check (N, T, d), finite or NaN where a model takes it (`nan`), not empty; cast to float32."""
    inputs = as_numbers(x, "x")
    if inputs.ndim != 3 or 0 in inputs.shape:
        raise ValueError(f"Expected x of shape (N, T, d) with N, T, d >= 1, but got {tuple(inputs.shape)}.")
    if inputs.is_complex():
        raise ValueError(f"Expected x to hold real numbers, but got {inputs.dtype}.")
    if _unreadable(inputs):
        raise ValueError(f"Expected a dense x (`x.to_dense()`), but got {_kind(inputs)}.")
    inputs = inputs.float()
    bad = int((torch.isinf(inputs) if nan else ~torch.isfinite(inputs)).sum())
    if bad:
        raise ValueError(
            f"Expected finite x, but {bad} cells are {'' if nan else 'NaN or '}infinite. Fill them as they were filled "
            "for the model's training."
        )
    return inputs


def as_numbers(values: Any, what: str) -> Tensor:
    """A tensor of whatever holds numbers; text and objects are refused by name."""
    if isinstance(values, Tensor):
        return values.detach()
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(
            f"Expected {what} as an array of one shape, but got lists of unequal lengths. Fill them up to one length, "
            "and say with lengths= how many steps exist."
        ) from error
    if array.dtype.kind not in "biufc":
        raise ValueError(f"Expected {what} to hold numbers, but got {_named(values, array)}.")
    return torch.as_tensor(array)


def _named(values: Any, array: NDArray[Any]) -> str:
    """What came in place of numbers, and the way out where it is known."""
    if array.ndim == 0 and hasattr(values, "features"):
        return f"{type(values).__name__}: pass its .features"
    if isinstance(values, nn.Module):
        return f"{type(values).__name__}: the model comes first, then the array"
    if array.ndim == 0:
        return type(values).__name__
    way = ": .astype('float32') makes numbers of them, if they are" if array.dtype.kind == "O" else ""
    return f"an array of {array.dtype}{way}"


def _unreadable(values: Tensor) -> bool:
    return values.is_meta or values.layout != torch.strided


def _kind(values: Tensor) -> str:
    return f"{values.layout}, {values.dtype} on {values.device}"
