"""mkdocs' side of the site: it builds what `make_pages` wrote, and refuses pages that ask another host for something.

No page is changed here, so that another generator that reads mkdocs.yml can take the same folder.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError

sys.path.insert(0, str(Path(__file__).parent))
import make_pages


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Write the pages, and let mkdocs read them there."""
    assert config.nav is not None
    make_pages.make_pages()
    config.docs_dir = str(make_pages.TARGET)
    config.nav = make_pages.navigation(config.nav)
    return config


_ASKED = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?(?:https?:)?//"""
    r"""|<link\b(?![^>]*\brel=["']?(?:canonical|prev|next))[^>]*\bhref=["']?(?:https?:)?//"""
)


def on_post_build(config: MkDocsConfig) -> None:
    """Fail if a page makes a browser ask another host: the documentation is read without a network."""
    pages = sorted(Path(config.site_dir).rglob("*.html"))
    asking = [f"{page.name}: {match[0]}" for page in pages for match in _ASKED.finditer(page.read_text("utf-8"))]
    if asking:
        raise PluginError(f"{len(asking)} places ask another host: {'; '.join(asking[:5])}")
