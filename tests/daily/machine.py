"""A virtual machine joins a stack: QEMU listens on a socket, and frames go from one to the other (`stream:PATH`).

    a stack, 10.9.0.2 and fd09::2 ─ a socket of the host ─ QEMU ─ virtio ─ Debian's kernel and busybox, 10.9.0.1 and fd09::1
"""

from __future__ import annotations

import gzip
import hashlib
import shutil
import subprocess
from pathlib import Path

from harness import paths, user, weft
from harness.environment import Environment
from harness.processes import PATIENCE
from programs import rows as table
from programs.shared import SERVERS, Shared
from programs.stage import want, want_equal

# What tools/setup unpacks of Debian's package.
KERNEL = paths.ROOT / "target/vm"
MODULES = ("core/failover", "net/net_failover", "virtio/virtio_ring", "virtio/virtio", "virtio/virtio_pci_legacy_dev", "virtio/virtio_pci_modern_dev",
           "virtio/virtio_pci", "net/virtio_net")
SECONDS_MAX = 120 * PATIENCE

INIT = """#!/bin/busybox sh
busybox=/bin/busybox
$busybox mount -t proc proc /proc
for module in {modules}; do $busybox insmod /modules/$module.ko; done
$busybox ip link set lo up
# The carrier comes with each stack, and with it the search for duplicates, which takes as long as a neighbour is asked for.
echo 0 > /proc/sys/net/ipv6/conf/eth0/accept_dad
# No stack is there for a while.
echo 1 > /proc/sys/net/ipv4/tcp_syn_retries
$busybox ip link set eth0 up
$busybox ip address add 10.9.0.1/24 dev eth0
$busybox ip address add fd09::1/64 dev eth0
$busybox httpd -p 80 -h /www
$busybox httpd -p '[::]:81' -h /www
echo "the machine is ready"
until $busybox wget -q -O /tmp/4 http://10.9.0.2:8080/{name}; do $busybox sleep 1; done
echo "fetched $($busybox sha256sum < /tmp/4)"
$busybox sleep 100000
"""

STACK = """
[[interface]]
name = "eth0"
backend = "stream:{path}"
[[address]]
interface = "eth0"
address = "10.9.0.2/24"
[[address]]
interface = "eth0"
address = "fd09::2/64"
"""


def _first_files(env: Environment, name: str, large: Path) -> Path:
    """The machine's initramfs: busybox, the modules of its card, and a file to give away."""
    root = env.folder / "initramfs"
    for folder in ("bin", "modules", "www", "proc", "tmp"):
        (root / folder).mkdir(parents=True)
    shutil.copy2(paths.tool("busybox"), root / "bin/busybox")
    for module in MODULES:
        (found,) = KERNEL.glob(f"lib/modules/*/kernel/**/{module}.ko")
        shutil.copy2(found, root / "modules")
    shutil.copy2(large, root / "www/large")
    (root / "init").write_text(INIT.format(modules=" ".join(Path(module).name for module in MODULES), name=name))
    (root / "init").chmod(0o755)
    files = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
    archive = subprocess.run([paths.tool("cpio"), "--create", "--format=newc", "--quiet"], input=files.encode(), cwd=root, capture_output=True, check=True).stdout
    out = env.folder / "initramfs.gz"
    out.write_bytes(gzip.compress(archive, 1))
    return out


def virtual_machine(shared: Shared) -> str:
    """A user's stack fetches from the machine over both families, again by another stack on the same socket, and the machine fetches from a third."""
    with Environment("virtual-machine") as env:
        env.folder.chmod(0o777)
        path, file = env.folder / "socket", env.folder / "stack.toml"
        file.write_text(STACK.format(path=path))
        (kernel,) = KERNEL.glob("boot/vmlinuz-*")
        words = [paths.tool("qemu-system-x86_64"), "-m", "256", "-nographic", "-no-reboot", "-kernel", str(kernel), "-append", "console=ttyS0 quiet",
                 "-initrd", str(_first_files(env, shared.large.path.name, shared.large.path)), "-device", "virtio-net-pci,netdev=net",
                 "-netdev", f"stream,id=net,server=on,addr.type=unix,addr.path={path}"]
        machine = env.start("qemu", [*user.words(), *words])
        machine.wait_for(lambda: "the machine is ready" in machine.stdout, "the machine", SECONDS_MAX)
        curl = [paths.tool("curl"), *table.CURL]
        for number, how in enumerate(([], ["--engine", "threaded", "--strict"])):
            for url in ("http://10.9.0.1/large", "http://[fd09::1]:81/large"):
                fetched = env.folder / f"fetched-{number}"
                env.run("curl", [*user.words(), weft.binary(), "run", *how, "--stack", str(file), "--", *curl, "--output", str(fetched), url])
                want_equal(f"sum of {url}", hashlib.sha256(fetched.read_bytes()).hexdigest(), shared.large.sha256)
        env.start("web", [*user.words(), weft.binary(), "run", "--stack", str(file), "--", paths.PYTHON, str(SERVERS / "web.py"), "10.9.0.2", "8080", str(shared.www)])
        machine.wait_for(lambda: "fetched " in machine.stdout, "what the machine fetches", SECONDS_MAX)
        want(shared.large.sha256 in machine.stdout, "the machine fetched something else")
    return f"{shared.large.path.stat().st_size / 1e6:.0f} MB each way"
