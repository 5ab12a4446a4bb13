"""The programs of the documents run."""

from __future__ import annotations

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCKS = [
    pytest.param(text, id=f"{path}-{i}")
    for path in ("README.md", "docs/python.md", "python/README.md")
    for i, text in enumerate(re.findall(r"^```python\n(.*?)^```", (ROOT / path).read_text(), re.M | re.S))
]


@pytest.mark.parametrize("text", BLOCKS)
def test_block(text, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    exec(compile(text, "document", "exec"), {"__name__": "document"})


def test_there_are_blocks():
    assert len(BLOCKS) >= 5
