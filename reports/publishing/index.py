"""index.html of the folder of published reports, made from what lies in it."""

from __future__ import annotations

from pathlib import Path

from .. import export
from . import publication
from .publication import Publication

TEMPLATES = Path(__file__).parent
INDEX = "index.html"
PICTURES = ("speed.png", "usage.png")  # of a publication that names none
LISTED = (*export.MAIN, publication.FILE)  # what a line leads to: the first of these that is there


def write(into: Path) -> list[str]:
    """Write it; returns a line for each folder that holds a publication which cannot be read. Raises OSError."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    publications, unreadable = listed(into)
    environment = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined)
    html = environment.get_template("published.html.j2").render(publications=publications, unreadable=unreadable)
    part = into / f".{INDEX}.part"
    export.write_text(part, html + "\n")
    part.replace(into / INDEX)
    return unreadable


def listed(into: Path) -> tuple[list[tuple[Publication, str, str, str]], list[str]]:
    """([(publication, its folder's name, the file to open, the picture to show)], a line for each that cannot be read);
    newest first, "" without a picture.
    """
    publications, unreadable = [], []
    for path in sorted(into.glob(f"*/{publication.FILE}")):
        folder = path.parent
        if folder.name.startswith("."):
            continue
        try:
            facts = publication.read(path)
        except ValueError as error:
            unreadable.append(f"{folder.name}: {publication.FILE}: {error}")
            continue
        file = next(name for name in LISTED if (folder / name).exists())
        picture = next((name for name in (facts.picture, *PICTURES) if name and (folder / name).is_file()), "")
        publications.append((facts, folder.name, file, picture))
    return sorted(publications, key=lambda entry: (entry[0].first_day, entry[1]), reverse=True), unreadable
