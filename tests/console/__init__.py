"""`weft console`, its words and those of FINS and LANA, with input that is no terminal and under a pseudo-terminal."""
