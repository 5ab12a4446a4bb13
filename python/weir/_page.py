"""The memory plan of a program as a page, for notebooks and files."""

from __future__ import annotations

import ctypes
import html

from ._library import library
from ._program import Program, sizes_of


class Page:
    """One page of HTML that needs no other file and no network. str returns all of it; a notebook shows it in a frame.
    """

    __slots__ = ("_html",)

    def __init__(self, html: str) -> None:
        """For the package's own use: plan_html makes pages."""
        self._html = html

    def __str__(self) -> str:
        return self._html

    def __repr__(self) -> str:
        return f"<weir.Page of {len(self._html.encode())} bytes; str gives its HTML>"

    def _repr_html_(self) -> str:
        """The page in a frame of its own, whose script cannot access the notebook."""
        page = html.escape(self._html, quote=True)
        frame = 'sandbox="allow-scripts" width="100%" height="720" style="border:0" title="memory plan"'
        return f'<iframe {frame} srcdoc="{page}"></iframe>'


def plan_html(program: Program, /, *, title: str = "model", **dims: int) -> Page:
    """Draws a program's memory plan: every buffer as a rectangle of addresses by steps, beside the certificate's terms.

    A dimension that is not given is drawn at its upper bound, or at 1 if it has none; the page says so. Names in a model
    are shown as plain characters, whatever they contain.
    """
    text = ctypes.c_void_p()
    lib = library()
    name = title.encode(errors="replace")
    lib.check(lib.c.weir_plan_page(program._open(), name, sizes_of(dims), ctypes.byref(text)))
    return Page(lib.string(text))
