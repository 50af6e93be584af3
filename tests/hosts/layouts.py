"""Where a program's memory lies, and whether its stack holds code: programs and libraries of every kind that are made here, byte by byte."""

import ctypes
import glob
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile

PT_LOAD, PT_GNU_STACK = 1, 0x6474E551
READ, WRITE, EXECUTE = 4, 2, 1
# x86-64: read, mmap, mprotect, brk, exit; write.
MMAP, MPROTECT, MUNMAP, BRK, WRITE_TO, EXIT = 9, 10, 11, 12, 1, 60
MAP_PRIVATE, MAP_ANONYMOUS, MAP_32BIT, PROT_GROWSDOWN = 2, 0x20, 0x40, 0x1000000
LOW = range(0x40000000, 0x80000000)
MIB, GIB = 1 << 20, 1 << 30
folder = tempfile.TemporaryDirectory()
os.chmod(folder.name, 0o755)


def elf(name: str, code: bytes, base: int | None, stack: int | None) -> str:
    """A program of one segment, at an address or (None) wherever it is put, whose header of the stack has these flags (None: it has none)."""
    headers = [(PT_LOAD, READ | WRITE | EXECUTE), *([(PT_GNU_STACK, stack)] if stack is not None else [])]
    begin = 64 + 56 * len(headers)
    at = base or 0
    whole = begin + len(code)
    text = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 3 if base is None else 2, 62, 1, at + begin, 64, 0, 0, 64, 56, len(headers), 0, 0, 0)
    for kind, flags in headers:
        text += struct.pack("<IIQQQQQQ", kind, flags, 0, *((at, at, whole, whole, 4096) if kind == PT_LOAD else (0, 0, 0, 0, 16)))
    path = f"{folder.name}/{name}"
    with open(path, "wb") as into:
        into.write(text + code)
    os.chmod(path, 0o755)
    return path


# mov edi, 7; mov eax, 60; syscall: ends with status 7.
ENDS = b"\xbf\x07\0\0\0\xb8\x3c\0\0\0\x0f\x05"


def on_the_stack(deep: int) -> bytes:
    """Puts ENDS on the stack, so many bytes below its top, and goes there."""
    words = [struct.unpack("<Q", ENDS.ljust(16, b"\x90")[at : at + 8])[0] for at in (8, 0)]
    # sub rsp, deep; (mov rax, word; push rax) twice; jmp rsp
    return b"\x48\x81\xec" + struct.pack("<i", deep) + b"".join(b"\x48\xb8" + struct.pack("<Q", word) + b"\x50" for word in words) + b"\xff\xe4"


def on_the_environment() -> bytes:
    """Copies ENDS over the last text of the stack, its page's last bytes, and goes there: rdi is where argv[0] is, which is followed by it."""
    words = [struct.unpack("<Q", ENDS.ljust(16, b"\x90")[at : at + 8])[0] for at in (0, 8)]
    # mov rdi, [rsp + 8]; (mov rax, word; mov [rdi + at], rax) twice; jmp rdi
    return b"\x48\x8b\x7c\x24\x08" + b"".join(b"\x48\xb8" + struct.pack("<Q", word) + b"\x48\x89\x47" + bytes([8 * at]) for at, word in enumerate(words)) + b"\xff\xe7"


def ended(command: list[str], **more) -> str:
    """How it ended that should end with status 7."""
    status = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **more).returncode
    return "runs" if status == 7 else signal.Signals(-status).name if status < 0 else f"status {status}"


def stacks() -> None:
    kinds = {"a fixed place": 0x400000, "any place": None}
    flags = {"no header": None, "read and write": READ | WRITE, "execute": READ | WRITE | EXECUTE}
    codes = {"the stack": on_the_stack(0), "deep in the stack": on_the_stack(MIB), "the arguments": on_the_environment()}
    # mov rdi, rsp; and rdi, -4096; mov esi, 4096; mov edx, 7 | PROT_GROWSDOWN; mov eax, 10; syscall
    lets = b"\x48\x89\xe7\x48\x81\xe7\x00\xf0\xff\xff\xbe\x00\x10\0\0\xba" + struct.pack("<I", 7 | PROT_GROWSDOWN) + b"\xb8\x0a\0\0\0\x0f\x05"
    codes |= {"the stack after mprotect": lets + on_the_stack(0), "deep in the stack after mprotect": lets + on_the_stack(MIB)}
    for kind, base in kinds.items():
        for which, stack in flags.items():
            for what, code in codes.items():
                print("stack |", kind, "|", which, "|", what, "|", ended([elf("stack", code, base, stack), "of text that is long enough"]))


def patched(path: str, name: str) -> str:
    """A copy of a program or library whose header of the stack asks for one that holds code."""
    with open(path, "rb") as file:
        whole = bytearray(file.read())
    at, count = struct.unpack_from("<Q", whole, 32)[0], struct.unpack_from("<H", whole, 56)[0]
    for header in range(at, at + 56 * count, 56):
        if struct.unpack_from("<I", whole, header)[0] == PT_GNU_STACK:
            struct.pack_into("<I", whole, header + 4, READ | WRITE | EXECUTE)
    copy = f"{folder.name}/{name}"
    with open(copy, "wb") as into:
        into.write(whole)
    os.chmod(copy, 0o755)
    return copy


