"""A gate for promotion: a new version against the present one, on the same stays, within limits that a file gives."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

import numpy as np
from pydantic import Field

from dynamask_mlflow._settings import Positive, Settings
from dynamask_mlflow.audit import tags as t
from dynamask_mlflow.audit.comparison import trust_of
from dynamask_mlflow.audit.config import AuditConfig
from dynamask_mlflow.audit.errors import AuditError
from dynamask_mlflow.audit.explained_window import ExplainedWindow, members
from dynamask_mlflow.audit.models import ModelRef, resolve_model
from dynamask_mlflow.audit.records import AuditSource, ShardGroup, StaySource
from dynamask_mlflow.audit.shards import gather, plan_shards, writable_store
from dynamask_mlflow.audit.statistics import Shift, compare_versions, paired_performance, paired_shift
from dynamask_mlflow.audit.verdict import PERFORMANCE_NAMES, change, noun, number, percent, points
from dynamask_mlflow.audit.windows import (
    check_attributes,
    draw,
    find_rows,
    parse_window,
    with_attributes,
    with_outcomes,
)
from dynamask_mlflow.audit.workers import Progress, Workers

GATE, GATE_REASONS = "dynamask.gate", "dynamask.gate_reasons"


class GateState(StrEnum):
    """What a gate, or one of its checks, says."""

    PASSED = "passed"
    REFUSED = "refused"
    INCONCLUSIVE = "inconclusive"

    @property
    def exit_code(self) -> int:
        return {GateState.PASSED: 0, GateState.REFUSED: 1, GateState.INCONCLUSIVE: 2}[self]


Limit = Annotated[float, Field(gt=0)]


class GateLimits(Settings):
    """How far a new version may be from the present one, on the same stays.

    >>> GateLimits(auroc=0.01).auroc
    0.01
    """

    channel: Limit = 0.075
    """Change of one channel's share of attention."""
    hours: Limit = 0.21
    """Share of attention that moves in time."""
    lost: Limit = 0.95
    """Share of an important channel's attention that is given up."""
    risk: Limit = 0.05
    """Change of the mean predicted risk; of a predicted value in standard deviations."""
    auroc: Limit = 0.02
    """Loss of AUROC."""
    auprc: Limit = 0.05
    """Loss of AUPRC."""
    brier: Limit = 0.01
    """Rise of the Brier score."""
    error: Limit = 0.1
    """Rise of the error, in standard deviations."""
    calibration: Limit = 0.05
    """How much farther from 0 observed minus predicted is."""
    faithfulness: Limit = 0.5
    """Loss of what the masks' cells are worth to the prediction, in standard deviations."""
    group_channel: Limit = 0.15
    """The same as `channel`, within each subgroup."""
    group_risk: Limit = 0.1
    """The same as `risk`, within each subgroup."""
    group_auroc: Limit = 0.05
    """The same as `auroc`, within each subgroup."""
    minimum: Positive = 100
    """Stays, and stays with a known outcome for what needs them."""
    strict: bool = False
    """A check that is within its limit, but whose 95 % bound is not, is inconclusive; else it passes."""


@dataclass(frozen=True)
class Check:
    """One check: its sentence, what was measured, its limit and whether it passed."""

    name: str
    state: GateState
    message: str
    value: float
    limit: float


@dataclass(frozen=True)
class GateResult:
    """What the gate says of a version. checks: all of them, those that refuse first."""

    state: GateState
    model: str
    version: str
    against: str
    window: str
    stays: int
    checks: tuple[Check, ...]

    @property
    def reasons(self) -> tuple[str, ...]:
        return tuple(f"{check.state}: {check.message}" for check in self.checks)

    def to_json(self) -> str:
        return json.dumps({**asdict(self), "exit_code": self.state.exit_code}, indent=1)


