"""A shard is fitted again when the code behind its numbers has changed, and only then."""

from pathlib import Path

import pytest

from dynamask_mlflow._provenance import forget_files
from dynamask_mlflow.audit.shards import code_version


def version_with(monkeypatch: pytest.MonkeyPatch, changed: str, old: str, new: str, method: str) -> str:
    """The version of the code with one text in one file replaced by another."""
    read = Path.read_text

    def edited(path: Path, *args: object, **options: object) -> str:
        text = read(path, *args, **options)  # type: ignore[arg-type]
        if str(path).endswith(f"dynamask_mlflow/{changed}"):
            assert old in text
            text = text.replace(old, new)
        return text

    forget_files()
    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_text", edited)
        made = code_version.__wrapped__(method)
    forget_files()
    return str(made)


@pytest.mark.parametrize(
    ("changed", "old", "new", "felt"),
    [
        ("audit/statistics/marginals.py", "return ", "return 0 or ", {"nested", "ig"}),
        ("evaluation/scoring.py", "return ", "return 0 or ", {"nested", "ig"}),
        ("metrics/information.py", "return ", "return 0 or ", {"nested", "ig"}),
        ("masks/ordering.py", "import annotations\n", "import annotations\n# a comment\n", set()),
        ("masks/ordering.py", "return ", "return 0 or ", {"nested"}),
        ("saliency/gradients.py", "return ", "return 0 or ", {"ig"}),
        ("audit/evaluate_verdict.py", "return ", "return 0 or ", set()),
        ("audit/config.py", "effect: Share = 0.02", "effect: Share = 0.03", set()),
    ],
)
def test_only_code_that_is_used_counts(
    changed: str, old: str, new: str, felt: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    edited = {method: version_with(monkeypatch, changed, old, new, method) for method in ("nested", "ig")}
    assert {method for method, version in edited.items() if version != code_version(method)} == felt
