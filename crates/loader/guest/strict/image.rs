//! A new image in real time: what it has to know comes in a memory file, since many may begin at once.

use super::{signal, thread as strict_thread};
use crate::abi::{self, Channel, Process, strict};
use crate::arena::header;
use crate::block;
use crate::block::{BLOCK, BLOCKS_ADDRESS, Thread};
use crate::calls::number as nr;
use crate::channel::real;
use crate::elf;
use crate::exec;
use crate::memory;
use crate::program_name;
use crate::stack::{self, Kernel};
use crate::sys;
use crate::thread;
use crate::x86_64::context::{Context, EFLAGS, RIP, RSP, Stack};
use crate::x86_64::entry;
use core::sync::atomic::Ordering::Relaxed;

/// What is the process's own, where in virtual time it is the arena's.
static mut PROCESS: core::mem::MaybeUninit<Process> = core::mem::MaybeUninit::zeroed();
/// Stands for the channel of a thread that has none. Its pages are never touched.
static mut NO_CHANNEL: core::mem::MaybeUninit<Channel> = core::mem::MaybeUninit::zeroed();
static mut NEXT: core::mem::MaybeUninit<strict::Next> = core::mem::MaybeUninit::zeroed();

/// Begins: as the program that `weft run` was told, or as the one that is executed.
pub unsafe fn start(kernel: &Kernel) -> ! {
    // SAFETY: the only thread of a process that has just been executed; zeros are all of these.
    unsafe {
        let next = (*(&raw mut NEXT)).assume_init_mut();
        let bytes =
            sys::call(nr::PREAD64, &[abi::DESCRIPTOR_NEXT as usize, core::ptr::from_mut(next) as usize, size_of::<strict::Next>(), 0]);
        if bytes != size_of::<strict::Next>() as isize || next.magic != strict::NEXT_MAGIC {
            sys::die("this program is a part of weft and cannot be run by itself; see `weft help`", 0);
        }
        // The number stays taken: a file of the program's that got it would not be the program's.
        let taken = super::next::with_room(|| sys::call(nr::DUP2, &[abi::DESCRIPTOR_LOADER as usize, abi::DESCRIPTOR_NEXT as usize]));
        if taken < 0 {
            sys::call(nr::CLOSE, &[abi::DESCRIPTOR_NEXT as usize]);
        }
        block::map_blocks();
        let process = (*(&raw const PROCESS)).assume_init_ref();
        let t = block::put(block::allocate().unwrap_or(0), (*(&raw const NO_CHANNEL)).assume_init_ref(), process);
        t.strict.on = true;
        t.strict.tid = sys::call(nr::GETTID, &[]) as usize;
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
        block::alternate_stack(t);
        strict_thread::point(t);
        program_name::name_thread(t);
        // PR_SET_PTRACER: the controller may copy large pieces of our memory by itself.
        sys::call(nr::PRCTL, &[0x5961_6d61, header().controller_pid.load(Relaxed) as usize]);
        let image = elf::load_program(t);
        memory::set_break(image.program.end);
        let top = stack::build(t, kernel, &image, 0);
        signal::begin(t, super::dispatch::on_call);
        if next.joined != 0 {
            let _ = real::join(t, true);
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
        signal::block(t, &mut context, next.mask);
        context.stack = Stack { start: (BLOCKS_ADDRESS + t.index * BLOCK) as u64, flags: 0, padding: 0, bytes: BLOCK as u64 };
        entry::resume(&raw const context as usize)
    }
}