def with_libraries() -> None:
    """Programs of the machine's, and a library of it that is put in front and loaded later: is there a stack that holds code?"""
    def holds(maps: str) -> bool:
        """A stack that is the C library's has no name, and so have pieces of the first one."""
        fields = [line.split() for line in maps.splitlines() if line]
        return any(one[1] == "rwxp" and one[5:] in ([], ["[stack]"]) for one in fields)

    def told(*command, **more) -> bool:
        return holds(subprocess.run(command, capture_output=True, text=True, check=True, **more).stdout)

    cat = shutil.which("cat")
    print("maps | as it is |", told(cat, "/proc/self/maps"))
    print("maps | execute |", told(patched(cat, "cat"), "/proc/self/maps"))
    library = patched(sorted(glob.glob("/lib/x86_64-linux-gnu/libz.so.1*") + glob.glob("/usr/lib*/libz.so.1*"))[0], "libpatched.so")
    show = "print(open('/proc/self/maps').read())"
    print("maps | a library that asks |", told(cat, "/proc/self/maps", env={"LD_PRELOAD": library}))
    print("maps | a library that is loaded |", told(sys.executable, "-ISc", f"import ctypes; ctypes.CDLL({library!r}); {show}"))
    thread = f"import threading; one = threading.Thread(target=lambda: {show}); one.start(); one.join()"
    print("maps | a thread as it is |", told(sys.executable, "-ISc", thread))
    print("maps | a thread, execute |", told(patched(os.path.realpath(sys.executable), "python"), "-ISc", thread, env={"PYTHONHOME": sys.base_prefix}))


class Calls:
    """The code of a program that makes system calls and writes what they come to."""

    def __init__(self) -> None:
        # sub rsp, 1024; mov rbx, rsp
        self.code, self.count = b"\x48\x81\xec\x00\x04\0\0\x48\x89\xe3", 0

    def call(self, number: int, *words: int | tuple[int, int]) -> int:
        """Makes a call with these words; a pair is what an earlier call came to, and what is added to it. Gives the number of this one."""
        # rdi, rsi, rdx, r10, r8, r9: mov register, word; mov register, [rbx + at]; add register, addend
        registers = (b"\x48\xbf", b"\x48\xbe", b"\x48\xba", b"\x49\xba", b"\x49\xb8", b"\x49\xb9")
        loads = (b"\x48\x8b\xbb", b"\x48\x8b\xb3", b"\x48\x8b\x93", b"\x4c\x8b\x93", b"\x4c\x8b\x83", b"\x4c\x8b\x8b")
        for index, word in enumerate(words):
            if isinstance(word, tuple):
                # mov rax, addend; mov register, [rbx + at]; add register, rax
                add = (b"\x48\x01\xc7", b"\x48\x01\xc6", b"\x48\x01\xc2", b"\x49\x01\xc2", b"\x49\x01\xc0", b"\x49\x01\xc1")[index]
                self.code += b"\x48\xb8" + struct.pack("<q", word[1]) + loads[index] + struct.pack("<i", 8 * word[0]) + add
            else:
                self.code += registers[index] + struct.pack("<q", word)
        # mov eax, number; syscall; mov [rbx + at], rax
        self.code += b"\xb8" + struct.pack("<i", number) + b"\x0f\x05\x48\x89\x83" + struct.pack("<i", 8 * self.count)
        self.count += 1
        return self.count - 1

    def told(self, name: str, base: int | None) -> list[int]:
        """Runs it as a program at this place."""
        # write(1, rbx, bytes); exit(0)
        code = self.code + b"\xbf\x01\0\0\0\x48\x89\xde\xba" + struct.pack("<i", 8 * self.count) + b"\xb8\x01\0\0\0\x0f\x05\x31\xff\xb8\x3c\0\0\0\x0f\x05"
        done = subprocess.run([elf(name, code, base, READ | WRITE)], capture_output=True)
        return list(struct.unpack(f"<{self.count}q", done.stdout)) if len(done.stdout) == 8 * self.count else [done.returncode]


def where(address: int) -> str:
    return "low" if address in LOW else f"error {-address}" if -4096 < address < 0 else "elsewhere"


def low_memory() -> None:
    """MAP_32BIT and the break, of programs below, in and above what MAP_32BIT takes."""
    places = {"0x400000": 0x400000, "0x3ff00000": 0x3FF00000, "0x60000000": 0x60000000, "0x90000000": 0x90000000, "any place": None}
    flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT
    for name, base in places.items():
        for size in (4096, MIB, 256 * MIB):
            calls = Calls()
            calls.call(MMAP, 0, size, 3, flags, -1, 0)
            calls.call(MMAP, 0, size, 3, flags, -1, 0)
            print("MAP_32BIT |", name, "|", size, "|", *map(where, calls.told("low", base)))
        calls = Calls()
        begin = calls.call(BRK, 0)
        grown = [calls.call(BRK, (begin, size)) for size in (1, 4096, MIB, 100, 64 * MIB, 1152 * MIB, 0, 3 * MIB)]
        calls.call(BRK, 0)
        told = calls.told("break", base)
        print("break |", name, "|", *(one - told[begin] for one in told[1:]))
        # What lies in its way, and is taken away again.
        calls = Calls()
        begin = calls.call(BRK, 0)
        calls.call(BRK, (begin, MIB))
        fixed = calls.call(MMAP, (begin, 512 * MIB), 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS | 0x100000, -1, 0)
        before, over = calls.call(BRK, (begin, 256 * MIB)), calls.call(BRK, (begin, 1024 * MIB))
        calls.call(MUNMAP, (fixed, 0), 4096)
        after = calls.call(BRK, (begin, 1024 * MIB))
        told = calls.told("way", base)
        print("break in the way |", name, "|", *(told[one] - told[begin] for one in (fixed, before, over, after)))


stacks()
with_libraries()
low_memory()
