"""Settings of the whole suite."""

import os

from hypothesis import HealthCheck, settings

COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}

# The suite gives the same verdict every time; HYPOTHESIS_PROFILE=explore looks further.
settings.register_profile("suite", max_examples=60, derandomize=True, database=None, **COMMON)
settings.register_profile("explore", max_examples=2000, **COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))
