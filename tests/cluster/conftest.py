"""One Spark for all tests of a process that need it: starting Java is what takes long."""

import pytest

from tests.cluster.spark_sessions import small_spark
from tests.conftest import require


@pytest.fixture(scope="session")
def spark():
    require("pyspark")
    require("pyarrow")
    with small_spark() as session:
        yield session
