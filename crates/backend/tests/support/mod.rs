//! Kernels to test against: threads that live in network namespaces of their own, which go away with their last thread and descriptor.

#![allow(dead_code)]

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use weft_backend::{Backend, OpenOptions, Prefix};
use weft_core::{Frame, Instant};

pub const NOW: Instant = Instant::from_millis(5);
const CHUNK_BYTES: usize = 1 << 20;

/// Whether namespaces can be made here; says why not.
pub fn can_make_namespaces() -> bool {
    let result = thread::spawn(|| unshare(CloneFlags::CLONE_NEWNET)).join().unwrap();
    match result {
        Ok(()) => true,
        Err(error) => {
            println!("SKIP: a network namespace cannot be made ({error}): run as root");
            false
        }
    }
}

/// Runs `work` on a thread in a new network namespace.
pub fn in_namespace<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    thread::spawn(|| {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        work()
    })
}

/// A kernel in a namespace, connected through one backend.
pub struct Kernel {
    jobs: Sender<Box<dyn FnOnce() + Send>>,
    thread: Option<JoinHandle<()>>,
}

impl Kernel {
    /// Makes the namespace, and opens the backend in it.
    pub fn new(open: impl FnOnce() -> Box<dyn Backend> + Send + 'static) -> (Kernel, Box<dyn Backend>) {
        let (jobs, queue): (_, Receiver<Box<dyn FnOnce() + Send>>) = channel();
        let (made, backend) = channel();
        let thread = in_namespace(move || {
            made.send(open()).unwrap();
            for job in queue {
                job();
            }
        });
        (Kernel { jobs, thread: Some(thread) }, backend.recv().unwrap())
    }

    /// Starts `work` in the namespace; the receiver gets its result.
    pub fn start<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
        let (done, result) = channel();
        self.jobs.send(Box::new(move || drop(done.send(work())))).unwrap();
        result
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        let (nothing, _) = channel();
        self.jobs = nothing;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

pub fn options(offload: bool, addresses: &[&str]) -> OpenOptions {
    OpenOptions { offload, host_addresses: Some(addresses.iter().map(|text| prefix(text)).collect()), ..OpenOptions::default() }
}

pub fn prefix(text: &str) -> Prefix {
    let (address, bits) = text.split_once('/').unwrap();
    (address.parse().unwrap(), bits.parse().unwrap())
}

/// What passed a bridge.
#[derive(Default, Debug, Clone, Copy)]
pub struct Passed {
    pub frames: usize,
    pub bytes: usize,
    /// Frames of several segments.
    pub large: usize,
    pub partial: usize,
}

/// Moves frames between two backends on a thread until dropped.
pub struct Bridge {
    stop: std::sync::Arc<AtomicBool>,
    thread: Option<JoinHandle<Passed>>,
}

impl Bridge {
    pub fn new(mut one: Box<dyn Backend>, mut other: Box<dyn Backend>) -> Bridge {
        let stop = std::sync::Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = thread::spawn(move || {
            let mut passed = Passed::default();
            let (mut there, mut back) = (VecDeque::new(), VecDeque::new());
            while !stopped.load(Ordering::Relaxed) {
                let moved = pass(&mut *one, &mut *other, &mut there, &mut passed) + pass(&mut *other, &mut *one, &mut back, &mut passed);
                if moved == 0 {
                    wait(&*one, &*other);
                }
            }
            passed
        });
        Bridge { stop, thread: Some(thread) }
    }

