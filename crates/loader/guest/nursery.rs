//! The nursery: a process in the namespaces that all nodes share (users), which makes process 1 of each node on order. A copy of this small process
//! costs a tenth of what it costs to make one of the controller, with all its descriptors and memory, and to execute the loader in it.
//!
//! What is made belongs to the controller (CLONE_PARENT); it builds the node's files as it is told, and goes on as init. The nursery ends with its
//! socket of orders.

use crate::abi::{self, Order};
use crate::arena;
use crate::calls::number as nr;
use crate::init;
use crate::memory;
use crate::stack::Kernel;
use crate::steps::do_steps;
use crate::sys;

const SIGCHLD: usize = 17;
const CLONE_PARENT: usize = 0x8000;
const CLONE_NEWPID: usize = 0x2000_0000;
const DESCRIPTORS: usize = abi::ORDER_DESCRIPTORS;

/// Is this process to be the nursery? Nobody but the controller opens this descriptor.
pub fn is_here() -> bool {
    let (mut kind, mut bytes) = (0_u32, 4_u32);
    const SOL_SOCKET: usize = 1;
    const SO_TYPE: usize = 3;
    let arguments = [abi::DESCRIPTOR_COMMANDS as usize, SOL_SOCKET, SO_TYPE, &raw mut kind as usize, &raw mut bytes as usize];
    sys::call(nr::GETSOCKOPT, &arguments) == 0
}

pub fn run(kernel: &Kernel) -> ! {
    // What is the same for all that are born here is done once.
    let inherited = init::Inherited { guarded: init::guard(), vdso: memory::kernels(kernel.vdso()) };
    loop {
        let mut descriptors = [-1_i32; DESCRIPTORS];
        let Some(order) = receive(&mut descriptors) else {
            sys::call(nr::EXIT_GROUP, &[0]);
            continue;
        };
        let pid = match order.what {
            abi::ORDER_PREPARE => do_steps(order.namespaces, order.steps_bytes as usize, &descriptors),
            _ => sys::call(nr::CLONE, &[CLONE_NEWPID | CLONE_PARENT | SIGCHLD, 0, 0, 0, 0]),
        };
        if pid == 0 && order.what == abi::ORDER_BEAR {
            begin(&inherited, &order, descriptors);
        }
        for fd in descriptors {
            sys::call(nr::CLOSE, &[fd as usize]);
        }
        let reply = (pid as i64).to_ne_bytes();
        sys::call(nr::WRITE, &[abi::DESCRIPTOR_COMMANDS as usize, reply.as_ptr() as usize, reply.len()]);
    }
}

fn receive(descriptors: &mut [i32; DESCRIPTORS]) -> Option<Order> {
    let mut order = Order::default();
    let vector = [&raw mut order as usize, size_of::<Order>()];
    // cmsghdr of 16 bytes and the descriptors.
    let mut control = [0_u64; 2 + DESCRIPTORS / 2];
    let bytes = size_of_val(&control);
    let message = [0, 0, vector.as_ptr() as usize, 1, control.as_mut_ptr() as usize, bytes, 0];
    let received = loop {
        let received = sys::call(nr::RECVMSG, &[abi::DESCRIPTOR_COMMANDS as usize, message.as_ptr() as usize, 0]);
        if received != sys::EINTR {
            break received;
        }
    };
    if received != size_of::<Order>() as isize || control[0] as usize != bytes {
        return None;
    }
    for (index, into) in descriptors.iter_mut().enumerate() {
        *into = (control[2 + index / 2] >> (32 * (index % 2))) as i32;
    }
    Some(order)
}

/// In the new process: namespaces, files, descriptors; then it is init.
fn begin(inherited: &init::Inherited, order: &Order, descriptors: [i32; DESCRIPTORS]) -> ! {
    let [arena, control, commands, ..] = descriptors;
    let give_up = || sys::call(nr::EXIT_GROUP, &[1]);
    if do_steps(order.namespaces, order.steps_bytes as usize, &descriptors) != 0 {
        give_up();
    }
    for (from, to) in [(arena, abi::DESCRIPTOR_ARENA), (control, abi::DESCRIPTOR_CONTROL), (commands, abi::DESCRIPTOR_COMMANDS)] {
        sys::call(nr::DUP2, &[from as usize, to as usize]);
    }
    sys::call(nr::CLOSE_RANGE, &[3, abi::DESCRIPTOR_COMMANDS as usize - 1, 0]);
    forget_standard_streams();
    limit(order);
    sys::call(nr::SETSID, &[]);
    if order.cpu != u32::MAX {
        let mut set = [0_u64; 16];
        set[order.cpu as usize / 64 % 16] = 1 << (order.cpu % 64);
        sys::call(nr::SCHED_SETAFFINITY, &[0, size_of_val(&set), set.as_ptr() as usize]);
    }
    if !arena::map_arena() {
        give_up();
    }
    // SAFETY: a process of its own, with the arena mapped.
    unsafe { init::run(inherited) }
}

/// What weft was started with leads out of the node: /proc/1/fd must not name it.
fn forget_standard_streams() {
    const O_RDWR: usize = 2;
    sys::call(nr::CLOSE_RANGE, &[0, 2, 0]);
    // The lowest number that is free: 0.
    if sys::call(nr::OPEN, &[c"/dev/null".as_ptr() as usize, O_RDWR, 0]) == 0 {
        sys::call(nr::DUP2, &[0, 1]);
        sys::call(nr::DUP2, &[0, 2]);
    }
}

fn limit(order: &Order) {
    const RLIMIT_DATA: usize = 2;
    const RLIMIT_NOFILE: usize = 7;
    sys::call(nr::SETRLIMIT, &[RLIMIT_NOFILE, order.descriptors.as_ptr() as usize]);
    let mut data = [u64::MAX; 2];
    sys::call(nr::GETRLIMIT, &[RLIMIT_DATA, data.as_mut_ptr() as usize]);
    if order.memory != u64::MAX {
        // Where the host allows less, that is what there is.
        let data = [order.memory.min(data[1]); 2];
        sys::call(nr::SETRLIMIT, &[RLIMIT_DATA, data.as_ptr() as usize]);
    }
}
