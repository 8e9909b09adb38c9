"""A shard is fitted again when the code behind its numbers has changed, and only then."""

import pytest
from edited_source import edited_source

from dynamask_mlflow.audit.shards import code_version


def version_with(monkeypatch: pytest.MonkeyPatch, changed: str, old: str, new: str, method: str) -> str:
    """The version of the code with one text in one file replaced by another."""
    with edited_source(monkeypatch, changed, old, new):
        return str(code_version.__wrapped__(method))


@pytest.mark.parametrize(
    ("changed", "old", "new", "felt"),
    [
        ("audit/statistics/marginals.py", "return ", "return 0 or ", {"nested", "ig"}),
        ("evaluation/scoring.py", "return ", "return 0 or ", {"nested", "ig"}),
        ("metrics/information.py", "return ", "return 0 or ", {"nested", "ig"}),
        ("masks/ordering.py", "import annotations\n", "import annotations\n# a comment\n", set()),
        ("masks/ordering.py", "return ", "return 0 or ", {"nested"}),
        ("saliency/gradients.py", "return ", "return 0 or ", {"ig"}),
        ("audit/verdict/evaluate.py", "return ", "return 0 or ", set()),
        ("audit/config.py", "effect: Share = 0.02", "effect: Share = 0.03", set()),
    ],
)
def test_only_code_that_is_used_counts(
    changed: str, old: str, new: str, felt: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    edited = {method: version_with(monkeypatch, changed, old, new, method) for method in ("nested", "ig")}
    assert {method for method, version in edited.items() if version != code_version(method)} == felt
