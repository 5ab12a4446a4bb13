"""What the engines call is nearly as fast as the program itself."""

from __future__ import annotations

import speed


def test_calls():
    """The bounds are lower than what speed.py prints on an idle machine, which is 0.92 and more."""
    shares = speed.calls()
    assert min(shares[16]) > 0.75 and min(shares[256]) > 0.85, shares
