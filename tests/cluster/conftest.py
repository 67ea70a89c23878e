"""One Ray cluster for all tests of this folder: it takes seconds to start."""

from collections.abc import Iterator

import pytest
from support.ray_cluster import RayCluster


@pytest.fixture(scope="session")
def cluster() -> Iterator[RayCluster]:
    own = RayCluster()
    yield own
    own.close()
