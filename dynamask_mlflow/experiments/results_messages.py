"""What the results page says besides its figures."""

from __future__ import annotations

from collections.abc import Mapping

INTRODUCTION = """# Results

This page is written by `dynamask-mlflow experiment results` from runs logged to MLflow; no figure on it is typed by
hand. `dynamask-mlflow experiment all` runs the whole set and goes on where it stopped; with `--quick` it runs a small
set that takes less than an hour. Trials are keyed by the code that made them, so no row mixes two versions.

Every method meets the same model, the same sequences and the same metrics. Figures are mean ± standard deviation over
the seeds, each seed with its own data and its own model.

- `nested` is this package's default and takes no setting from the experiment. `paper` is Algorithm 1 with the
  hyper-parameters of the paper's text, `released` the same with those of the code released with the paper.
- `ig_mean` is IG from the channel's mean over time instead of zero, `ig_smooth` is |IG| smoothed over time (Gaussian,
  two steps). Names with `_signed` keep the sign of the credit, the others take its absolute value.
- Rows in brackets were published by others: other runs, other models, other readings of the metrics. They stand here
  for orientation; a comparison holds only between rows without brackets.
- AUP, AUR, information I and entropy S judge the mask; AUROC and AUPRC judge the ordering of the cells. AUP and AUR are
  integrated exactly. Scores of methods that give no masks are scaled to [0, 1] for each instance, as in the paper.
- Higher is better, except for S, ACC and CPP. S alone says little: a mask that leaves salient cells out altogether has
  no entropy on them.
- Seeds and instances stand in each row, and may be fewer than the paper's (10 repetitions of the rare experiments, 5 of
  state, 3 of MIMIC) or than another row's. Methods are compared over the seeds that both ran, and the text says where
  those are fewer. What was not run is listed under each table; without `--seeds` and `--instances` the commands run
  the full size, and with `--log` they go on where an earlier run stopped.
- CPU seconds an instance are of the process, all its threads together: the clock on the wall would
  measure who else used the machine. On a busy machine these seconds double as well, so compare rows of one table
  alone. Methods that train a helper model (FIT, RETAIN) carry that cost in full."""

NOTES: Mapping[str, str] = {
    "hospital": (
        "The planted cells are the hours and channels in which a deterioration was drawn that raised the risk. "
        "Channels that never change in a stay are left out. Each seed is another hospital of 4,000 stays and another "
        "GRU; explained are stays of its test set with planted cells, at most the number in the table in each band of "
        "predicted risk."
    ),
    "rare-feature": (
        "The truth is 125 of 2,500 cells. Many methods order the cells perfectly here; what sets them apart is whether "
        "their mask says so (AUR, I/Imax, S)."
    ),
    "rare-time": (
        "As above, with five salient times instead of five salient features. With the text's momentum of 1 Algorithm 1 "
        "never settles: the area of the lowest error is about .02 in some series and .05 in others, hence the spread "
        "of `paper`'s AUR over the seeds."
    ),
    "state": (
        "The chain keeps its state with probability .95, as in the released code; the text's matrix has no memory. "
        "`nested-25`, `nested-20` and `nested-15` are the same fit cut at a smaller area than its own rule chooses, "
        "where a third of the cells is salient: the trade-off of recall for precision. `extrmask` is ExtrMask as "
        "published (mean squared error of the logits, both penalties 1), `extrmask-sum` the same with the "
        "cross-entropy summed over the steps, which keeps more cells."
    ),
    "perturbation": (
        "Three operators on the state experiment: the Gaussian blur pi^g (sigma 1), the fade to the moving average "
        "pi^m (W = 3), the fade to the past average pi^p (W = 6). Agreement is the share of cells on which two masks, "
        "cut at .5, agree. CPU seconds are those of all three fits."
    ),
    "mimic": (
        "No truth is known: the best share of the cells goes to the channel's mean over time, and the prediction is "
        "compared with the old one. CE and ACC ask which cells the answer falls without, CPD and CPP which cells move "
        "it, whichever way. `nested` answers the first by its `deletion_ranking`, the second by its "
        "`change_ranking`; methods with a sign stand in two rows, with it for the first question and without it for "
        "the second. "
        "`nested-deletion` is a fit to the first question alone. What replaces a cell is the same for all methods; "
        "`ig_mean`, `ig_mean_signed` and `fo_mean` are given it as their baseline. The scope is each instance by "
        "itself, or the whole batch, as in the released code."
    ),
    "motif": "One answer a sequence; eight salient cells in a thousand. Not an experiment of the paper.",
}

CURVES: Mapping[str, str] = {
    "error": "Error with the best share of the cells alone, over the error with none",
    "ce": "CE against area, each instance by itself",
    "acc": "ACC against area, each instance by itself",
    "ce_batch": "CE against area, over the whole batch",
    "acc_batch": "ACC against area, over the whole batch",
}
