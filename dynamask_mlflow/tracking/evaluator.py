"""The entry point of the `dynamask` evaluator. Imported by every `mlflow.models.evaluate`: keep it light.

An error while this module is imported would break the evaluations of everybody on the machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlflow.models.evaluation.base import EvaluationResult, ModelEvaluator

from dynamask_mlflow._logs import say
from dynamask_mlflow._secrets import without_secrets
from dynamask_mlflow.evaluation.config import EvaluationConfig, own_keys

NAME = "dynamask"
OWN_TYPES = ("sequence-classifier", "sequence-regressor")
SHARED_TYPES = ("classifier", "regressor")

# With evaluators=None one flat configuration goes to every evaluator; these keys are for MLflow's own.
_KEYS_OF_OTHERS = frozenset(
    {
        "average",
        "col_mapping",
        "eval_results_mode",
        "eval_results_path",
        "explainability_algorithm",
        "explainability_kernel_link",
        "explainability_nsamples",
        "label_list",
        "log_explainer",
        "log_model_explainability",
        "max_classes_for_multiclass_roc_pr",
        "metric_prefix",
        "pos_label",
        "retriever_k",
        "sample_weights",
    }
)

_said: set[str] = set()


class DynamaskEvaluator(ModelEvaluator):
    """Explains a sample of a sequence dataset and logs masks, metrics and a report."""

    @classmethod
    def can_evaluate(
        cls, *, model_type: str | None, evaluator_config: dict[str, Any] | None = None, **kwargs: Any
    ) -> bool:
        """MLflow shows no data here: ours and the shared types are taken, and `evaluate` looks closer."""
        config = _own_part(evaluator_config)
        if config.get("enabled") is False:
            return False
        return model_type in OWN_TYPES + SHARED_TYPES or (model_type is None and bool(own_keys(config)))

    def evaluate(
        self,
        *,
        model_type: str | None,
        dataset: Any,
        run_id: str,
        evaluator_config: dict[str, Any] | None = None,
        model: Any = None,
        model_id: str | None = None,
        **kwargs: Any,
    ) -> EvaluationResult | None:
        """None (and one line on stderr) for anything that is not about sequences or has no model."""
        config = {k: v for k, v in _own_part(evaluator_config).items() if k not in _KEYS_OF_OTHERS}
        if not hasattr(dataset, "sequences"):
            self._skip_other_data(model_type, config)
            return None
        from mlflow.exceptions import MlflowException

        from dynamask_mlflow.tracking.evaluate_run import run_evaluation
        from dynamask_mlflow.tracking.open_network import NoGradientsError

        try:
            return run_evaluation(
                model=model,
                model_type=model_type,
                model_id=model_id,
                dataset=dataset,
                run_id=run_id,
                options=config,
            )
        except NoGradientsError as reason:
            say(f"dynamask: nothing was explained: {reason}. Pass the model itself, as model=.")
            return None
        except ValueError as error:
            raise MlflowException.invalid_parameter_value(f"dynamask: {without_secrets(error)}") from error

    @staticmethod
    def _skip_other_data(model_type: str | None, config: dict[str, Any]) -> None:
        # `evaluators=None` on somebody's table looks the same as asking for us: say it once, not each time.
        if own_keys(config) or model_type in OWN_TYPES or "data" not in _said:
            _said.add("data")
            say(
                "dynamask: nothing was explained: the data are not sequences. Build them with "
                "mlflow.data.from_sequences or from_long_frame, or switch this evaluator off with "
                'evaluator_config={"dynamask": {"enabled": False}}.'
            )


def _own_part(config: Mapping[str, Any] | None) -> dict[str, Any]:
    """The settings of this evaluator, given flat or under its name, as a list of evaluators wants them."""
    given = dict(config or {})
    own = given.pop(NAME, None)
    if own is None:
        return given
    if not isinstance(own, Mapping):
        raise ValueError(f"Expected settings as a mapping under {NAME!r}, but got {own!r}.")
    return {**{k: v for k, v in given.items() if k != "default"}, **own}


__all__ = ["DynamaskEvaluator", "EvaluationConfig"]
