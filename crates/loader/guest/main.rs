//! The loader. See the crate's documentation, docs/architecture/loader.md, and `../src/abi.rs` for what it shares with the controller.
//!
//! Three lives: as the *nursery* it makes processes 1 of nodes; as *init* it is one of these and starts programs on command; executed in a program's
//! place it maps the program and goes on as the handler of its system calls. It has no allocator, no threads of its own, and never unwinds.
//!
//! On unsafe code: this whole program works below the level at which the compiler could check anything. The addresses it uses are of four
//! kinds: of the program, which only [`sys::copy_in`] and [`sys::copy_out`] touch (they survive a fault); of the arena, atomic; of the
//! calling thread's own block, which nobody else uses; and of the process's statics, used by one thread at a time, since one thread of a
//! node runs at a time.
#![no_std]
#![no_main]

#[path = "../src/calls/mod.rs"]
#[allow(dead_code)]
#[macro_use]
mod calls;

#[path = "../src/abi.rs"]
#[allow(dead_code)]
mod abi;
mod ahead;
mod arena;
mod block;
mod call;
mod channel;
mod clocks;
mod copy_up;
mod descriptor;
mod dispatch;
mod elf;
mod exec;
mod fault;
mod files;
mod forward;
mod frames;
mod hidden;
mod identity;
mod init;
mod layer;
mod limits;
mod listing;
mod lock;
mod locks;
mod memory;
mod native;
mod nursery;
mod output_file;
mod proc;
mod program_name;
mod random;
mod resident;
mod scrub;
mod signal;
mod stack;
mod start;
mod steps;
mod strict;
mod sys;
mod terminal;
mod terminals;
mod thread;
mod times;
mod trace;
mod turns;
mod unix;
mod waits;
mod x86_64;

use calls::number as nr;
use core::sync::atomic::Ordering::Relaxed;
use x86_64::{entry, gate};

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    sys::die("an internal error (a bug in weft)", 0)
}

/// Comes from `_start` with the kernel's stack.
#[unsafe(no_mangle)]
unsafe extern "C" fn weft_start(stack: *const usize) -> ! {
    // SAFETY: first thing of all; the kernel's stack is as execve(2) leaves it.
    unsafe {
        entry::relocate();
        let from_kernel = stack::Kernel::parse(stack);
        if !arena::map_arena() {
            if nursery::is_here() {
                nursery::run(&from_kernel);
            }
            sys::die("this program is a part of weft and cannot be run by itself; see `weft help`", 0);
        }
        memory::fill_gaps();
        if arena::header().flags.load(Relaxed) & abi::STRICT != 0 {
            strict::image::start(&from_kernel);
        }
        if arena::header().exec_channel.load(Relaxed) == u32::MAX {
            init::run(&init::Inherited::by_itself());
        }
        program(&from_kernel)
    }
}

/// Loads the program and begins it under interception.
unsafe fn program(from_kernel: &stack::Kernel) -> ! {
    // SAFETY: the only thread of a process that has just been executed.
    unsafe {
        let index = arena::header().exec_channel.load(Relaxed) as usize;
        let t = thread::first(index);
        thread::set_up(t);
        signal::after_exec(t);
        identity::after_exec(t.process);
        program_name::name_thread(t);
        let image = elf::load_program(t);
        memory::set_break(image.program.end);
        memory::unmap_kernels(from_kernel.vdso());
        memory::reserve();
        let vdso = elf::map_vdso();
        gate::prepare();
        let begin = stack::build(t, from_kernel, &image, vdso);
        start::install_handlers();
        if arena::header().flags.load(Relaxed) & abi::DEBUGGED != 0 {
            // PR_SET_PTRACER, PR_SET_PTRACER_ANY (Yama); without Yama it fails and is not needed.
            sys::call(nr::PRCTL, &[0x5961_6d61, usize::MAX]);
        }
        channel::post(t, abi::HELLO, &[sys::call(nr::GETPID, &[]) as u64, sys::call(nr::GETTID, &[]) as u64]);
        // A signal that came meanwhile is delivered with the first call.
        sys::unblock_all();
        thread::arm();
        entry::enter(begin, image.entry)
    }
}