    pub fn stop(mut self) -> Passed {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

fn pass(from: &mut dyn Backend, to: &mut dyn Backend, queue: &mut VecDeque<Frame>, passed: &mut Passed) -> usize {
    let mut frames = Vec::new();
    let count = from.receive(NOW, &mut frames, 64).unwrap();
    assert_eq!(count, frames.len());
    for frame in &frames {
        passed.frames += 1;
        passed.bytes += frame.len();
        passed.large += usize::from(frame.meta().gso.is_some());
        passed.partial += usize::from(matches!(frame.meta().checksum, weft_core::Checksum::Partial { .. }));
    }
    queue.extend(frames);
    count + to.transmit(NOW, queue, &mut Vec::new()).unwrap()
}

pub fn wait(one: &dyn Backend, other: &dyn Backend) {
    let mut polled: Vec<PollFd<'_>> =
        [one, other].iter().filter_map(|backend| backend.descriptor()).map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
    poll(&mut polled, PollTimeout::from(20u16)).unwrap();
}

/// Receives until a frame is wanted, for at most five seconds.
pub fn receive_until(backend: &mut dyn Backend, wanted: impl Fn(&Frame) -> bool) -> Frame {
    for _ in 0..250 {
        let mut frames = Vec::new();
        backend.receive(NOW, &mut frames, 64).unwrap();
        if let Some(frame) = frames.into_iter().find(|frame| wanted(frame)) {
            return frame;
        }
        let mut polled = [PollFd::new(backend.descriptor().unwrap(), PollFlags::POLLIN)];
        poll(&mut polled, PollTimeout::from(20u16)).unwrap();
    }
    panic!("the frame did not come");
}

/// Byte `at` of the stream that is sent: has no short period, so that a lost or doubled segment shows.
fn stream(at: usize, bytes: &mut [u8]) {
    for (offset, word) in bytes.chunks_mut(8).enumerate() {
        let number = ((at / 8 + offset) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        word.copy_from_slice(&number.to_be_bytes()[..word.len()]);
    }
}

pub fn send_stream(socket: &mut TcpStream, total: usize) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK_BYTES];
    for at in (0..total).step_by(CHUNK_BYTES) {
        stream(at, &mut chunk);
        socket.write_all(&chunk[..CHUNK_BYTES.min(total - at)])?;
    }
    Ok(())
}

/// Reads the stream and compares every byte.
pub fn check_stream(socket: &mut TcpStream, total: usize) -> io::Result<()> {
    let (mut got, mut expected) = (vec![0; CHUNK_BYTES], vec![0; CHUNK_BYTES]);
    for at in (0..total).step_by(CHUNK_BYTES) {
        let bytes = CHUNK_BYTES.min(total - at);
        socket.read_exact(&mut got[..bytes])?;
        stream(at, &mut expected);
        assert!(got[..bytes] == expected[..bytes], "wrong bytes between {at} and {}", at + bytes);
    }
    Ok(())
}

/// One kernel listens, the other connects: `there` bytes one way, then `back` bytes the other, every one compared.
pub fn exchange(server: &Kernel, address: IpAddr, client: &Kernel, there: usize, back: usize) {
    let (listening, port) = channel();
    let served = server.start(move || {
        // The address may be tentative for a moment.
        let listener =
            (0..100).find_map(|_| TcpListener::bind((address, 0)).map_err(|_| thread::sleep(Duration::from_millis(20))).ok()).unwrap();
        listening.send(listener.local_addr().unwrap()).unwrap();
        let (mut socket, _) = listener.accept().unwrap();
        check_stream(&mut socket, there).unwrap();
        send_stream(&mut socket, back).unwrap();
    });
    let to: SocketAddr = port.recv().unwrap();
    let asked = client.start(move || {
        let mut socket = TcpStream::connect_timeout(&to, Duration::from_secs(10)).unwrap();
        send_stream(&mut socket, there).unwrap();
        check_stream(&mut socket, back).unwrap();
        assert_eq!(socket.read(&mut [0; 1]).unwrap(), 0, "more than was sent");
    });
    // A panic of either drops its sender: the test fails here.
    served.recv_timeout(Duration::from_secs(120)).unwrap();
    asked.recv_timeout(Duration::from_secs(120)).unwrap();
    for kernel in [server, client] {
        let counters = kernel.start(tcp_counters).recv().unwrap();
        let of = |name: &str| counters.iter().find(|(key, _)| key == name).unwrap().1;
        assert_eq!((of("InErrs"), of("InCsumErrors")), (0, 0), "the kernel refused segments: {counters:?}");
        // Frames that were cut wrongly are made good by retransmission: it must stay the exception (a busy machine causes some).
        assert!(of("RetransSegs") * 10 <= of("OutSegs"), "too much was sent again: {counters:?}");
    }
}

/// The TCP counters of this thread's namespace (/proc/net/snmp).
fn tcp_counters() -> Vec<(String, i64)> {
    let text = std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    names.split(' ').map(String::from).zip(values.split(' ').map(|value| value.parse().unwrap())).collect()
}
