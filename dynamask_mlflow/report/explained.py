"""What raised and lowered the answers, as the page's scripts read it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dynamask_mlflow.report.data import Compared, Contributions, Course, TargetView
from dynamask_mlflow.report.encode import base64_text, bits_of_flags, bytes_of_ranks, bytes_of_shares, words_of_signed


def explained_payload(found: Contributions | None, suffix: str = "") -> tuple[dict[str, Any] | None, dict[str, str]]:
    """Numbers of each instance, and the signed cells and error bars as blobs."""
    if found is None:
        return None, {}
    cells, sizes = words_of_signed(found.cells)
    blobs = {f"signed{suffix}": base64_text(cells)}
    spreads = None
    if found.channel_spread is not None:
        by_channel, spreads = words_of_signed(np.asarray(found.channel_spread)[:, None])
        blobs[f"spread{suffix}"] = base64_text(by_channel)
    values = {
        "answer": np.asarray(found.answer, dtype=np.float64),
        "reference": np.asarray(found.reference, dtype=np.float64),
        "sizes": sizes,
        "spreads": spreads,
        "logit": found.logit,
        "unit": found.unit,
        "target": found.target,
        "against": found.against,
        "level": found.held_level,
    }
    return values, blobs


def view_payloads(views: Sequence[TargetView]) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The other targets: their labels and numbers, and blobs that are named after their place."""
    entries: list[dict[str, Any]] = []
    blobs: dict[str, str] = {}
    for place, view in enumerate(views, start=1):
        suffix = f"-{place}"
        values, signed = explained_payload(view.contributions, suffix)
        masks = np.clip(np.nan_to_num(np.asarray(view.masks, dtype=np.float32)), 0.0, 1.0)
        blobs |= {f"masks{suffix}": base64_text(bytes_of_shares(masks)), **signed}
        if view.scores is not None:
            blobs[f"ranks{suffix}"] = base64_text(bytes_of_ranks(np.asarray(view.scores)))
        if view.highlighted is not None:
            blobs[f"highlighted{suffix}"] = base64_text(bits_of_flags(view.highlighted))
        predictions = None if view.predictions is None else np.asarray(view.predictions, dtype=np.float64)
        leading = masks.sum(axis=1).argmax(axis=1) if masks.size else np.zeros(len(masks), dtype=int)
        entries.append({"label": view.label, "explained": values, "predictions": predictions, "leading": leading})
    return entries, blobs


def compared_payload(compared: Compared | None) -> dict[str, Any] | None:
    """Two models side by side, in the form in which the drift section draws two windows."""
    if compared is None:
        return None
    return {
        "labels": list(compared.labels),
        "byChannel": [np.asarray(shares, dtype=np.float64) for shares in compared.by_channel],
        "byTime": [np.asarray(shares, dtype=np.float64) for shares in compared.by_time],
        "maps": [np.asarray(profile, dtype=np.float64) for profile in compared.profiles],
        "movedChannels": [int(channel) for channel in compared.moved_channels],
        "movedTimes": [],
        "rows": dict(compared.rows),
    }


def course_payload(course: Course | None) -> tuple[dict[str, Any] | None, dict[str, str]]:
    """Answers over time, and the moves as signed words."""
    if course is None:
        return None, {}
    moves, sizes = words_of_signed(course.moves)
    values = {
        "steps": np.asarray(course.steps, dtype=int),
        "answers": np.asarray(course.answers, dtype=np.float64),
        "elapsed": np.asarray(course.elapsed, dtype=np.float64),
        "sizes": sizes,
        "unit": course.unit,
        "since": None if course.since is None else np.asarray(course.since, dtype=int),
        "until": None if course.until is None else np.asarray(course.until, dtype=int),
    }
    return values, {"moves": base64_text(moves)}
