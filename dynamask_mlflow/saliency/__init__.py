"""The paper's other methods, and two more, behind the same verb as the masks: `explain(..., method="ig")`."""

from dynamask_mlflow.saliency.background import background

__all__ = ["background"]
