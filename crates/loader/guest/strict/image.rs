//! A new image in real time: what it has to know comes in a memory file, since many may begin at once.

use crate::abi::{self, Channel, PATH_BYTES, Process, strict};
use crate::calls::number as nr;
use crate::channel::header;
use crate::elf;
use crate::exec;
use crate::names;
use crate::memory;
use crate::stack::{self, Kernel};
use crate::sys;
use crate::thread::{self, BLOCK, BLOCKS_ADDRESS, Thread};
use crate::x86_64::context::{Context, EFLAGS, RIP, RSP, Stack};
use crate::x86_64::entry;
use super::{call, signal, thread as strict_thread};
use core::sync::atomic::Ordering::Relaxed;

/// What is the process's own, where in virtual time it is the arena's.
static mut PROCESS: core::mem::MaybeUninit<Process> = core::mem::MaybeUninit::zeroed();
/// Stands for the channel of a thread that has none. Its pages are never touched.
static mut NO_CHANNEL: core::mem::MaybeUninit<Channel> = core::mem::MaybeUninit::zeroed();
static mut NEXT: core::mem::MaybeUninit<strict::Next> = core::mem::MaybeUninit::zeroed();

const RLIMIT_NOFILE: usize = 7;

/// Begins: as the program that `weft run` was told, or as the one that is executed.
pub unsafe fn start(kernel: &Kernel) -> ! {
    // SAFETY: the only thread of a process that has just been executed; zeros are all of these.
    unsafe {
        let next = (*(&raw mut NEXT)).assume_init_mut();
        let bytes = sys::call(nr::PREAD64, &[abi::DESCRIPTOR_NEXT as usize, core::ptr::from_mut(next) as usize, size_of::<strict::Next>(), 0]);
        if bytes != size_of::<strict::Next>() as isize || next.magic != strict::NEXT_MAGIC {
            sys::die("this program is a part of weft and cannot be run by itself; see `weft help`", 0);
        }
        sys::call(nr::CLOSE, &[abi::DESCRIPTOR_NEXT as usize]);
        thread::map_blocks();
        let process = (*(&raw const PROCESS)).assume_init_ref();
        let t = thread::put(thread::allocate().unwrap_or(0), (*(&raw const NO_CHANNEL)).assume_init_ref(), process);
        t.strict.on = true;
        t.strict.mask = next.mask;
        if next.decided == 0 {
            let errno = exec::execve(t, next.target.as_ptr() as usize, kernel.arguments as usize, kernel.environment as usize);
            sys::say("cannot execute the program, errno", -errno as usize);
            sys::call(nr::EXIT_GROUP, &[if errno == sys::ENOENT { 127 } else { 126 }]);
        }
        let length = |text: &[u8]| text.iter().position(|byte| *byte == 0).map_or(text.len(), |end| end + 1);
        let target = length(&next.target);
        process.target.put(0, &next.target[..target]);
        process.target.put(target, &next.name[..length(&next.name)]);
        process.executable.put(0, &next.executable);
        begin(t, kernel, next)
    }
}

unsafe fn begin(t: &mut Thread, kernel: &Kernel, next: &strict::Next) -> ! {
    // SAFETY: as in `start`.
    unsafe {
        thread::alternate_stack(t);
        strict_thread::point(t);
        names::name_thread(t);
        // PR_SET_PTRACER: the controller may copy large pieces of our memory by itself.
        sys::call(nr::PRCTL, &[0x5961_6d61, header().controller_pid.load(Relaxed) as usize]);
        let image = elf::load_program(t);
        memory::set_break(image.program.end);
        let top = stack::build(t, kernel, &image, 0);
        signal::begin(t);
        if next.joined != 0 {
            let _ = call::join(t, true);
        }
        thread::arm();
        // The program begins as if a handler returned to its first instruction: with its own blocked signals from there on.
        let mut context = core::mem::zeroed::<Context>();
        context.registers[RSP] = top as u64;
        context.registers[RIP] = image.entry as u64;
        context.registers[EFLAGS] = 0x202;
        // CS and SS of user space.
        context.registers[18] = 0x33 | 0x2b << 48;
        // UC_SIGCONTEXT_SS|UC_STRICT_RESTORE_SS
        context.flags = 6;
        context.mask = next.mask;
        context.stack = Stack { start: (BLOCKS_ADDRESS + t.index * BLOCK) as u64, flags: 0, padding: 0, bytes: BLOCK as u64 };
        entry::resume(&raw const context as usize)
    }
}

/// Executes the loader for what is decided. Returns an errno. Everything is blocked meanwhile, so that no signal is lost; the new image opens what the
/// program had open.
pub fn execute(t: &mut Thread, target: &[u8], name: &[u8], arguments: usize, environment: usize) -> isize {
    const AT_EMPTY_PATH: usize = 0x1000;
    let Some(at) = sys::map(size_of::<strict::Next>()) else { return sys::ENOMEM };
    // SAFETY: new, zeroed, and large enough.
    let next = unsafe { &mut *(at as *mut strict::Next) };
    next.magic = strict::NEXT_MAGIC;
    next.decided = 1;
    next.mask = t.strict.mask;
    next.joined = u64::from(call::is_known(t));
    let put = |into: &mut [u8; PATH_BYTES], from: &[u8]| {
        let bytes = from.len().min(PATH_BYTES - 1);
        into[..bytes].copy_from_slice(&from[..bytes]);
    };
    put(&mut next.target, target);
    put(&mut next.name, name);
    t.process.executable.get(0, &mut next.executable);
    let memory = sys::call(nr::MEMFD_CREATE, &[c"weft-next".as_ptr() as usize, 0]);
    if memory < 0 {
        sys::unmap(at, size_of::<strict::Next>());
        return memory;
    }
    sys::call(nr::WRITE, &[memory as usize, at, size_of::<strict::Next>()]);
    sys::unmap(at, size_of::<strict::Next>());
    let moved = with_room(|| sys::call(nr::DUP2, &[memory as usize, abi::DESCRIPTOR_NEXT as usize]));
    sys::call(nr::CLOSE, &[memory as usize]);
    if moved < 0 {
        return moved;
    }
    let all = !0_u64;
    let mut before = 0_u64;
    sys::call(nr::RT_SIGPROCMASK, &[2, &raw const all as usize, &raw mut before as usize, 8]);
    let empty = [0_u8];
    let errno = sys::call(nr::EXECVEAT, &[abi::DESCRIPTOR_LOADER as usize, empty.as_ptr() as usize, arguments, environment, AT_EMPTY_PATH]);
    sys::call(nr::RT_SIGPROCMASK, &[2, &raw const before as usize, 0, 8]);
    sys::call(nr::CLOSE, &[abi::DESCRIPTOR_NEXT as usize]);
    errno
}

/// Does something for which the descriptor limit must be the largest.
fn with_room(f: impl FnOnce() -> isize) -> isize {
    let mut limit = [0_u64; 2];
    sys::call(nr::PRLIMIT64, &[0, RLIMIT_NOFILE, 0, limit.as_mut_ptr() as usize]);
    let low = limit[0] <= abi::DESCRIPTOR_CONTROL as u64;
    if low {
        let wide = [limit[1], limit[1]];
        sys::call(nr::PRLIMIT64, &[0, RLIMIT_NOFILE, wide.as_ptr() as usize, 0]);
    }
    let result = f();
    if low {
        sys::call(nr::PRLIMIT64, &[0, RLIMIT_NOFILE, limit.as_ptr() as usize, 0]);
    }
    result
}
