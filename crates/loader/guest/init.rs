//! Process 1 of a node: prepares the namespaces once, then starts programs on command. It ends with its command socket, and with it every
//! process of the node.

use crate::abi;
use crate::arena::{channel, header};
use crate::calls::number as nr;
use crate::steps;
use crate::sys;
use crate::thread;
use crate::x86_64::entry;
use core::sync::atomic::Ordering::Relaxed;

const SIGCHLD: usize = 17;

/// What a process 1 has from who made it.
pub struct Inherited {
    /// What [`guard`] said.
    pub guarded: isize,
    /// What [`memory::kernels`] said.
    pub vdso: Option<[usize; 2]>,
}

impl Inherited {
    /// Nobody has prepared anything.
    pub fn by_itself() -> Inherited {
        Inherited { guarded: guard(), vdso: None }
    }
}

pub unsafe fn run(inherited: &Inherited) -> ! {
    // The child reads no randomised address: ADDR_NO_RANDOMIZE holds from the next exec on. Nothing of what weft was started with is kept.
    const ADDR_NO_RANDOMIZE: usize = 0x4_0000;
    sys::call(nr::PERSONALITY, &[ADDR_NO_RANDOMIZE]);
    // PR_SET_TIMERSLACK: Linux's own.
    sys::call(nr::PRCTL, &[29, 50_000]);
    sys::call(nr::PRCTL, &[15, c"init".as_ptr() as usize]);
    prepare(inherited);
    short_slices();
    ignore_children(1);
    number_from(header().first_pid.load(Relaxed));
    // PR_SET_DUMPABLE, or the controller could not read our memory after a change of identity.
    sys::call(nr::PRCTL, &[4, 1]);
    let ready = [1_u8];
    sys::call(nr::WRITE, &[abi::DESCRIPTOR_CONTROL as usize, ready.as_ptr() as usize, 1]);
    loop {
        let mut descriptors = [-1_i32; 3];
        match receive(&mut descriptors) {
            Some(abi::COMMAND_SPAWN) => spawn(descriptors),
            Some(abi::COMMAND_STEPS) => {
                steps::do_list(descriptors[0]);
                sys::call(nr::WRITE, &[abi::DESCRIPTOR_CONTROL as usize, ready.as_ptr() as usize, 1]);
            }
            Some(_) => {}
            None => {
                sys::call(nr::EXIT_GROUP, &[0]);
            }
        }
        for fd in descriptors {
            if fd >= 0 {
                sys::call(nr::CLOSE, &[fd as usize]);
            }
        }
    }
}

fn failed(step: u32, errno: isize) {
    header().init_failed.fetch_or(step, Relaxed);
    header().init_errno.store(-errno as u32, Relaxed);
}

/// A task with shorter slices than the one that wakes it runs at once, and the one that has woken it need not be woken itself later: it has not
/// slept yet. It gets no larger a share of the processor by that. Kernels before 6.12 know nothing of it.
fn short_slices() {
    const SLICE_NANOS: u64 = 100_000;
    // struct sched_attr: size, policy, flags, nice, priority, runtime, deadline, period.
    let mut attributes = [0_u32; 12];
    attributes[0] = 48;
    // getpriority tells 20 less the value.
    let nice = 20 - sys::call(nr::GETPRIORITY, &[0, 0]);
    attributes[4] = nice as u32;
    attributes[6] = SLICE_NANOS as u32;
    sys::call(nr::SCHED_SETATTR, &[0, attributes.as_ptr() as usize, 0]);
}

/// Namespaces, host name, /proc.
fn prepare(inherited: &Inherited) {
    let [before, bytes] = inherited.vdso.unwrap_or_default();
    header().vdso_before.store(before as u64, Relaxed);
    header().vdso_bytes.store(bytes as u64, Relaxed);
    let flags = header().flags.load(Relaxed);
    if flags & abi::SET_NAME != 0 {
        let name = header().name.pointer();
        let mut length = 0;
        // SAFETY: inside the area.
        while length < abi::NAME_BYTES && unsafe { name.add(length).read() } != 0 {
            length += 1;
        }
        let errno = sys::call(nr::SETHOSTNAME, &[name as usize, length]);
        if errno < 0 {
            failed(abi::INIT_NAME, errno);
        }
    }
    if flags & abi::MOUNT_PROC != 0 {
        // MS_REC|MS_PRIVATE: nothing we mount is seen outside.
        let mut errno = sys::call(nr::MOUNT, &[0, c"/".as_ptr() as usize, 0, 0x4_4000, 0]);
        if errno == 0 {
            let proc = c"proc".as_ptr() as usize;
            // MS_NOSUID|MS_NODEV|MS_NOEXEC
            errno = sys::call(nr::MOUNT, &[proc, c"/proc".as_ptr() as usize, proc, 14, 0]);
        }
        if errno < 0 {
            failed(abi::INIT_PROC, errno);
        }
    }
    if inherited.guarded < 0 {
        failed(abi::INIT_VSYSCALL, inherited.guarded);
    }
}

