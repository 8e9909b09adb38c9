"""Kinds of registered models, each evaluated by `mlflow.models.evaluate` on data whose salient cells are known.

A kind is an `Entry`: how it is trained and registered, and on which planted data it is evaluated. To add one, append it
to the ENTRIES of a module that `entry.MODULES` names.
"""
