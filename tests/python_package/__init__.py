"""The Python package in python/, as its users have it: installed, with each library and with none."""
