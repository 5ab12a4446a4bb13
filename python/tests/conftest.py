"""Each test begins and ends without exported tensors and without borrowed ones."""

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
