"""The arena: tasks whose salient cells are known, trained models of them, and how well methods find the cells."""

from dynamask_mlflow.experiments.arena.case import arena_case
from dynamask_mlflow.experiments.arena.rows import CHOOSING_SEEDS, REPORTED_SEEDS, ROWS, Row

__all__ = ["CHOOSING_SEEDS", "REPORTED_SEEDS", "ROWS", "Row", "arena_case"]
