"""Compiled loops work where nothing can be written."""

from numba.core import caching

from pufferkit.compiling import compiled_loop


def added(a, b):
    return a + b


def test_a_read_only_package_in_a_read_only_home(monkeypatch):
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    assert compiled_loop(added)(2, 3) == 5


def test_kept_on_disk_where_that_can_be_written():
    assert compiled_loop(added).stats.cache_path
