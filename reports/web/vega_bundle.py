"""Takes the plotting library from an installed package; nothing of it is part of this project."""

from __future__ import annotations

import functools
from typing import Any

from reports.errors import LibraryMissing

NAME = "kernelBridgeEmbed"
"""The name that the library gets in the page."""

INSTALL = 'python -m pip install "kernel-bridge[report]"'


@functools.cache
def vega_script() -> str:
    """Returns Vega, Vega-Lite and vega-embed as one script that loads nothing.

    Raises:
        LibraryMissing: The package is not installed, or what it returns cannot stand in a page.
    """
    script = str(_package().javascript_bundle(f"window.{NAME} = vegaEmbed;"))
    # The page holds the script as text. These would end it, or begin a comment.
    for unsafe in ("</script", "<!--"):
        if unsafe in script.lower():
            raise LibraryMissing(
                f"the installed vl-convert-python has {unsafe!r} in its script. Install another version."
            )
    return script


def svg_of(spec: dict[str, Any]) -> str:
    """Returns a chart as SVG, drawn without a browser by the same library.

    Args:
        spec: A description in Vega-Lite, with its data.

    Raises:
        LibraryMissing: The package is not installed.
    """
    return str(_package().vegalite_to_svg(spec))


def _package() -> Any:
    try:
        import vl_convert
    except ImportError as error:
        raise LibraryMissing(
            f"the charts need vl-convert-python, which is not installed. Install it: {INSTALL}"
        ) from error
    return vl_convert
