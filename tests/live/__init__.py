"""A stack is rebuilt while unmodified programs use it: not a byte is lost, no connection reset, and every block that was there has counted."""
