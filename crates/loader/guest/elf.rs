//! Mapping ELF images: the program, its interpreter, the vDSO. Fixed addresses, or the program would see another layout every time.

use crate::abi;
use crate::block::Thread;
use crate::call::files::note_executed;
use crate::calls::number as nr;
use crate::sys;
use crate::x86_64::gate;

/// Where interpreters go.
const INTERPRETER_ADDRESS: usize = 0x7f00_0000_0000;
/// Where the vDSO goes.
const VDSO_ADDRESS: usize = 0x7eb8_0000_0000;
/// Most program headers.
const HEADERS_MAX: usize = 64;

const PT_LOAD: u32 = 1;
const PT_INTERP: u32 = 3;
const PT_GNU_STACK: u32 = 0x6474_e551;
const PF_X: u32 = 1;
const PAGE: usize = 4096;

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct FileHeader {
    ident: [u8; 16],
    kind: u16,
    machine: u16,
    version: u32,
    entry: u64,
    headers_at: u64,
    sections_at: u64,
    flags: u32,
    header_bytes: u16,
    entry_bytes: u16,
    count: u16,
    rest: [u16; 3],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Segment {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    physical: u64,
    file_bytes: u64,
    memory_bytes: u64,
    align: u64,
}

/// An image in memory.
#[derive(Clone, Copy, Default)]
pub struct Image {
    pub base: usize,
    pub entry: usize,
    pub end: usize,
    /// Where its program headers are.
    pub headers: usize,
    pub header_count: usize,
    /// It asks for a stack that holds code.
    pub executable_stack: bool,
}

/// A program with its interpreter.
pub struct Loaded {
    pub program: Image,
    /// Base of the interpreter; 0: none.
    pub interpreter: usize,
    /// Where to begin.
    pub entry: usize,
    /// Its stack is to hold code.
    pub executable_stack: bool,
}

static VDSO: &[u8] = include_bytes!(env!("WEFT_VDSO"));

/// Maps our vDSO; returns where.
pub fn map_vdso() -> usize {
    let bytes = VDSO.len().next_multiple_of(PAGE);
    let at = sys::call(nr::MMAP, &[VDSO_ADDRESS, bytes, 3, 0x10_0022, usize::MAX, 0]);
    if at != VDSO_ADDRESS as isize {
        sys::die("cannot map the vDSO", -at as usize);
    }
    // SAFETY: just mapped.
    unsafe { core::ptr::copy_nonoverlapping(VDSO.as_ptr(), VDSO_ADDRESS as *mut u8, VDSO.len()) };
    sys::call(nr::MPROTECT, &[VDSO_ADDRESS, bytes, 5]);
    VDSO_ADDRESS
}

/// Does a call come from there?
pub fn is_of_vdso(after: usize) -> bool {
    after.wrapping_sub(VDSO_ADDRESS) < VDSO.len()
}

fn read_at(fd: usize, at: u64, into: usize, bytes: usize) -> bool {
    sys::call(nr::PREAD64, &[fd, into, bytes, at as usize]) == bytes as isize
}

fn read_headers(fd: usize) -> Option<(FileHeader, [Segment; HEADERS_MAX])> {
    let mut file = FileHeader::default();
    let mut segments = [Segment::default(); HEADERS_MAX];
    if !read_at(fd, 0, &raw mut file as usize, size_of::<FileHeader>()) {
        return None;
    }
    // ELF, 64 bit, little endian; executable or shared; x86-64.
    let good = file.ident[..6] == *b"\x7fELF\x02\x01" && matches!(file.kind, 2 | 3) && file.machine == 62;
    let count = usize::from(file.count);
    if !good || file.entry_bytes != 56 || count > HEADERS_MAX {
        return None;
    }
    read_at(fd, file.headers_at, &raw mut segments as usize, count * 56).then_some((file, segments))
}

/// The path of the interpreter that an image names: its length in `into`, 0 when it names none. ENOEXEC when it is no image for us.
pub fn interpreter(fd: usize, into: &mut [u8]) -> Result<usize, isize> {
    let Some((file, segments)) = read_headers(fd) else { return Err(sys::ENOEXEC) };
    for segment in &segments[..usize::from(file.count)] {
        if segment.kind == PT_INTERP {
            let bytes = segment.file_bytes as usize;
            if bytes < 2 || bytes > into.len() || !read_at(fd, segment.offset, into.as_mut_ptr() as usize, bytes) {
                return Err(sys::ENOEXEC);
            }
            return Ok(bytes - 1);
        }
    }
    Ok(0)
}

fn load(path: usize, preferred: usize) -> (Image, usize) {
    // O_CLOEXEC
    let fd = sys::call(nr::OPEN, &[path, 0x8_0000, 0]);
    if fd < 0 {
        sys::die("cannot open the program, errno", -fd as usize);
    }
    let fd = fd as usize;
    let Some((file, segments)) = read_headers(fd) else { sys::die("the program is no ELF file for this processor", 0) };
    let segments = &segments[..usize::from(file.count)];
    let loads = || segments.iter().filter(|segment| segment.kind == PT_LOAD);
    let low = loads().map(|segment| segment.address as usize & !(PAGE - 1)).min().unwrap_or(0);
    let high = loads().map(|segment| (segment.address + segment.memory_bytes) as usize).max().unwrap_or(0).next_multiple_of(PAGE);
    let at = if file.kind == 3 { preferred } else { low };
    // The whole span first: nothing may lie in its holes.
    let reserved = sys::call(nr::MMAP, &[at, high - low, 0, 0x10_4022, usize::MAX, 0]);
    if reserved != at as isize {
        sys::die("the place of the program in memory is taken, errno", -reserved as usize);
    }
    let bias = at.wrapping_sub(low);
    let mut image = Image {
        base: bias,
        entry: bias.wrapping_add(file.entry as usize),
        end: bias.wrapping_add(high),
        headers: 0,
        header_count: segments.len(),
        // arch/x86/include/asm/elf.h, elf_read_implies_exec: of 64 bits, a program without such a header has none ("exec-none"), and one with it has no
        // more than the stack.
        executable_stack: segments.iter().any(|segment| segment.kind == PT_GNU_STACK && segment.flags & PF_X != 0),
    };
    for segment in loads() {
        map_segment(fd, segment, bias);
        if (segment.offset..segment.offset + segment.file_bytes).contains(&file.headers_at) {
            image.headers = bias.wrapping_add((segment.address + file.headers_at - segment.offset) as usize);
        }
    }
    (image, fd)
}

fn map_segment(fd: usize, segment: &Segment, bias: usize) {
    let protection = ((segment.flags & 4) >> 2 | segment.flags & 2 | (segment.flags & 1) << 2) as usize;
    let address = bias.wrapping_add(segment.address as usize);
    let start = address & !(PAGE - 1);
    let (file_end, end) = (address + segment.file_bytes as usize, address + segment.memory_bytes as usize);
    let mut mapped = start;
    if segment.file_bytes > 0 {
        mapped = file_end.next_multiple_of(PAGE);
        let offset = segment.offset as usize & !(PAGE - 1);
        let result = sys::call(nr::MMAP, &[start, mapped - start, protection, 0x12, fd, offset]);
        if result != start as isize {
            sys::die("cannot map a segment of the program, errno", -result as usize);
        }
        if protection == 5 {
            gate::note(start, mapped - start);
        }
        if end > file_end && protection & 2 != 0 {
            // SAFETY: writable and just mapped, to the end of the page.
            unsafe { core::ptr::write_bytes(file_end as *mut u8, 0, mapped - file_end) };
        }
    }
    let end = end.next_multiple_of(PAGE);
    if end > mapped {
        sys::call(nr::MMAP, &[mapped, end - mapped, protection, 0x32, usize::MAX, 0]);
    }
}

/// Maps the program named in the process's slot, and its interpreter.
pub fn load_program(t: &Thread) -> Loaded {
    let mut path = [0_u8; abi::PATH_BYTES];
    t.process.target.get(0, &mut path);
    path[abi::PATH_BYTES - 1] = 0;
    let (program, fd) = load(path.as_ptr() as usize, abi::PROGRAM_ADDRESS);
    let length = interpreter(fd, &mut path[..abi::PATH_BYTES - 1]).unwrap_or(0);
    sys::call(nr::CLOSE, &[fd]);
    if length == 0 {
        return Loaded { program, interpreter: 0, entry: program.entry, executable_stack: program.executable_stack };
    }
    path[length] = 0;
    let (interpreter, fd) = load(path.as_ptr() as usize, INTERPRETER_ADDRESS);
    note_executed(fd);
    sys::call(nr::CLOSE, &[fd]);
    // fs/binfmt_elf.c, load_elf_binary: the header of the program decides, not that of its interpreter.
    Loaded { program, interpreter: interpreter.base, entry: interpreter.entry, executable_stack: program.executable_stack }
}
