"""What the documentation site needs beyond docs/: the pages at the root, and links between both.

A hook of mkdocs; see mkdocs.yml.  The files are written to be read in the repository: links in docs/
lead to `../CHANGELOG.md`, and links at the root to `docs/…`.  On the site all pages are side by side.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
AT_THE_ROOT = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
NOT_ON_THE_SITE = re.compile(r"\[([^\]]+)\]\((?:\.\./)?(?:README\.md|LICENSE|examples/[^)]*)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for name in AT_THE_ROOT:
        files.append(File.generated(config, name, content=(ROOT / name).read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    plain = NOT_ON_THE_SITE.sub(r"\1", markdown)
    if page.file.src_uri in AT_THE_ROOT:
        return plain.replace("](docs/", "](")
    return plain.replace("](../", "](")
