"""The pictures of the documentation are those of their source, and can be read on a light and on a dark page."""

import importlib.util
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

ROOT = Path(__file__).parents[1]

spec = importlib.util.spec_from_file_location("pictures", ROOT / "docs" / "site" / "pictures.py")
pictures = importlib.util.module_from_spec(spec)
spec.loader.exec_module(pictures)

LEAST_CONTRAST = 4.5  # WCAG 2.2, level AA


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_a_picture_is_fresh(name):
    """When it is not: ``python docs/site/pictures.py``."""
    assert (pictures.TARGET / name).read_text("utf-8") == pictures.PICTURES[name]().svg()


def test_every_picture_has_its_source_and_a_page():
    kept = {path.name for path in pictures.TARGET.iterdir()}
    shown = set(re.findall(r"pictures/(\w+\.svg)", "".join(page.read_text() for page in (ROOT / "docs").rglob("*.md"))))
    assert set(pictures.PICTURES) == kept == shown


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_a_picture_is_xml_with_a_title_and_asks_no_other_host(name):
    text = (pictures.TARGET / name).read_text("utf-8")
    root = ET.fromstring(text)
    assert root.get("aria-label") == root.find("{http://www.w3.org/2000/svg}title").text
    assert ["http://www.w3.org/2000/svg"] == re.findall(r"https?://[^\" ]+", text)


def luminance(colour):
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("dark", [False, True])
def test_texts_stand_out_from_what_is_behind_them(dark):
    light, _, dim = pictures._STYLE.partition("@media")
    fills = dict(re.findall(r"^ *(\S.*?) \{.*?fill: (#\w{6})", dim if dark else light, re.MULTILINE))
    behind = [fills[name] for name in ("rect", ".strong rect, rect.strong", ".bad rect, rect.bad", ".back")]
    assert min(contrast(fills["text"], colour) for colour in behind) >= LEAST_CONTRAST
    assert contrast(fills[".faint"], fills[".back"]) >= LEAST_CONTRAST


def test_a_text_that_leaves_its_box_or_the_page_is_refused():
    picture = pictures.Picture(100, 100, "small")
    with pytest.raises(ValueError, match="does not fit in its box"):
        picture.box(0, 0, 50, 30, ["far too long for it"])
    with pytest.raises(ValueError, match="does not fit on the page"):
        picture.text(50, 10, "far too long for it")
