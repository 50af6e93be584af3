"""The way out without privilege: programs of a user, through weft's TCP and passt."""
