//! One processor for a controller and the programs of its nodes. They take turns, so that a second one would be idle; and waking somebody on
//! another processor costs ten times what it costs here.
//!
//! Programs may not use RDTSC (it would tell real time) and CPUID (it would tell which processor it is). Switching between them and a thread that may use
//! them changes CR4 and a model-specific register, which costs more under a hypervisor than everything else of the switch: the controller's thread gives
//! them up, too. Should something in it look at the clock nevertheless (a log line does), it gets RDTSC back until its next turn, as lazily as
//! floating-point registers once were switched; and CPUID likewise.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Mutex, Once, PoisonError};
use std::time::Duration;
use weft_intercept::arch::{Forbidden, forbid, forbidden};
use weft_intercept::sys;

/// How many claims there are on each processor, in this process.
static CLAIMED: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

/// Processors that threads of this process are to be pinned to; released when dropped.
#[derive(Debug)]
pub struct Claim(Vec<usize>);

impl Claim {
    /// As many processors as there are threads: those that fewest others have claimed, beginning with the one that the caller runs on.
    /// A processor comes twice when there are more threads than processors.
    pub fn new(threads: usize) -> Claim {
        let allowed = allowed();
        let mut claimed = CLAIMED.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: takes no pointers.
        let here = usize::try_from(unsafe { libc::sched_getcpu() }).unwrap_or(0);
        let from = allowed.iter().position(|cpu| *cpu == here).unwrap_or(0);
        let mut chosen = Vec::new();
        for _ in 0..threads {
            let order = (0..allowed.len()).map(|step| allowed[(from + step) % allowed.len()]);
            let Some(cpu) = order.min_by_key(|cpu| claimed.get(cpu).copied().unwrap_or(0)) else { break };
            *claimed.entry(cpu).or_default() += 1;
            chosen.push(cpu);
        }
        Claim(chosen)
    }

    /// The processor of a thread, by number. None: the kernel would not say which there are.
    pub fn of(&self, thread: usize) -> Option<usize> {
        self.0.get(thread).copied()
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut claimed = CLAIMED.lock().unwrap_or_else(PoisonError::into_inner);
        for cpu in &self.0 {
            if let Some(count) = claimed.get_mut(cpu) {
                *count = count.saturating_sub(1);
            }
        }
    }
}

/// The processors that the calling thread may run on.
fn allowed() -> Vec<usize> {
    // SAFETY: an all-zero set is empty.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is ours.
    if unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) } < 0 {
        return Vec::new();
    }
    // SAFETY: the numbers are inside the set.
    (0..libc::CPU_SETSIZE as usize).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &set) }).collect()
}

/// How many processors the calling thread may use, and how many threads of this process have claimed one.
pub fn counts() -> (usize, usize) {
    let claimed = CLAIMED.lock().unwrap_or_else(PoisonError::into_inner);
    (allowed().len(), claimed.values().sum())
}

/// Another process, or for 0 the calling thread, is to run on this processor; none: on all that the calling thread may use. What the kernel refuses is left out: it costs time only.
pub(super) fn place(pid: libc::pid_t, cpu: Option<usize>) {
    // SAFETY: an all-zero set is empty.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for cpu in cpu.map_or_else(allowed, |cpu| vec![cpu]) {
        // SAFETY: the number is bounded here, and the set is ours.
        unsafe { libc::CPU_SET(cpu.min(libc::CPU_SETSIZE as usize - 1), &mut set) };
    }
    // SAFETY: the set is ours.
    unsafe { libc::sched_setaffinity(pid, size_of::<libc::cpu_set_t>(), &raw const set) };
}

/// Slices of programs: see `short_slices` of the loader's `guest/init.rs`.
pub(super) const SLICE_SHORT: Duration = Duration::from_micros(100);
/// Of those whom nobody waits for: whoever wakes up beside them runs at once.
pub(super) const SLICE_LONG: Duration = Duration::from_millis(50);

/// How long another process may run at a time while others want to. It gets no other share by that. Kernels before 6.12 know nothing of it.
pub(super) fn slices(pid: libc::pid_t, slice: Duration) {
    // SAFETY: takes no pointers.
    let nice = unsafe { libc::getpriority(libc::PRIO_PROCESS, pid as libc::id_t) };
    // struct sched_attr: size, policy, flags, nice, priority, runtime, deadline, period.
    let mut attributes = [0_u32; 12];
    attributes[0] = size_of_val(&attributes) as u32;
    attributes[4] = nice as u32;
    attributes[6] = slice.as_nanos() as u32;
    // SAFETY: the attributes are ours, and as long as they say.
    unsafe { libc::syscall(libc::SYS_sched_setattr, pid, attributes.as_ptr(), 0) };
}

/// What a controller's thread is without.
const GIVEN_UP: [Forbidden; 2] = [Forbidden::Clock, Forbidden::Processor];

thread_local! {
    /// This thread wants to be without those.
    static WITHOUT: Cell<bool> = const { Cell::new(false) };
    /// Which of them it has got back in the meantime, a bit each.
    static LENT: Cell<u8> = const { Cell::new(0) };
}

