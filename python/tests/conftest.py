"""Each test begins and ends without exported tensors and without borrowed ones."""

from __future__ import annotations

import gc
import signal

import pytest
import weir

# A shell lets commands in its background ignore the signal, which tests and their children send.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def nothing_left():
    gc.collect()
    before = weir.usage()
    assert before["exported"] == 0 and before["foreign_bytes"] == 0, "the test before has left something"
    yield
