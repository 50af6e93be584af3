"""`make demo`: curl fetches 64 MB through weft's own TCP, and the proof whose TCP it was."""
