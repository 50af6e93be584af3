"""`make lint`: what cargo checks, and the project's own rules. Each rule is a function that returns findings, so that
its self-test (harness/tests) can plant a violation and see it found."""


class Skip(Exception):
    """A rule that cannot be checked on this machine; the text says why."""
