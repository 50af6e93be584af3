//! Where the processor enters the loader, other than by a call of the program: its handlers, and the first steps of threads.

use crate::block::{alternate_stack, current};
use crate::calls::number as nr;
use crate::dispatch;
use crate::fault;
use crate::frames::*;
use crate::signal;
use crate::strict;
use crate::sys;
use crate::terminal;
use crate::thread::{arm, started};
use crate::x86_64::context::*;
use crate::x86_64::{entry, gate};

/// Our handlers; everything else at its default, SIGPIPE ignored (a program's own comes from the controller).
pub fn install_handlers() {
    let flags = SA_SIGINFO | SA_ONSTACK | SA_RESTORER;
    // Faults stay unblocked: one in our copying of the program's memory is expected.
    let faults = FAULTS.iter().fold(0_u64, |mask, signal| mask | 1 << (signal - 1));
    let action = |handler: usize| KernelAction { handler: handler as u64, flags, restorer: entry::restorer(), mask: !faults };
    // SA_RESTART: the controller's may come while a call of ours is in the kernel, by way of a gate.
    native(SIGSYS, &KernelAction { flags: flags | SA_RESTART, ..action(dispatch::on_call as *const () as usize) });
    for signal in FAULTS {
        native(signal, &KernelAction { flags: flags | SA_NODEFER, ..action(fault::on_fault as *const () as usize) });
    }
    native(SIGPIPE, &KernelAction { handler: 1, ..KernelAction::default() });
    terminal::ignore_the_kernels();
}

/// First steps of a thread that shares its maker's memory, on its own block.
#[unsafe(no_mangle)]
unsafe extern "C" fn weft_child_starts() -> ! {
    let t = current();
    alternate_stack(t);
    if t.strict.on {
        strict::thread::begins(t);
    }
    arm();
    if t.set_tid != 0 {
        let _ = sys::write_u32(t.set_tid, sys::call(nr::GETTID, &[]) as u32);
    }
    started(t);
    // SAFETY: the maker has put the frame there.
    unsafe {
        signal::finish(t, &mut *(t.begins_at as *mut Context), None);
        entry::resume(t.begins_at)
    }
}

/// A call that came through a gate; see [`gate`].
#[unsafe(no_mangle)]
unsafe extern "C" fn weft_through_gate(registers: *mut gate::Registers) -> i64 {
    // SAFETY: `weft_gate` has just put them on the thread's block.
    let registers = unsafe { &mut *registers };
    dispatch::through_gate(registers).unwrap_or_else(|| registers.finish())
}
