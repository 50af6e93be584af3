"""The site: the pages of this repository and a reference made from the command and the Python package, searchable, readable without a network."""
