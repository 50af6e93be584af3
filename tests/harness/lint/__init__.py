"""`make lint`: what cargo checks, and the project's own rules. Each rule is a function that returns findings, so that
its self-test (harness/tests) can plant a violation and see it found."""
