"""The figures of the experiments: curves against the area, saliency maps side by side, patients' most important cells.

Drawn from trials alone: curves from the metrics named curve/area, maps from the masks that a trial keeps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow import metrics as m
from dynamask_mlflow.experiments.protocol import Case, ExperimentResult
from dynamask_mlflow.masks.result import Masks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CURVES = {
    "error": "error, share of the empty mask's",
    "ce": "CE (higher is better)",
    "acc": "ACC (lower is better)",
    "ce_batch": "CE, over the whole batch (higher is better)",
    "acc_batch": "ACC, over the whole batch (lower is better)",
}
TOP_SHARE = 0.1
_MAPS_SHOWN = 2


def draw_figures(title: str, result: ExperimentResult, case: Case, folder: Path, form: str = "svg") -> list[Path]:
    """Draw what the trials allow, in `folder`, as svg or png. `case` is that of the first seed."""
    folder.mkdir(parents=True, exist_ok=True)
    figures = {f"{curve}-against-area": fig for curve, fig in area_curves(title, result).items()}
    kept = _kept(result)
    if kept:
        if case.truth is None:
            figures["patients"] = _patients(title, kept, case)
        else:
            for row in range(min(_MAPS_SHOWN, *(len(masks) for masks in kept.values()))):
                figures[f"saliency-maps-{row + 1}"] = _maps(title, kept, case, row)
    return [save(figure, folder / f"{result.experiment}-{name}.{form}") for name, figure in figures.items()]


def save(figure: Figure, path: Path) -> Path:
    """Without a date and with fixed names inside: equal runs, equal files."""
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": "dynamask"}):
        metadata = {"Date": None} if path.suffix == ".svg" else None
        figure.savefig(path, bbox_inches="tight", dpi=110, metadata=metadata)
    return path


def _kept(result: ExperimentResult) -> dict[str, Masks]:
    """The masks of the first seed, by method."""
    first = result.trials[0].seed if result.trials else None
    return {t.method: t.masks for t in result.trials if t.seed == first and t.masks is not None}


def area_curves(title: str, result: ExperimentResult) -> Mapping[str, Figure]:
    """One figure a curve: the mean over the seeds, and a band of one standard deviation."""
    names = {name for trial in result.trials for name in trial.metrics}
    figures = {}
    for curve, label in CURVES.items():
        areas = sorted(float(name.split("/")[1]) for name in names if name.startswith(f"{curve}/"))
        if not areas:
            continue
        figure, (axes,) = _canvas(1, (6.0, 3.8))
        for method in result.methods:
            summaries = [result.summary(method, f"{curve}/{area:g}") for area in areas]
            mean = np.array([s.mean for s in summaries])
            spread = np.nan_to_num(np.array([s.deviation for s in summaries]))
            (line,) = axes.plot(areas, mean, marker="o", markersize=3, label=method)
            axes.fill_between(areas, mean - spread, mean + spread, alpha=0.15, color=line.get_color(), linewidth=0)
        axes.set_xlabel("area a")
        axes.set_ylabel(label)
        axes.set_title(title, fontsize=9)
        axes.legend(fontsize=7, frameon=False)
        figures[curve] = figure
    return figures


def _maps(title: str, kept: Mapping[str, Masks], case: Case, row: int) -> Figure:
    """The truth, then the mask of each method, channels upwards and time to the right."""
    if case.truth is None:
        raise ValueError("Expected a case whose salient cells are known, but it has none.")
    truth = np.broadcast_to(case.truth, case.x.shape)[row]
    panels = {"truth": truth.astype(np.float32), **{name: masks.masks[row] for name, masks in kept.items()}}
    columns = min(4, len(panels))
    figure, grid = _canvas(len(panels), (2.6 * columns, 2.2 * -(-len(panels) // columns)), columns)
    for axes, (name, panel) in zip(grid, panels.items(), strict=True):
        _cells(axes, panel, name)
    figure.suptitle(f"{title}, instance {row + 1}", fontsize=9)
    return figure


def _patients(title: str, kept: Mapping[str, Masks], case: Case) -> Figure:
    """A row a patient, a column a method: the most important tenth of the cells, and how far deleting it moves CE."""
    from dynamask_mlflow.training.loop import predict

    number = min(len(masks) for masks in kept.values())
    x = case.x[:number]
    before = predict(case.model, x)
    figure, grid = _canvas(number * len(kept), (2.6 * len(kept), 2.6 * number), len(kept))
    for column, (name, masks) in enumerate(kept.items()):
        cells = m.top_cells(masks.scores[:number], TOP_SHARE)
        after = predict(case.model, m.replace_by_time_mean(x, cells).astype(np.float32))
        shifts = m.cross_entropy_shift(before, after, per_instance=True)
        for patient in range(number):
            axes = grid[patient * len(kept) + column]
            _cells(axes, cells[patient].astype(np.float32), f"{name}, CE {shifts[patient]:.2f}")
            if column == 0:
                names = case.channel_names or tuple(map(str, range(x.shape[2])))
                axes.set_yticks(range(len(names)), names, fontsize=4)
                axes.set_ylabel(f"patient {patient + 1}, risk {before[patient]:.2f}", fontsize=7)
    figure.suptitle(f"{title}: the most important {TOP_SHARE:.0%}", fontsize=9)
    return figure


def _cells(axes: Axes, panel: NDArray[Any], name: str) -> None:
    axes.imshow(panel.T, aspect="auto", origin="lower", cmap="magma_r", vmin=0, vmax=1, interpolation="nearest")
    axes.set_title(name, fontsize=8)
    axes.tick_params(labelsize=6)


def _canvas(panels: int, size: tuple[float, float], columns: int = 1) -> tuple[Figure, Sequence[Axes]]:
    """A figure without a window and without pyplot's global state."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    rows = -(-panels // columns)
    return figure, [figure.add_subplot(rows, columns, place + 1) for place in range(panels)]
