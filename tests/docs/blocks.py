"""The code blocks of a Markdown page, and how they are run.

A block that cannot run has a comment on the line before it: `<!-- not run: the reason -->`;
one that `tests/orchestration` runs on a real scheduler has `<!-- run: scheduler -->`. In a page that a command
writes, all blocks may be covered by one comment: `<!-- blocks not run: the reason -->`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner

from dynamask_mlflow.cli import main

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
_NOT_RUN = re.compile(r"<!-- not run: *(.*?) *-->\s*$")
_ON_A_SCHEDULER = "<!-- run: scheduler -->"
_PAGE_NOT_RUN = re.compile(r"<!-- blocks not run: *(.*?) *-->")
SHELLS = ("bash", "sh", "console")
VERDICTS = (0, 1, 2, 4)  # what an audit may end with; 3 is an error


@dataclass(frozen=True)
class Block:
    """One fenced block: where it is, its language, its text, and why it is not run."""

    page: str
    line: int
    language: str
    text: str
    not_run: str | None = None


def pages() -> list[str]:
    """README and every page in docs."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [str(path.relative_to(ROOT)) for path in found if path.is_file()]


def blocks_of(page: str) -> list[Block]:
    text = (ROOT / page).read_text(encoding="utf-8")
    whole = _PAGE_NOT_RUN.search(text)
    found = []
    for match in _FENCE.finditer(text):
        before = text[: match.start()].rstrip(" \n")
        marked = _NOT_RUN.search(before) or whole
        reason = marked.group(1) if marked else None
        if before.endswith(_ON_A_SCHEDULER):
            reason = "tests/orchestration runs it"
        indent = match.group(1)
        body = "\n".join(line.removeprefix(indent) for line in match.group(3).splitlines())
        found.append(Block(page, text.count("\n", 0, match.start()) + 1, match.group(2), body, reason))
    return found


def run_block(block: Block, names: dict[str, Any], export: Callable[[str, str], None]) -> None:
    """Run Python in `names`, shell commands of ours in this process with `export`ed variables, and read YAML."""
    if block.language == "python":
        source = "\n" * block.line + block.text
        exec(compile(source, str(ROOT / block.page), "exec"), names)
    elif block.language in SHELLS:
        for command in commands_of(block):
            _run_command(command, block, export)
    elif block.language == "yaml":
        yaml.safe_load(block.text)


def commands_of(block: Block) -> list[list[str]]:
    """The lines of a shell block as words, with continued lines joined and comments left out."""
    joined = re.sub(r"\\\n\s*", " ", block.text)
    lines = [shlex.split(line.removeprefix("$ "), comments=True) for line in joined.splitlines()]
    return [words for words in lines if words]


def _run_command(words: list[str], block: Block, export: Callable[[str, str], None]) -> None:
    where = f"{block.page}:{block.line}"
    if words[0] == "export":
        for pair in words[1:]:
            export(*pair.split("=", 1))
        return
    assert words[0] == "dynamask-mlflow", f"{where}: mark the block as not run, with the reason: {words}"
    done = CliRunner().invoke(main, words[1:])
    allowed = VERDICTS if words[1] in ("audit", "gate") else (0,)
    assert done.exit_code in allowed, f"{where}: {words}: {done.output}"
    assert "Usage:" not in done.output, f"{where}: {done.output}"
