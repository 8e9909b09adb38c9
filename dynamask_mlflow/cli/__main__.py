"""`python -m dynamask_mlflow.cli`: the command line."""

from dynamask_mlflow.cli import main

main(prog_name="dynamask-mlflow")
