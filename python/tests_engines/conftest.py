"""The engines' sessions, for all tests of a run."""

from __future__ import annotations

import pytest
import sessions


def pytest_addoption(parser):
    parser.addoption("--whole", action="store_true", help="the long forms: 50 killed workers instead of 3")


@pytest.fixture
def kills(request) -> int:
    """The number of workers that a test kills."""
    return 50 if request.config.getoption("--whole") else 3


@pytest.fixture(scope="session")
def ray():
    with sessions.ray_session() as session:
        yield session


@pytest.fixture(scope="session")
def spark():
    with sessions.spark_session() as session:
        yield session
