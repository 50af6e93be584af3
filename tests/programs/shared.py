"""What the rows share and only read: files with their sums, a test CA made at run time, the compiled test programs."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import random
import subprocess
from pathlib import Path

from harness import paths
from harness.environment import Environment
from harness.weft import HOST, HOST6, PREFIX_LENGTH, PREFIX_LENGTH6, STACK, STACK6

HERE = Path(__file__).parent
SERVERS = HERE / "servers"
NAME = "server.weft.test"
# Servers beyond a machine's own networks (RFC 5737, RFC 3849).
BEYOND, BEYOND6 = "192.0.2.1", "2001:db8::1"


@dataclasses.dataclass(frozen=True)
class Family:
    """Addresses of one IP version: the stack's, the host's, bits of their prefix."""

    version: int
    stack: str
    host: str
    bits: int


IPV4 = Family(4, STACK, HOST, PREFIX_LENGTH)
IPV6 = Family(6, STACK6, HOST6, PREFIX_LENGTH6)


@dataclasses.dataclass(frozen=True)
class File:
    path: Path
    size: int
    sha256: str

    @property
    def name(self) -> str:
        return self.path.name


@dataclasses.dataclass(frozen=True)
class Shared:
    """See the module; `www` holds the files that servers serve."""

    www: Path
    large: File
    small: File
    huge: File
    authority: Path
    certificate: Path
    key: Path
    go: str
    fork_server: str
    ssh_key: Path
    ssh_host_key: Path


def prepare(env: Environment) -> Shared:
    www = env.folder / "www"
    www.mkdir()
    large = _file(www / "large.bin", 4 << 20, 1)
    small = _file(www / "small.bin", 100_003, 2)
    huge = _file(env.folder / "huge.bin", (100 if os.environ.get("FULL") else 16) << 20, 3)
    authority, certificate, key = _certificates(env)
    shared = Shared(www, large, small, huge, authority, certificate, key, _build_go(env), _build_c(env),
                    _ssh_key(env, "user"), _ssh_key(env, "host"))
    # Programs that run as somebody else must reach all of it.
    for path in env.folder.rglob("*"):
        if path not in (shared.ssh_key, shared.ssh_host_key):  # ssh refuses keys that others can read
            path.chmod(path.stat().st_mode | (0o555 if path.is_dir() or os.access(path, os.X_OK) else 0o444))
    return shared


def _file(path: Path, size: int, seed: int) -> File:
    data = random.Random(seed).randbytes(size)
    path.write_bytes(data)
    return File(path, size, hashlib.sha256(data).hexdigest())


def _certificates(env: Environment) -> tuple[Path, Path, Path]:
    """A CA of this run only, and a certificate of it for both addresses."""
    def openssl(*words: str) -> None:
        env.run("openssl", [paths.tool("openssl"), *words])

    def at(name: str) -> str:
        return str(env.folder / name)

    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
            "-subj", "/CN=weft test CA", "-addext", "basicConstraints=critical,CA:TRUE",
            "-addext", "keyUsage=critical,keyCertSign", "-keyout", at("ca.key"), "-out", at("ca.pem"))
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-subj", "/CN=weft test server", "-keyout", at("server.key"), "-out", at("server.csr"))
    (env.folder / "server.ext").write_text(f"subjectAltName=IP:{HOST},IP:{STACK},IP:{HOST6},IP:{STACK6},IP:{BEYOND},IP:{BEYOND6},DNS:{NAME}\n")
    openssl("x509", "-req", "-in", at("server.csr"), "-CA", at("ca.pem"), "-CAkey", at("ca.key"), "-CAcreateserial",
            "-days", "2", "-extfile", at("server.ext"), "-out", at("server.pem"))
    return env.folder / "ca.pem", env.folder / "server.pem", env.folder / "server.key"


def _ssh_key(env: Environment, name: str) -> Path:
    path = env.folder / f"ssh-{name}"
    env.run("ssh-keygen", [paths.tool("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-f", str(path)])
    return path


def built_go(folder: Path, output: Path, *sources: str) -> Path:
    """A static Go program. Go's own caches of the caller are used: nothing is downloaded, it has no dependency."""
    environment = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "", "GOPROXY": "off"}
    environment.setdefault("GOCACHE", str(paths.output_dir() / "go-cache"))
    run = subprocess.run([paths.tool("go"), "build", "-trimpath", "-o", str(output), *(sources or ".")], cwd=folder,
                         env=environment, capture_output=True, text=True, timeout=300)
    if run.returncode != 0:
        raise RuntimeError(f"go build failed:\n{run.stderr}")
    return output


def _build_go(env: Environment) -> str:
    return str(built_go(HERE / "go", env.folder / "http-go"))


def _build_c(env: Environment) -> str:
    output = env.folder / "fork_server"
    env.run("cc", [paths.tool("cc"), "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-o", str(output),
                   str(SERVERS / "fork_server.c")])
    return str(output)