def run_gate(
    source: AuditSource,
    against: str,
    *,
    limits: GateLimits | None = None,
    config: AuditConfig | None = None,
    processes: int = 1,
    record: bool = True,
    progress: Progress | None = None,
) -> GateResult:
    """Explain the same stays under both versions, compare, and write on the version what was refused and why.

    Args:
        source: the version to be promoted and the stays. against: the one that is in use; "@champion" is an alias of
            the same model.
        config: with `by`, subgroups must hold, too.
        record: False leaves the version's tags alone. progress: called after each shard.

    >>> source = AuditSource(model="models:/icu-mortality/4", data="icu", window="2026-03")
    >>> run_gate(source, "@champion", config=AuditConfig(instances=100), record=False).state
    <GateState.PASSED: 'passed'>
    """
    config, limits, data = config or AuditConfig(), limits or GateLimits(), source.data
    store = writable_store(source.store)
    check_attributes(data, config.by)
    new, span = resolve_model(source.model), parse_window(source.window)
    old = resolve_model(f"models:/{new.name}{against}" if against.startswith("@") else against)
    if (new.name, new.version) == (old.name, old.version):
        raise AuditError(
            f"Expected another version to compare {new.name} version {new.version} with, but {against} is that version "
            "itself."
        )
    rows = draw(find_rows(data, span, source.split), config.instances, config.seed, span.label)
    stays = StaySource(stays=data, rows=tuple(int(row) for row in rows), hashed=config.hash_ids)
    groups = [ShardGroup(model=ref, source=stays, config=config) for ref in (old, new)]
    with Workers(processes) as workers:
        plans = [plan_shards(group, store, least=workers.least_shards) for group in groups]
        workers.fit([uri for uris in plans for uri in uris], progress)
    cells = [with_outcomes(gather(uris), data, rows, config) for uris in plans]
    if config.by:
        cells = [with_attributes(cell, data, rows, config) for cell in cells]
    result = check_versions(cells[0], cells[1], new, old, span.label, limits, config)
    if record:
        record_gate(result)
    return result


def check_versions(
    before: ExplainedWindow,
    now: ExplainedWindow,
    new: ModelRef,
    old: ModelRef,
    window: str,
    limits: GateLimits,
    config: AuditConfig,
) -> GateResult:
    """All checks of two versions on the same stays."""
    if list(before.ids) != list(now.ids):
        raise AuditError("Expected both versions to explain the same stays, but one of them failed on some.")
    checks = [*_size(now, limits), *_attention(before, now, limits), *_faithful(before, now, limits, config)]
    checks += [*_predictions(before, now, limits), *group_checks(before, now, limits, config)]
    order = [GateState.REFUSED, GateState.INCONCLUSIVE, GateState.PASSED]
    checks.sort(key=lambda check: order.index(check.state))
    return GateResult(checks[0].state, new.name, new.version, old.version, window, len(now), tuple(checks))


def record_gate(result: GateResult) -> None:
    """Tags of the version: what the gate said, when, against whom, and why."""
    from mlflow import MlflowClient

    client = MlflowClient()
    now = datetime.now(UTC).isoformat(timespec="seconds")
    text = f"{result.state} against version {result.against} on {result.window}, {result.stays} stays, {now}"
    reasons = "\n".join(reason for reason in result.reasons if not reason.startswith("passed")) or "all checks passed"
    client.set_model_version_tag(result.model, result.version, GATE, text)
    client.set_model_version_tag(result.model, result.version, GATE_REASONS, reasons[: t.LONGEST])


def _size(now: ExplainedWindow, limits: GateLimits) -> list[Check]:
    stays = int(now.usable.sum())
    if stays >= limits.minimum:
        return []
    text = f"{stays} stays are too few; at least {limits.minimum} are needed."
    return [Check("stays", GateState.INCONCLUSIVE, text, stays, limits.minimum)]


def _attention(before: ExplainedWindow, now: ExplainedWindow, limits: GateLimits) -> list[Check]:
    shift, names = compare_versions(before.shares, now.shares), now.channel_names
    largest = float(shift.channel_shift[shift.channel])
    lost = names[shift.lost_channel]
    return [
        _check("channel", f"Attention to {names[shift.channel]} {points(largest)}.", shift.largest, limits.channel),
        _check("hours", f"{percent(shift.hours)} of the attention moved in time.", shift.hours, limits.hours),
        _check("lost", f"{percent(shift.lost)} of the attention to {lost} is given up.", shift.lost, limits.lost),
    ]


def _faithful(before: ExplainedWindow, now: ExplainedWindow, limits: GateLimits, config: AuditConfig) -> list[Check]:
    own = [part.numbers["own"] for part in (before, now)]
    spread = float(np.nanstd(own[0]))
    loss = (float(np.nanmean(own[0])) - float(np.nanmean(own[1]))) / spread if spread > 0 else 0.0
    text = (
        f"What the masks' cells are worth to the prediction is {number(float(np.nanmean(own[1])))} instead of "
        f"{number(float(np.nanmean(own[0])))} on average ({number(max(loss, 0.0))} standard deviations lost)."
    )
    checks = [_check("faithfulness", text, loss, limits.faithfulness)]
    trust = trust_of(now, config)
    if trust is None or trust.trusted:
        return checks
    text = (
        "The masks are not to be trusted: they move the prediction more than another stay's mask in "
        f"{percent(trust.wins_other)} and more than the mean map in {percent(trust.wins_mean_map)} of the stays."
    )
    return [*checks, Check("trust", GateState.INCONCLUSIVE, text, trust.wins_other, 0.5)]


