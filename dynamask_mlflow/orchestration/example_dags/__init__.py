"""DAG files to start from: point Airflow at this folder, or copy them. Settings come from DYNAMASK_* variables."""
