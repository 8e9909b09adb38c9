"""The mathematics of dynamic masks. Knows torch and numpy, and nothing of MLflow or Airflow."""
