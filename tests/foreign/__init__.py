"""Test suites of others, natively and on weft: see `__main__.py`."""
