"""Settings of the whole suite."""

import importlib
import importlib.util
import os
import shutil
from types import ModuleType

import pytest
from hypothesis import HealthCheck, Phase, settings

from pufferkit import compiling

# The same loops serve thousands of tests: to wait longer before they are compiled never pays.
compiling.FIRST = 1

COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}

# The suite gives the same verdict every time; HYPOTHESIS_PROFILE=explore looks further.
settings.register_profile("suite", max_examples=60, derandomize=True, database=None, **COMMON)
settings.register_profile("explore", max_examples=2000, **COMMON)
# For mutants it is enough that a test fails; no smallest example is looked for.
settings.register_profile(
    "mutants",
    settings.get_profile("suite"),
    max_examples=25,
    phases=[Phase.explicit, Phase.generate],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))

# Optional parts that must be there: a test that would be skipped for want of one fails instead.
REQUIRED = set(os.environ.get("PUFFERKIT_REQUIRE", "").split())


def pytest_configure(config):
    """PUFFERKIT_REQUIRE="torch pgmpy" makes importorskip of these an import that must succeed."""
    skip = pytest.importorskip

    def required(modname, *args, **options):
        if modname.partition(".")[0] in REQUIRED:
            try:
                __import__(modname)
            except ImportError as error:
                pytest.fail(f"PUFFERKIT_REQUIRE names {modname}, but: {error}", pytrace=False)
        return skip(modname, *args, **options)

    pytest.importorskip = required


def pytest_collection_modifyitems(items):
    """Tests release a few entries, which noise drowns; pages and docstrings must say so."""
    pages = ("pufferkit/", "test_docs.py", "test_readme.py", "test_notebooks.py")
    for item in items:
        if not any(page in item.nodeid for page in pages):
            item.add_marker(pytest.mark.filterwarnings("ignore::pufferkit.errors.DrownedAnswer"))


def require(name: str) -> ModuleType:
    """Skip the test, with a reason, where an optional part is missing; fail if it must be there."""
    missing = None
    if name == "pyspark" and shutil.which("java") is None:
        missing = "pyspark needs Java, which is not installed"
    elif importlib.util.find_spec(name) is None:
        missing = f"{name} is not installed"
    if missing is not None and name in REQUIRED:
        pytest.fail(f"PUFFERKIT_REQUIRE names {name}, but {missing}", pytrace=False)
    if missing is not None:
        pytest.skip(missing)
    return importlib.import_module(name)


@pytest.fixture(scope="session")
def spark():
    """One Spark for all tests of a process that need it: starting Java is what takes long."""
    from tests.strategies.spark_sessions import small_spark

    require("pyspark")
    require("pyarrow")
    with small_spark() as session:
        yield session