/// The filter on the vsyscall page, for this process and all that come of it.
pub fn guard() -> isize {
    // PR_SET_NO_NEW_PRIVS: without privilege a filter needs it; set-user-id programs get no rights here either way.
    sys::call(nr::PRCTL, &[38, 1, 0, 0, 0]);
    #[repr(C)]
    struct Program {
        length: u16,
        filter: usize,
    }
    let program = Program { length: entry::VSYSCALL_FILTER.len() as u16, filter: entry::VSYSCALL_FILTER.as_ptr() as usize };
    sys::call(nr::SECCOMP, &[1, 0, &raw const program as usize])
}

/// The next process gets this number. Where ns_last_pid is not there (CONFIG_CHECKPOINT_RESTORE) or cannot be written, as in many containers, the numbers
/// before it are used up.
fn number_from(first: u32) {
    let last = first.saturating_sub(1);
    if last <= 1 || wrote_last(last) {
        return;
    }
    loop {
        match sys::call(nr::CLONE, &[SIGCHLD, 0, 0, 0, 0]) {
            0 => {
                sys::call(nr::EXIT_GROUP, &[0]);
            }
            errno if errno < 0 => return failed(abi::INIT_PID, errno),
            pid if pid as u32 >= last => return,
            _ => {}
        }
    }
}

fn wrote_last(pid: u32) -> bool {
    let mut digits = [0; 20];
    let length = sys::decimal(pid.into(), &mut digits);
    // O_WRONLY|O_CLOEXEC
    let file = sys::call(nr::OPEN, &[c"/proc/sys/kernel/ns_last_pid".as_ptr() as usize, 0x8_0001]);
    if file < 0 {
        return false;
    }
    let written = sys::call(nr::WRITE, &[file as usize, digits.as_ptr() as usize, length]);
    sys::call(nr::CLOSE, &[file as usize]);
    written == length as isize
}

/// SIGCHLD ignored: the kernel reaps orphans by itself.
fn ignore_children(handler: u64) {
    let action = [handler, 0, 0, 0];
    sys::call(nr::RT_SIGACTION, &[SIGCHLD, action.as_ptr() as usize, 0, 8]);
}

/// One command and the descriptors that come with it; None: the controller is gone.
fn receive(descriptors: &mut [i32; 3]) -> Option<u8> {
    let mut byte = [0_u8];
    let vector = [byte.as_mut_ptr() as usize, 1];
    // cmsghdr of 16 bytes, three descriptors, padding.
    let mut control = [0_u32; 8];
    let message = [0, 0, vector.as_ptr() as usize, 1, control.as_mut_ptr() as usize, 32, 0];
    let bytes = loop {
        let bytes = sys::call(nr::RECVMSG, &[abi::DESCRIPTOR_COMMANDS as usize, message.as_ptr() as usize, 0]);
        if bytes != sys::EINTR {
            break bytes;
        }
    };
    if bytes <= 0 {
        return None;
    }
    // One descriptor, or three.
    let count = (control[0].min(message[5] as u32).saturating_sub(16) / 4) as usize;
    for (into, from) in descriptors.iter_mut().zip(&control[4..7]).take(count) {
        *into = *from as i32;
    }
    Some(byte[0])
}

/// Starts what lies in the spawn area.
fn spawn(descriptors: [i32; 3]) {
    let pid = sys::call(nr::CLONE, &[SIGCHLD, 0, 0, 0, 0]);
    if pid != 0 {
        return;
    }
    ignore_children(0);
    sys::call(nr::SETSID, &[]);
    for (number, fd) in descriptors.into_iter().enumerate() {
        sys::call(nr::DUP2, &[fd as usize, number]);
    }
    // Everything else that is open is ours, or a copy of these.
    sys::call(nr::CLOSE_RANGE, &[3, abi::DESCRIPTOR_LOADER as usize - 1, 0]);
    let area = abi::ARENA_ADDRESS + abi::spawn_at();
    let word = |index: usize| sys::read_u32(area + 4 * index).unwrap_or(0) as usize;
    let (arguments, variables, index) = (word(0), word(1), word(3));
    let text = |at: usize| {
        // SAFETY: the controller has put texts with zeros there.
        unsafe { core::ffi::CStr::from_ptr(at as *const core::ffi::c_char) }.to_bytes_with_nul().len()
    };
    let mut at = area + 16;
    let directory = at;
    at += text(at);
    let program = at;
    at += text(at);
    let Some(list) = sys::map((arguments + variables + 2) * 8) else { sys::die("no memory to start a program", 0) };
    let mut slot = list;
    for count in [arguments, variables] {
        for _ in 0..count {
            let _ = sys::write_u64(slot, at as u64);
            slot += 8;
            at += text(at);
        }
        slot += 8;
    }
    channel(index).tid.store(sys::call(nr::GETTID, &[]) as u32, Relaxed);
    crate::channel::announce();
    // SAFETY: the only thread of a new process.
    let t = unsafe { thread::first(index) };
    let moved = sys::call(nr::CHDIR, &[directory]);
    let errno = if moved < 0 { moved } else { crate::exec::execve(t, program, list, list + (arguments + 1) * 8) };
    crate::channel::post(t, abi::EXEC_FAILED, &[-errno as u64, 1]);
    sys::call(nr::EXIT_GROUP, &[127]);
}
