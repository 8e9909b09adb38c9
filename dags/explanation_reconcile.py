"""The example DAG of the package, for a checkout. Airflow looks for the words airflow and dag in a file."""

from importlib.resources import files
from runpy import run_path

dag = run_path(str(files("dynamask_mlflow.orchestration.example_dags") / "explanation_reconcile.py"))["dag"]
