"""The programs of docs/scale.md for Ray and Spark run."""

from __future__ import annotations

import re

import pytest
import rows

BLOCKS = re.findall(r"^```python\n(.*?)^```", (rows.ROOT / "docs" / "scale.md").read_text(), re.M | re.S)
RAY = [block for block in BLOCKS if "weir.ray" in block]
SPARK = [block for block in BLOCKS if "weir.spark" in block]


def run(text):
    exec(compile(text, "docs/scale.md", "exec"), {"__name__": "document"})


@pytest.mark.parametrize("text", RAY, ids=range(len(RAY)))
def test_ray(ray, text, monkeypatch):
    monkeypatch.chdir(rows.ROOT)
    run(text)


@pytest.mark.parametrize("text", SPARK, ids=range(len(SPARK)))
def test_spark(spark, text, monkeypatch):
    monkeypatch.chdir(rows.ROOT)
    run(text)


def test_there_are_blocks():
    assert len(RAY) >= 2 and len(SPARK) >= 1
