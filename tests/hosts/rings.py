"""io_uring, as libuv uses it when it is told to: rings where there are any, and the same results where there are none."""

import ctypes
import json
import os
import shutil
import subprocess
import tempfile

from answers import said

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
# Files by the ring, and its other uses (changes of an epoll) while a server and its clients talk.
BODY = """
const fs = require('fs'), net = require('net'), folder = process.argv[1];
const talks = (host) => new Promise((done) => {
    const server = net.createServer((socket) => socket.pipe(socket)).listen(0, host, () => {
        let got = 0, open = 8;
        for (let index = 0; index < 8; index++) {
            const socket = net.connect(server.address().port, host, () => socket.end('x'.repeat(100000)));
            socket.on('data', (data) => { got += data.length; });
            socket.on('close', () => { if (--open == 0) server.close(() => done(got)); });
        }
    });
});
(async () => {
    const found = {};
    for (let index = 0; index < 20; index++) await fs.promises.writeFile(`${folder}/${index}`, 'y'.repeat(1000 * index));
    found.files = (await Promise.all([...Array(20).keys()].map((one) => fs.promises.readFile(`${folder}/${one}`)))).reduce((sum, one) => sum + one.length, 0);
    found.sizes = (await Promise.all([...Array(20).keys()].map((one) => fs.promises.stat(`${folder}/${one}`)))).reduce((sum, one) => sum + one.size, 0);
    found.missing = await fs.promises.open(`${folder}/none`).catch((error) => error.code);
    for (const host of ['127.0.0.1', '::1']) found[host] = await talks(host);
    const leads = (name) => { try { return fs.readlinkSync(`/proc/self/fd/${name}`); } catch { return ''; } };
    found.rings = fs.readdirSync('/proc/self/fd').some((name) => leads(name).includes('io_uring'));
    console.log(JSON.stringify(found));
})();
"""


def called(number, *words):
    result = libc.syscall(ctypes.c_long(number), *(ctypes.c_long(word) for word in words))
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
    os.close(result)
    return "works"


room = ctypes.create_string_buffer(256)
print("io_uring_setup", said(lambda: called(425, 4, ctypes.addressof(room))))
for wanted in ("0", "1"):
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([shutil.which("node"), "-e", BODY, folder], capture_output=True, text=True, env={**os.environ, "UV_USE_IO_URING": wanted})
    told = json.loads(done.stdout) if done.stdout else {"rings": done.stderr[-500:]}
    print("libuv", wanted, "rings", told.pop("rings"))
    print("libuv", wanted, *told.items(), done.returncode)
