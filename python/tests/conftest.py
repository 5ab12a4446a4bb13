"""Each test begins, and must end, with nothing given away and nothing taken."""

from __future__ import annotations

import gc

import pytest
import weir


@pytest.fixture(autouse=True)
def nothing_left():
    gc.collect()
    before = weir.usage()
    assert before["exported"] == 0 and before["foreign_bytes"] == 0, "the test before has left something"
    yield
