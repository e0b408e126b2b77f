"""Settings of the whole suite."""

import importlib
import importlib.util
import os
import shutil
from types import ModuleType

import pytest
from hypothesis import HealthCheck, settings

COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}

# The suite gives the same verdict every time; HYPOTHESIS_PROFILE=explore looks further.
settings.register_profile("suite", max_examples=60, derandomize=True, database=None, **COMMON)
settings.register_profile("explore", max_examples=2000, **COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))


def require(name: str) -> ModuleType:
    """An optional part; where it is missing the test is skipped, with a reason."""
    if name == "pyspark" and shutil.which("java") is None:
        pytest.skip("pyspark needs Java, which is not installed")
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    return importlib.import_module(name)
