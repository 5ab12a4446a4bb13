"""Common parts of the documents' pictures: SVG for light and dark backgrounds, whose colours follow the reader's
setting.
"""
import html

LIGHT = {"paper": "#ffffff", "ink": "#1c1b19", "soft": "#5f5c56", "grid": "#dedbd3", "line": "#b3261e",
         "s0": "#2b6cb0", "s1": "#c05d12", "s2": "#2f7d4f", "s3": "#8a4fa3", "s4": "#8a6d00"}
DARK = {"paper": "#16171a", "ink": "#e8e6e1", "soft": "#a5a4a0", "grid": "#33363c", "line": "#ff8a80",
        "s0": "#7fb2e8", "s1": "#f0a860", "s2": "#7fcf9b", "s3": "#d3a2e6", "s4": "#e3cf5f"}


def style(colours):
    return "svg { " + " ".join(f"--{name}: {colour};" for name, colour in colours.items()) + " }"


def page(wide, high, name, drawn):
    """A complete picture, with a description for readers who do not see it."""
    rules = "text { fill: var(--ink); } .soft { fill: var(--soft); } .grid { stroke: var(--grid); }"
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {high:.0f}" width="{wide:.0f}" height="{high:.0f}" '
                      f'font-family="system-ui, sans-serif" font-size="12" role="img" aria-label="{html.escape(name)}">',
                      f"<title>{html.escape(name)}</title>",
                      f"<style>{style(LIGHT)} @media (prefers-color-scheme: dark) {{ {style(DARK)} }} {rules}</style>",
                      f'<rect width="{wide:.0f}" height="{high:.0f}" rx="8" style="fill: var(--paper)"/>', *drawn, "</svg>", ""])


def text(x, y, words, anchor="start", kind="", colour=None):
    more = f' class="{kind}"' if kind else ""
    more += f' style="fill: var(--{colour})"' if colour else ""
    more += f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{more}>{html.escape(words)}</text>'


def line(x0, y0, x1, y1, colour="grid", more=""):
    return f'<line x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}" style="stroke: var(--{colour})"{more}/>'


def rows(document, title):
    """The rows of the table below a heading of a document, each a dict by the table's header; empty if there is none.
    """
    _, found, rest = document.partition(f"# {title}\n")
    if not found:
        return []
    lines = []
    for text in rest.splitlines():
        if text.startswith("#"):
            break
        if text.startswith("|"):
            lines.append([cell.strip() for cell in text.strip("|").split("|")])
    return [dict(zip(lines[0], cells)) for cells in lines[2:]] if lines else []
