"""Common parts of the pages: names of their files, style, templates, the colours of values."""

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from ..errors import InputError

Color = tuple[int, int, int]
Palette = Literal["green-red", "blue-orange"]

_PAGES = (".html", ".htm")
_LARGEST_PAGE = 100_000  # characters, each an HTML element; browsers are slow beyond
MIDDLE = (38, 38, 38)
# In a terminal and a notebook: backgrounds on which white letters have contrast 5 : 1.
# The second pair is for people who cannot tell green from red; blue is high, as in the demo.
PALETTES: dict[Palette, tuple[Color, Color]] = {
    "green-red": ((176, 32, 44), (14, 112, 56)),
    "blue-orange": ((178, 84, 0), (31, 95, 168)),
}


def background(value: float, limit: float, palette: Palette = "green-red") -> Color:
    """Return the colour of a value on a scale from -limit to limit; values beyond are cut."""
    pole = PALETTES[palette][value > 0]
    strength = min(abs(value) / limit, 1.0)
    red, green, blue = (
        round(middle + (end - middle) * strength) for middle, end in zip(MIDDLE, pole, strict=True)
    )
    return red, green, blue


_STYLE = Path(__file__).with_name("page.css")


def page_style() -> str:
    """Return the style of all pages: light and dark, phones, characters coloured by value."""
    return _STYLE.read_text(encoding="utf-8").strip()


def fill(template: str, content: Mapping[str, str]) -> str:
    """Replace each {{name}} of a template by its content, which is HTML already."""
    # In one pass, so that a text that looks like a placeholder is not replaced.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: content[match[1]], template)


def script_digest(template: str) -> str:
    (script,) = re.findall(r"<script>(.*?)</script>", template, flags=re.DOTALL)
    return content_digest(script)


def content_digest(text: str) -> str:
    """Return the hash of a script or style for a page's content security policy."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def shade(value: float, limit: float) -> str:
    """Return the attributes that colour an element by a value, on a scale from -limit to limit."""
    strength = max(-1.0, min(value / limit, 1.0))
    side = "high" if strength > 0 else "low"
    return f'class="{side}" style="--share:{abs(strength):.3f}"'


def script_safe(content: Mapping[str, Any]) -> str:
    """Return JSON that is safe inside an HTML element."""
    return json.dumps(content, allow_nan=False).replace("<", "\\u003c").replace("&", "\\u0026")


def check_outputs(paths: Sequence[Path], texts: Sequence[str]) -> None:
    """Raise InputError for an unknown suffix, or a size too large to show."""
    size = sum(map(len, texts))
    for path in paths:
        if path.suffix.lower() not in (*_PAGES, ".json"):
            raise InputError(f"{path}: the name must end in .html or .json")
        if path.suffix.lower() != ".json" and size > _LARGEST_PAGE:
            raise InputError(
                f"{path}: {size:,} characters are more than a page can show ({_LARGEST_PAGE:,}); "
                "give fewer texts, or a name that ends in .json"
            )
