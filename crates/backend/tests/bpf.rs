//! Packet filters, ours beside the kernel's: random programs over random datagrams give the same answers.

use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;
use weft_core::bpf::{Instruction, Program};
use weft_core::{Frame, Rng};

/// Every operation, with operands that mostly make sense.
const CODES: [u16; 43] = [
    0x20, 0x28, 0x30, 0x40, 0x48, 0x50, 0x00, 0x80, 0x60, 0x01, 0x81, 0x61, 0xb1, 0x02, 0x03, 0x04, 0x0c, 0x14, 0x1c, 0x24, 0x2c, 0x34,
    0x3c, 0x44, 0x4c, 0x54, 0x5c, 0x64, 0x6c, 0x74, 0x7c, 0x94, 0x9c, 0xa4, 0xac, 0x84, 0x05, 0x15, 0x1d, 0x25, 0x35, 0x45, 0x07,
];

fn program(rng: &mut Rng) -> Vec<Instruction> {
    let length = 4 + rng.below(30) as usize;
    let mut program: Vec<Instruction> = (0..length - 1)
        .map(|at| {
            let code = CODES[rng.below(CODES.len() as u64) as usize];
            let left = (length - 1 - at) as u64;
            let k = match code & 7 {
                // Stores and loads of memory, which the kernel wants to be stored to before they are loaded.
                2 | 3 => rng.below(4) as u32,
                _ if matches!(code, 0x60 | 0x61) => rng.below(4) as u32,
                5 if code == 0x05 => rng.below(left) as u32,
                _ if rng.chance(0.1) => rng.u32(),
                _ => rng.below(70) as u32,
            };
            let skip = |rng: &mut Rng| rng.below(left.min(200)) as u8;
            let jump = code & 7 == 5 && code != 0x05;
            Instruction { code, jt: if jump { skip(rng) } else { 0 }, jf: if jump { skip(rng) } else { 0 }, k }
        })
        .collect();
    let accumulator = rng.chance(0.5);
    program.push(Instruction { code: if accumulator { 0x16 } else { 0x06 }, jt: 0, jf: 0, k: rng.below(80) as u32 });
    program
}

fn attach(socket: &UnixDatagram, program: &[Instruction]) -> bool {
    let mut filter: Vec<libc::sock_filter> =
        program.iter().map(|one| libc::sock_filter { code: one.code, jt: one.jt, jf: one.jf, k: one.k }).collect();
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    let length = size_of::<libc::sock_fprog>() as libc::socklen_t;
    // SAFETY: the option takes a struct sock_fprog, which lives over the call and points to as many instructions as it says.
    0 == unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, (&raw const program).cast(), length) }
}

/// How many bytes of a datagram the kernel's filter lets through; 0: it rejects it.
fn kernel(sender: &UnixDatagram, receiver: &UnixDatagram, bytes: &[u8]) -> usize {
    // A rejected datagram is EPERM for the sender.
    if sender.send(bytes).is_err() {
        return 0;
    }
    let mut buffer = [0u8; 256];
    receiver.recv(&mut buffer).unwrap_or(0)
}

#[test]
fn random_programs_give_what_the_kernel_gives() {
    let mut rng = Rng::for_name(7, "bpf");
    let (mut ran, mut both, mut accepted) = (0, 0, 0);
    for _ in 0..20_000 {
        let instructions = program(&mut rng);
        let (sender, receiver) = UnixDatagram::pair().unwrap();
        receiver.set_nonblocking(true).unwrap();
        let ours = Program::new(&instructions);
        let theirs = attach(&receiver, &instructions);
        // The kernel refuses loads from memory that may not have been stored to; ours reads zero.
        let odd = instructions.iter().any(|one| matches!(one.code, 0x60 | 0x61));
        let ancillary = matches!(ours, Err(weft_core::bpf::BpfError::Ancillary(_)));
        assert!(ours.is_ok() == theirs || odd || ancillary, "{instructions:?}: {ours:?}, the kernel: {theirs}");
        both += u32::from(ours.is_ok() == theirs);
        let (Ok(ours), true) = (ours, theirs) else { continue };
        for _ in 0..3 {
            let bytes: Vec<u8> = (0..1 + rng.below(100)).map(|_| rng.u32() as u8).collect();
            let found = ours.run(&Frame::ingress(&bytes)).min(bytes.len() as u32) as usize;
            assert_eq!(found, kernel(&sender, &receiver, &bytes), "{instructions:?} over {bytes:?}");
            ran += 1;
            accepted += u32::from(found > 0);
        }
    }
    assert!(both > 12_000 && ran > 10_000 && accepted > 2_000, "too few were comparable: {both} {ran} {accepted}");
}
