"""What talks to MLflow: the dataset, the flavor, the evaluator. Builds on masks and metrics.

Nothing is imported here: the dataset module is loaded with every `import mlflow`, and must stay light.
"""
