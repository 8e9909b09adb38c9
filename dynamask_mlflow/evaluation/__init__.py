"""Sequences, and what is measured about a model's masks of them, without MLflow.

The evaluator, the shards of an audit, the demo and the experiments all explain and score with this package.
"""
