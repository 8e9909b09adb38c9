"""The paper's GRU on a built dataset: the network, the loop, the scores, and its way into the registry.

Only `register` speaks to MLflow. Public names load on first use.
"""

from typing import TYPE_CHECKING

from dynamask_mlflow._lazy import lazy_names

if TYPE_CHECKING:
    from dynamask_mlflow.training.config import TrainConfig
    from dynamask_mlflow.training.loop import Epoch, Fit, fit, predict
    from dynamask_mlflow.training.model import GRUClassifier
    from dynamask_mlflow.training.register import Registered, train_and_register
    from dynamask_mlflow.training.scores import calibration, score

_HOMES = {
    "Epoch": "loop",
    "Fit": "loop",
    "GRUClassifier": "model",
    "Registered": "register",
    "TrainConfig": "config",
    "calibration": "scores",
    "fit": "loop",
    "predict": "loop",
    "score": "scores",
    "train_and_register": "register",
}

__all__ = [
    "Epoch",
    "Fit",
    "GRUClassifier",
    "Registered",
    "TrainConfig",
    "calibration",
    "fit",
    "predict",
    "score",
    "train_and_register",
]

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