/// The calling thread is a controller's: it stays on one processor, without RDTSC and CPUID, until this is dropped.
#[derive(Debug)]
pub struct Pinned {
    /// Where it could run before.
    before: Option<libc::cpu_set_t>,
    /// Belongs to the thread.
    not_send: std::marker::PhantomData<*const ()>,
}

impl Pinned {
    /// Pins the calling thread. What the kernel refuses is left out: it costs time only.
    pub fn new(cpu: usize) -> Pinned {
        // SAFETY: an all-zero set is empty.
        let mut before: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: the set is ours.
        let had = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut before) } == 0;
        place(0, Some(cpu));
        catch();
        WITHOUT.set(true);
        LENT.set(0);
        for what in GIVEN_UP {
            forbid(what, true);
        }
        Pinned { before: had.then_some(before), not_send: std::marker::PhantomData }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        WITHOUT.set(false);
        for what in GIVEN_UP {
            forbid(what, false);
        }
        if let Some(before) = &self.before {
            // SAFETY: the set is ours.
            unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), before) };
        }
    }
}

/// Calls something that is likely to look at the clock.
pub fn with_clock<R>(f: impl FnOnce() -> R) -> R {
    if !WITHOUT.get() {
        return f();
    }
    forbid(Forbidden::Clock, false);
    let result = f();
    forbid(Forbidden::Clock, true);
    LENT.set(LENT.get() & !(Forbidden::Clock as u8));
    result
}

/// Calls something that starts a program: what this thread is without, its children are without, too, and have no handler that would lend it.
pub fn with_all<R>(f: impl FnOnce() -> R) -> R {
    if !WITHOUT.get() {
        return f();
    }
    GIVEN_UP.into_iter().for_each(|what| forbid(what, false));
    let result = f();
    GIVEN_UP.into_iter().for_each(|what| forbid(what, true));
    LENT.set(0);
    result
}

/// Gives up again what a fault gave back.
pub(super) fn without_clock() {
    let lent = LENT.replace(0);
    if lent != 0 && WITHOUT.get() {
        for what in GIVEN_UP.into_iter().filter(|what| lent & *what as u8 != 0) {
            forbid(what, true);
        }
    }
}

/// What was there before our handler.
static mut BEFORE: std::mem::MaybeUninit<libc::sigaction> = std::mem::MaybeUninit::zeroed();

/// Installs the handler that lends them.
fn catch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: an all-zero sigaction is valid; the handler makes one system call and chains to what was there, which nobody else touches.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_fault as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
            libc::sigaction(libc::SIGSEGV, &raw const action, (&raw mut BEFORE).cast());
        }
    });
}

extern "C" fn on_fault(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // arch/x86/include/uapi/asm/siginfo.h: a general protection fault has no address.
    const SI_KERNEL: i32 = 0x80;
    // SAFETY: the kernel has built both; the instruction that faulted by itself can be read. The rest is what the handler before would have got.
    unsafe {
        if (*info).si_code == SI_KERNEL
            && let Some(what) = forbidden(context)
        {
            LENT.set(LENT.get() | what as u8);
            let errno = sys::last();
            forbid(what, false);
            *libc::__errno_location() = errno.0;
            return;
        }
        let before = (&raw const BEFORE).cast::<libc::sigaction>().read();
        match before.sa_sigaction {
            libc::SIG_DFL | libc::SIG_IGN => {
                // Happens again when we return, and then ends the process.
                libc::signal(signal, libc::SIG_DFL);
            }
            handler if before.sa_flags & libc::SA_SIGINFO != 0 => {
                let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = std::mem::transmute(handler);
                handler(signal, info, context);
            }
            handler => {
                let handler: extern "C" fn(libc::c_int) = std::mem::transmute(handler);
                handler(signal);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_without_rdtsc_and_cpuid_still_gets_their_answers() {
        let processor = weft_intercept::arch::ask_processor(0, 0);
        let Some(cpu) = Claim::new(1).of(0) else { return };
        std::thread::spawn(move || {
            let before = allowed();
            {
                let _pinned = Pinned::new(cpu);
                assert_eq!(allowed(), [cpu]);
                // The first of these fault, and are given back; then they are taken away again.
                for _ in 0..3 {
                    let one = std::time::Instant::now();
                    assert!(std::time::Instant::now() >= one);
                    assert_eq!(weft_intercept::arch::ask_processor(0, 0), processor);
                    without_clock();
                }
                assert!(with_clock(|| std::time::Instant::now().elapsed().as_secs() < 3600));
            }
            assert_eq!(allowed(), before);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn claims_spread_over_the_processors() {
        let count = allowed().len();
        let one = Claim::new(count);
        let mut cpus = one.0.clone();
        cpus.sort_unstable();
        cpus.dedup();
        assert_eq!(cpus.len(), count);
        drop(one);
        assert!(Claim::new(3 * count).of(3 * count - 1).is_some());
    }
}
