"""An FTP server (pyftpdlib) for user weft with password test.

    ftpd.py ADDRESS PORT FOLDER
"""

from __future__ import annotations

import sys

from pyftpdlib.authorizers import DummyAuthorizer
from pyftpdlib.handlers import FTPHandler
from pyftpdlib.servers import FTPServer


def main(address: str, port: str, folder: str) -> None:
    authorizer = DummyAuthorizer()
    authorizer.add_user("weft", "test", folder, perm="elradfmw")
    handler = type("Handler", (FTPHandler,), {"authorizer": authorizer})
    FTPServer((address, int(port)), handler).serve_forever()


main(*sys.argv[1:])
