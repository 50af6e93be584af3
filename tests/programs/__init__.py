"""`make test-programs`: unmodified programs on weft's stack. `rows.py` is the table, `stage.py` where a row runs."""
