//! Faults: of our own copies of the program's memory, of instructions that would tell real time or chance, and of the program.

use crate::abi;
use crate::arena::header;
use crate::block;
use crate::channel::post;
use crate::dispatch;
use crate::frames;
use crate::signal;
use crate::sys;
use crate::x86_64::context::*;
use crate::x86_64::{entry, gate};
use core::sync::atomic::Ordering::Relaxed;

const SI_KERNEL: i32 = 0x80;
const SIGILL: i32 = 4;

/// Handler of SIGILL, SIGTRAP, SIGBUS, SIGFPE and SIGSEGV.
pub unsafe extern "C" fn on_fault(number: i32, info: *const Info, context: *mut Context) {
    crate::x86_64::entry::unaligned_again();
    // SAFETY: the kernel has built both on the thread's block.
    let (info, context) = unsafe { (&*info, &mut *context) };
    let at = context.registers[RIP];
    if let Some(after) = entry::after_copy(at) {
        context.registers[RIP] = after;
        return;
    }
    let (start, bytes) = entry::text();
    if (at as usize) >= start && (at as usize) < start + bytes {
        sys::say("a fault in the loader (a bug in weft), address", info.address as usize);
        sys::die("  at offset", at as usize - start);
    }
    if number == 11 && info.code == SI_KERNEL && emulate(context) {
        return;
    }
    let t = block::current();
    if number == SIGILL && gate::site_before(at + 2).is_some() {
        // Where the syscall instruction was.
        let number = context.registers[RAX] as usize;
        context.registers[RIP] = at + 2;
        dispatch::trapped(t, context, number, at + 2);
        return;
    }
    let signal = number as usize & 63;
    let handled = t.process.actions[signal].handler.load(Relaxed) > 1;
    if handled && t.channel.mask.load(Relaxed) & 1 << (signal - 1) == 0 {
        signal::deliver(t, signal, info, context);
    } else {
        // force_sig: a blocked or ignored fault kills.
        post(t, abi::FATAL, &[signal as u64]);
        frames::die_of(signal);
    }
}

/// RDTSC, RDTSCP, CPUID where they fault.
fn emulate(context: &mut Context) -> bool {
    let mut code = [0; 3];
    if sys::copy_in(context.registers[RIP] as usize, &mut code[..2]).is_err() {
        return false;
    }
    let _ = sys::copy_in(context.registers[RIP] as usize, &mut code);
    match code {
        [0x0f, 0x31, _] => {
            time_stamp(context);
            context.registers[RIP] += 2;
        }
        [0x0f, 0x01, 0xf9] => {
            time_stamp(context);
            context.registers[RCX] = 0;
            context.registers[RIP] += 3;
        }
        [0x0f, 0xa2, _] => {
            let (leaf, sub) = (context.registers[RAX] as u32, context.registers[RCX] as u32);
            let [a, b, c, d] = header().processor.tell(leaf, sub);
            context.registers[RAX] = u64::from(a);
            context.registers[RBX] = u64::from(b);
            context.registers[RCX] = u64::from(c);
            context.registers[RDX] = u64::from(d);
            context.registers[RIP] += 2;
        }
        _ => return false,
    }
    true
}

/// A time stamp counter of 1 GHz that began with the node, by a crystal that may be wrong. Each look costs what a call costs.
fn time_stamp(context: &mut Context) {
    let header = header();
    let now = header.now.load(Relaxed) + header.per_call.load(Relaxed);
    header.now.store(now, Relaxed);
    if now >= header.grant.load(Relaxed) {
        post(block::current(), abi::YIELD, &[]);
    }
    let ticks = header.present(abi::Clock::Raw);
    context.registers[RAX] = ticks & 0xffff_ffff;
    context.registers[RDX] = ticks >> 32;
}
