"""The paper's experiments and ours: data with known salient cells, models trained on it, protocols and
tables.
"""