def _predictions(before: ExplainedWindow, now: ExplainedWindow, limits: GateLimits) -> list[Check]:
    old, new, outcomes = before.numbers["risk"], now.numbers["risk"], now.numbers["label"]
    task, scale, mean = now.task, _unit(before), paired_shift(old, new, now.patients)
    text = f"The mean {noun(task)} is {number(mean.current)} instead of {number(mean.reference)} ({change(mean)})."
    checks = [
        _bounded("risk", text, abs(mean.difference), max(abs(mean.low), abs(mean.high)), limits.risk * scale, limits)
    ]
    known = np.isfinite(outcomes)
    if int(known.sum()) < limits.minimum:
        text = f"{int(known.sum())} stays have a known outcome; at least {limits.minimum} are needed to compare errors."
        return [*checks, Check("outcomes", _doubt(limits), text, float(known.sum()), limits.minimum)]
    for name, shift in paired_performance(old[known], new[known], outcomes[known], now.patients[known], task).items():
        checks.append(_performance(name, shift, limits, scale))
    return checks


def _unit(before: ExplainedWindow) -> float:
    """Of the limits of predictions: 1 for risks; for values their standard deviation under the present version."""
    return 1.0 if before.task == "classification" else max(float(before.numbers["risk"].std()), 1e-12)


def _performance(name: str, shift: Shift, limits: GateLimits, scale: float) -> Check:
    """A loss of AUROC or AUPRC, a rise of an error, a calibration that is farther from 0."""
    limit = float(getattr(limits, name)) * (scale if name in ("error", "calibration") else 1.0)
    values = f"{number(shift.current)} instead of {number(shift.reference)} ({change(shift)})"
    text = f"The {PERFORMANCE_NAMES[name]} is {values}."
    if name == "calibration":
        farther = abs(shift.current) - abs(shift.reference)
        return _bounded(name, text, farther, farther + (shift.high - shift.low) / 2, limit, limits)
    worse, bound = (-shift.difference, -shift.low) if name in ("auroc", "auprc") else (shift.difference, shift.high)
    return _bounded(name, text, worse, bound, limit, limits)


def group_checks(before: ExplainedWindow, now: ExplainedWindow, limits: GateLimits, config: AuditConfig) -> list[Check]:
    """Attention, predictions and AUROC of each subgroup; those that are too small are said to be."""
    checks = []
    for attribute in config.by:
        column = now.attributes.get(attribute, np.zeros(0, dtype=np.str_))
        for value, rows in members(column).items():
            name = f"{attribute} {value}"
            if int((rows & now.usable).sum()) < config.group_minimum:
                text = f"The group {name} has {int(rows.sum())} stays; at least {config.group_minimum} are needed."
                checks.append(Check(name, _doubt(limits), text, float(rows.sum()), config.group_minimum))
                continue
            checks += _group(name, before.take(rows), now.take(rows), limits)
    return checks


def _group(name: str, before: ExplainedWindow, now: ExplainedWindow, limits: GateLimits) -> list[Check]:
    shift = compare_versions(before.shares, now.shares)
    channel, largest = now.channel_names[shift.channel], float(shift.channel_shift[shift.channel])
    old, new = before.numbers["risk"], now.numbers["risk"]
    task, scale, mean = now.task, _unit(before), paired_shift(old, new, now.patients)
    text = f"In {name} the mean {noun(task)} is {number(mean.current)} instead of {number(mean.reference)}."
    checks = [
        _check(name, f"In {name} attention to {channel} {points(largest)}.", shift.largest, limits.group_channel),
        _check(name, text, abs(mean.difference), limits.group_risk * scale),
    ]
    known = np.isfinite(now.numbers["label"])
    if task == "classification" and int(known.sum()) >= limits.minimum:
        outcomes = now.numbers["label"][known]
        found = paired_performance(old[known], new[known], outcomes, now.patients[known]).get("auroc")
        if found is not None:
            text = f"In {name} the AUROC is {number(found.current)} instead of {number(found.reference)}."
            checks.append(_check(name, text, -found.difference, limits.group_auroc))
    return checks


def _check(name: str, text: str, value: float, limit: float) -> Check:
    state = GateState.REFUSED if value >= limit else GateState.PASSED
    state = state if np.isfinite(value) else GateState.INCONCLUSIVE
    return Check(name, state, f"{text} The limit is {limit:g}.", value, limit)


def _bounded(name: str, text: str, value: float, bound: float, limit: float, limits: GateLimits) -> Check:
    state = GateState.PASSED if bound < limit else _doubt(limits)
    state = state if np.isfinite(value) else GateState.INCONCLUSIVE
    return Check(
        name, GateState.REFUSED if value >= limit else state, f"{text} The limit is {limit:.3g}.", value, limit
    )


def _doubt(limits: GateLimits) -> GateState:
    return GateState.INCONCLUSIVE if limits.strict else GateState.PASSED
