"""What a program finds that weft was started with: each line is what was asked, how, and the answer."""

import os
import resource
import signal

from saying import said


def limit(of: int) -> str:
    return str(resource.getrlimit(of)[0])


if __name__ == "__main__":
    mask = os.umask(0)
    said("started with", "nice", lambda: os.nice(0) or "0")
    said("started with", "umask", lambda: f"{mask:03o}")
    said("started with", "SIGUSR1", lambda: "ignored" if signal.getsignal(signal.SIGUSR1) == signal.SIG_IGN else "as ever")
    said("limits", "stack", lambda: limit(resource.RLIMIT_STACK))
    said("limits", "core files", lambda: limit(resource.RLIMIT_CORE))
