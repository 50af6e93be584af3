"""A normal user, whom root can be for a command: one that nobody else is."""

from __future__ import annotations

from . import paths

ID = 64321


def words() -> list[str]:
    """What root puts before a command."""
    return [paths.tool("setpriv"), f"--reuid={ID}", f"--regid={ID}", "--clear-groups", "--inh-caps=-all"]


def words_with_fuse() -> list[str]:
    """The same with a /dev/fuse that everybody may open, as udev makes it; in a mount namespace of its own."""
    make = 'f=$(mktemp -d) && mount -t tmpfs weft "$f" && mknod -m 666 "$f/fuse" c 10 229 && mount --bind "$f/fuse" /dev/fuse && umount -l "$f"; rmdir "$f"; exec "$@"'
    return [paths.tool("unshare"), "--mount", "sh", "-c", make, "sh", *words()]
