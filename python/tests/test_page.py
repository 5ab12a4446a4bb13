"""Pages of memory plans."""

from __future__ import annotations

import html
import json
import re

import pytest
import weir

DIGITS = "../examples/digits/data/digits.onnx"
ATTACK = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"


@pytest.fixture(scope="module")
def program(pytestconfig):
    with weir.compile(pytestconfig.rootpath / DIGITS, calls=2) as program:
        yield program


def data(page):
    """The data that the page's script reads."""
    text = re.search(r'id="data">(.*?)</script>', str(page), re.S).group(1)
    return json.loads(text)["plans"][0]


def test_totals(program):
    page = weir.plan_html(program, title="digits", batch=64)
    drawn = data(page)
    assert drawn["name"] == "digits" and drawn["plan"]["dims"] == {"batch": 64}
    assert drawn["plan"]["peak_bytes"] == program.memory.peak(batch=64)
    assert drawn["formulas"]["arena"] == program.memory.parts["arena"]
    assert not drawn.get("notes")
    assert all(0 <= b["offset"] and b["bytes"] > 0 for b in drawn["plan"]["buffers"])


def test_self_contained(program):
    page = str(weir.plan_html(program))
    assert page.startswith("<!doctype html>") and page.rstrip().endswith("</html>")
    assert not re.search(r"(?i)(src|href|url|import|fetch|xmlhttp)\s*[=(]", page) and "://" not in page
    assert "default-src 'none'" in html.unescape(page)


def test_free_dimensions(program):
    drawn = data(weir.plan_html(program))
    assert drawn["plan"]["dims"].keys() == {"batch"}
    assert len(drawn["notes"]) == 1 and "batch" in drawn["notes"][0] and "--dim" not in drawn["notes"][0]


def test_notebook(program):
    page = weir.plan_html(program, batch=2)
    frame = page._repr_html_()
    assert frame.count("<") == 2, "the page is not escaped in the frame"
    assert html.unescape(re.search(r'srcdoc="([^"]*)"', frame).group(1)) == str(page)
    assert 'sandbox="allow-scripts"' in frame and "allow-same-origin" not in frame
    assert len(repr(page)) < 100


@pytest.mark.parametrize("attack", [ATTACK, "\"'><svg onload=alert(3)>", "{{alert(4)}}", "\u2028-->]]>", "\ud800"])
def test_hostile_title(program, attack):
    page = str(weir.plan_html(program, title=attack, batch=1))
    assert page.count("<script") == 2 and "<img" not in page and "<svg" not in page
    assert data(page)["name"] == attack.encode(errors="replace").decode()


def varint(n):
    return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)


def field(number, value):
    """A field of protobuf: a number, or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def test_hostile_model():
    """The names of nodes and tensors in an ONNX model may be hostile."""
    names = [ATTACK + str(i) for i in range(3)]

    def value(name):
        shape = field(2, field(1, field(1, 4)))
        return field(1, name) + field(2, field(1, field(1, 1) + shape))

    nodes = b"".join(field(1, field(1, names[i]) + field(2, names[i + 1]) + field(3, f"node {ATTACK}") + field(4, "Exp")) for i in range(2))
    graph = nodes + field(2, ATTACK) + field(11, value(names[0])) + field(12, value(names[2]))
    model = field(1, 8) + field(7, graph) + field(8, field(2, 17))
    with weir.compile(model) as program:
        page = str(weir.plan_html(program))
    assert page.count("<script") == 2 and "<img" not in page
    assert ATTACK in json.dumps(data(page)["plan"])


def test_errors(program):
    with pytest.raises(weir.InputError, match="no dimension .nothing"):
        weir.plan_html(program, nothing=3)
    with pytest.raises(weir.InputError):
        weir.plan_html(program, batch=-1)
    with pytest.raises(weir.InputError):
        weir.plan_html(program, batch="two")
    closed = weir.compile(b"weir 1\nir @m {\n  main @main(%x: f32[2]) {\n    return %x\n  }\n}\n")
    closed.close()
    with pytest.raises(weir.ClosedError):
        weir.plan_html(closed)
