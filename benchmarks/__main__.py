"""Run every benchmark on one thread, print a table, write JSON: `python -m benchmarks [names] [--output FILE]`.

`--page FILE` also writes the tables as Markdown, each below its module's text; benchmarks that are on the page but were
not run now stay as they are.

A benchmark is a module of this package with a function `run() -> dict`: row -> column -> value, or column ->
value where there is one row.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

import benchmarks

Rows = Mapping[str, Mapping[str, Any]]


def names() -> list[str]:
    """Modules that have a `run`, in alphabetical order."""
    found = (module.name for module in pkgutil.iter_modules(benchmarks.__path__) if module.name != "__main__")
    return sorted(name for name in found if hasattr(importlib.import_module(f"benchmarks.{name}"), "run"))


def as_rows(result: Mapping[str, Any]) -> Rows:
    return result if all(isinstance(row, Mapping) for row in result.values()) else {"": result}


def as_text(rows: Rows) -> str:
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    table = [["", *columns]]
    table += [[name, *(_format(row.get(column, "")) for column in columns)] for name, row in rows.items()]
    widths = [max(len(line[i]) for line in table) for i in range(len(table[0]))]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in table)


def _format(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def as_markdown(rows: Rows) -> str:
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    lines = ["| | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    lines += [
        f"| {name} | " + " | ".join(_format(row.get(c, "")) for c in columns) + " |" for name, row in rows.items()
    ]
    return "\n".join(lines)


def page(results: Mapping[str, Any], before: str = "") -> str:
    """All results as one Markdown page, with the sections of an earlier page that these do not replace."""
    about = ", ".join(f"{key} {value}" for key, value in results["machine"].items())
    sections = dict(re.findall(r"^## (\w+)\n\n(.*?)\s*(?=^## |\Z)", before, re.S | re.M))
    for name, result in results.items():
        if name != "machine":
            text = (importlib.import_module(f"benchmarks.{name}").__doc__ or "").strip()
            sections[name] = f"{text}\n\n{as_markdown(as_rows(result))}"
    parts = ["# Benchmarks", f"Made by `make bench`; not to be edited by hand. Machine: {about}."]
    parts += [f"## {name}\n\n{section}" for name, section in sorted(sections.items())]
    return "\n\n".join(parts) + "\n"


def machine() -> dict[str, str]:
    return {
        "processor": platform.processor() or platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": str(torch.get_num_threads()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Speed, measured on one thread.")
    parser.add_argument("names", nargs="*", help="benchmarks to run; default: all")
    parser.add_argument("--output", type=Path, default=Path("build/benchmarks.json"))
    parser.add_argument("--page", type=Path, help="write a Markdown page, too")
    arguments = parser.parse_args()
    known = names()
    chosen = arguments.names or known
    unknown = sorted(set(chosen) - set(known))
    if unknown:
        parser.error(f"Expected benchmarks of {', '.join(known)}, but got {', '.join(unknown)}.")
    torch.set_num_threads(1)
    results: dict[str, Any] = {"machine": machine()}
    for name in chosen:
        results[name] = importlib.import_module(f"benchmarks.{name}").run()
        print(f"\n{name}\n{as_text(as_rows(results[name]))}", flush=True)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n")
    if arguments.page is not None:
        before = arguments.page.read_text() if arguments.page.exists() else ""
        arguments.page.write_text(page(results, before))
    print(f"\nwritten to {arguments.output}")


if __name__ == "__main__":
    main()
