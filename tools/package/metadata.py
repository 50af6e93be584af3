"""What importlib.metadata, pip and pytest find of the Python package where no wheel has brought it: the same as in a wheel, from python/pyproject.toml."""

from __future__ import annotations

from collections.abc import Iterator

from . import place
from .place import tomllib


def folder() -> str:
    """Its name, beside the package."""
    return f"{place.NAME.replace('-', '_')}-{place.version()}.dist-info"


def files(installer: str) -> dict[str, str]:
    """Texts by name. There is no RECORD: pip leaves alone what others have installed, and says who."""
    project = tomllib.loads((place.ROOT / "python/pyproject.toml").read_text())["project"]
    readme = (place.ROOT / "python" / project["readme"]).read_text()
    points = [f"[{group}]\n" + "".join(f"{name} = {what}\n" for name, what in sorted(names.items())) for group, names in sorted(project["entry-points"].items())]
    return {"METADATA": "\n".join(_fields(project)) + f"\n\n{readme}", "entry_points.txt": "\n".join(points), "INSTALLER": f"{installer}\n"}


def _fields(project: dict) -> Iterator[str]:
    yield "Metadata-Version: 2.4"
    yield f"Name: {project['name']}"
    yield f"Version: {project['version']}"
    yield f"Summary: {project['description']}"
    yield f"License-Expression: {project['license']}"
    yield f"Requires-Python: {project['requires-python']}"
    yield from (f"Requires-Dist: {needed}" for needed in sorted(project["dependencies"]))
    for extra, wanted in sorted(project["optional-dependencies"].items()):
        yield f"Provides-Extra: {extra}"
        yield from (f"Requires-Dist: {needed}; extra == '{extra}'" for needed in sorted(wanted))
    yield "Description-Content-Type: text/markdown"
