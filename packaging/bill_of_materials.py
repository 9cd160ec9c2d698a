"""The bill of materials that the build puts into the wheel (PEP 770): CycloneDX 1.6, made of what pyproject.toml declares.

The wheel holds no other project's code; what an installer brings along is named with the versions that are allowed,
and not the one that it will choose. Extras that are for work on this project alone are left out.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.builders.utils import get_reproducible_timestamp
from hatchling.metadata.core import ProjectMetadata


class BillOfMaterials(BuildHookInterface[Any]):
    """Writes the bill beside the build, which takes it in."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write it; an editable install is no wheel that goes anywhere, and has none."""
        self._folder = Path(tempfile.mkdtemp())
        if version == "editable":
            return
        path = self._folder / f"{self.metadata.core.name}.cdx.json"
        path.write_text(json.dumps(bill(self.metadata, self.config["not-shipped"]), indent=2) + "\n", encoding="utf-8")
        build_data["sbom_files"].append(str(path))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002 - hatch's
        """Leave nothing behind."""
        shutil.rmtree(self._folder)


def bill(metadata: ProjectMetadata[Any], not_shipped: list[str]) -> dict[str, Any]:
    """Return the bill of a project: itself, what it requires, and what its extras do."""
    core = metadata.core
    itself = f"pkg:pypi/{core.name}@{metadata.version}"
    components = {name: component(requirement, "required") for name, requirement in core.dependencies_complex.items()}
    for extra, requirements in core.optional_dependencies_complex.items():
        if extra in not_shipped:
            continue
        for name, requirement in requirements.items():
            components.setdefault(name, component(requirement, "optional"))["properties"].append(
                {"name": "python:extra", "value": extra}
            )
    listed = [components[name] for name in sorted(components)]
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, itself + json.dumps(listed))}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(get_reproducible_timestamp(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "lifecycles": [{"phase": "build"}],
            "component": {
                "type": "library",
                "bom-ref": itself,
                "name": core.name,
                "version": metadata.version,
                "description": core.description,
                "licenses": [{"license": {"id": core.license_expression}}],
                "purl": itself,
            },
        },
        "components": listed,
        "dependencies": [{"ref": itself, "dependsOn": [each["bom-ref"] for each in listed]}]
        + [{"ref": each["bom-ref"]} for each in listed],
        # What those require in turn is not looked up.
        "compositions": [
            {"aggregate": "complete", "assemblies": [itself]},
            {"aggregate": "incomplete", "dependencies": [each["bom-ref"] for each in listed]},
        ],
    }


def component(requirement: Any, scope: str) -> dict[str, Any]:
    """Return one requirement as a component, with the versions that are allowed."""
    purl = f"pkg:pypi/{requirement.name.lower()}"
    return {
        "type": "library",
        "bom-ref": purl,
        "name": requirement.name,
        "scope": scope,
        "purl": purl,
        "properties": [{"name": "python:requires", "value": str(requirement)}],
    }
