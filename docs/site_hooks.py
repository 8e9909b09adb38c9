"""What the site needs beyond Markdown: pages that lie at the top of the repository, and links to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
# page of the site -> file of the repository
TOP = {"security.md": "SECURITY.md", "changelog.md": "CHANGELOG.md"}


def on_files(files: Any, config: Any) -> Any:
    """Add the files at the top of the repository as pages."""
    from mkdocs.structure.files import File

    for page, source in TOP.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links to files at the top, and from there into docs, become links within the site."""
    for target, source in TOP.items():
        markdown = markdown.replace(f"](../{source})", f"]({target})").replace(f"]({source})", f"]({target})")
    if page.file.src_uri in TOP:
        markdown = markdown.replace("](docs/", "](")
    return markdown
