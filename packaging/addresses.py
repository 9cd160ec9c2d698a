"""The project's addresses, and the README as a package index shows it, from the address of the repository.

Only the host that builds a release knows that address: the release workflow sets ``PROJECT_URL``, and whoever builds the
release again sets the same. Links of the README lead from file to file of the repository. On a package index they would
lead nowhere, so there they name the files of the version's tag. Without ``PROJECT_URL`` nothing is changed or added.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_RELATIVE_LINK = re.compile(r"\]\((?!https?://|#|mailto:)([^)\s]+)\)")


class Addresses(MetadataHookInterface):
    """Sets `urls` and `readme`, which pyproject.toml names as dynamic."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Add both fields."""
        url = os.environ.get("PROJECT_URL", "").rstrip("/")
        readme = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["urls"] = addresses(url, metadata["version"]) if url else {}
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": with_absolute_links(readme, url, metadata["version"]) if url else readme,
        }


def addresses(url: str, version: str) -> dict[str, str]:
    """Return the addresses that a package index lists, under the labels that it knows."""
    files = f"{url}/blob/v{version}"
    return {
        "Source": url,
        "Documentation": f"{files}/docs/index.md",
        "Changelog": f"{files}/CHANGELOG.md",
        "Issues": f"{url}/issues",
        "Security": f"{url}/security/policy",
    }


def with_absolute_links(text: str, url: str, version: str) -> str:
    """Return Markdown whose relative links lead to the files of a version's tag."""
    return _RELATIVE_LINK.sub(rf"]({url}/blob/v{version}/\1)", text)
