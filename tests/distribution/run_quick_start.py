"""Runs the quick start of README.md (the block after `<!-- quick start -->`) with the package that is on the path."""

import re
import sys
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def quick_start() -> str:
    found = re.search(r"<!-- quick start -->\n```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    if found is None:
        raise SystemExit("Expected a quick start in README.md, but there is no Python block after its mark.")
    return found.group(1)


if __name__ == "__main__":
    if "--without-airflow" in sys.argv:
        sys.modules["airflow"] = None  # type: ignore[assignment]  # an import of it fails, as where it is not installed
    exec(compile(quick_start(), "README.md", "exec"), {"__name__": "__main__"})
    import dynamask_mlflow

    sys.stdout.write(f"{Path(dynamask_mlflow.__file__).parent}\n")
