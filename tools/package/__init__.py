"""What people install: wheels, packages of distributions, an image for containers and a tarball, all into dist/."""
