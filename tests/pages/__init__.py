"""The commands that pages show, run as a reader would, and their output beside the one that is shown."""
