//! How fast a TAP device and a packet socket on a veth pair are read and written: frames of 64 KB, and of 1500 bytes, in a network namespace of
//! its own.
//!
//! Prints Gbit/s of payload and nanoseconds per frame; run with `--release`, as root. Writing stops at the kernel's IP layer (the frames are for
//! another station); reading is fed by threads that send UDP to a neighbour who is not there.

use etherparse::PacketBuilder;
use nix::sched::{CloneFlags, unshare};
use nix::sys::socket::{setsockopt, sockopt};
use std::collections::VecDeque;
use std::error::Error;
use std::net::UdpSocket;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant as Clock};
use weft_backend::{Backend, OpenOptions, host_side, open};
use weft_core::{Bytes, Checksum, Frame, Gso, GsoKind, Instant};

const SECONDS: Duration = Duration::from_secs(2);
const LARGE_BYTES: usize = 64_000;
const SEGMENT_BYTES: u16 = 1448;
const BATCH_FRAMES: usize = 32;

fn report(what: &str, frames: u64, bytes: u64, elapsed: Duration) {
    let (nanos, gbits) = (elapsed.as_nanos() as f64 / frames as f64, bytes as f64 * 8.0 / elapsed.as_nanos() as f64);
    println!("{what:<46} {nanos:>8.0} ns/frame {gbits:>7.2} Gbit/s {:>8.0} bytes/frame", bytes as f64 / frames as f64);
}

/// A TCP segment for nobody here.
fn frame(payload: &Bytes) -> Frame {
    let mut bytes = Vec::new();
    let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 9, 0, 2], [10, 9, 0, 1], 64).tcp(80, 4000, 1, 1000);
    builder.write(&mut bytes, payload).expect("a vector takes everything");
    let mut frame = Frame::ingress(&bytes[..54]);
    frame.append(payload.clone());
    frame.meta_mut().checksum = Checksum::Partial { offset: 16 };
    if payload.len() > usize::from(SEGMENT_BYTES) {
        frame.meta_mut().gso = Some(Gso { segment_bytes: SEGMENT_BYTES, kind: GsoKind::Tcp });
    }
    frame
}

fn write(backend: &mut dyn Backend, what: &str, payload_bytes: usize) -> Result<(), Box<dyn Error>> {
    let frame = frame(&Bytes::from(vec![7; payload_bytes]));
    let (mut frames, mut queue, mut done) = (0, VecDeque::new(), Vec::new());
    let start = Clock::now();
    while start.elapsed() < SECONDS {
        queue.extend(std::iter::repeat_n(&frame, BATCH_FRAMES).cloned());
        backend.transmit(Instant::ZERO, &mut queue, &mut done)?;
        frames += BATCH_FRAMES as u64;
    }
    report(what, frames, frames * payload_bytes as u64, start.elapsed());
    Ok(())
}

fn read(backend: &mut dyn Backend, what: &str, segment_bytes: Option<u16>, network: u8) -> Result<(), Box<dyn Error>> {
    let stop = AtomicBool::new(false);
    let datagram_bytes = usize::from(SEGMENT_BYTES) * if segment_bytes.is_some() { 44 } else { 1 };
    std::thread::scope(|scope| {
        let socket = UdpSocket::bind(format!("10.{network}.0.1:0"))?;
        if let Some(bytes) = segment_bytes {
            setsockopt(&socket, sockopt::UdpGsoSegment, &i32::from(bytes))?;
        }
        let stopped = &stop;
        scope.spawn(move || {
            let payload = vec![5; datagram_bytes];
            while !stopped.load(Ordering::Relaxed) {
                // A full queue is what we want.
                let _ = socket.send_to(&payload, format!("10.{network}.0.2:9"));
            }
        });
        let (mut frames, mut bytes, mut reading) = (0, 0, Duration::ZERO);
        let mut received = Vec::new();
        let start = Clock::now();
        while start.elapsed() < SECONDS {
            let before = Clock::now();
            if backend.receive(Instant::ZERO, &mut received, BATCH_FRAMES)? == BATCH_FRAMES {
                // Waiting for the sender is not counted.
                reading += before.elapsed();
                frames += BATCH_FRAMES as u64;
                bytes += received.iter().map(|frame| frame.len() as u64).sum::<u64>();
            }
            received.clear();
        }
        stop.store(true, Ordering::Relaxed);
        // What is left must not be counted for the next.
        while backend.receive(Instant::ZERO, &mut received, BATCH_FRAMES)? > 0 {
            received.clear();
        }
        if frames == 0 {
            return Err("the kernel sent too little to measure".into());
        }
        report(what, frames, bytes, reading);
        Ok(())
    })
}

fn bench(backend: &mut dyn Backend, device: &str, network: u8) -> Result<(), Box<dyn Error>> {
    let neighbour = format!("neigh add 10.{network}.0.2 lladdr 02:00:00:00:00:09 dev {device}");
    if !Command::new("ip").args(neighbour.split(' ')).status()?.success() {
        return Err("ip neigh add failed".into());
    }
    println!("{device}");
    write(backend, "write, 64 KB frames", LARGE_BYTES)?;
    write(backend, "write, MTU frames", usize::from(SEGMENT_BYTES))?;
    read(backend, "read, frames of 44 datagrams", Some(SEGMENT_BYTES), network)?;
    read(backend, "read, MTU frames", None, network)?;
    println!("lost: {:?}", backend.drops());
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    unshare(CloneFlags::CLONE_NEWNET)?;
    let addresses = Some(vec![("10.9.0.1".parse()?, 24)]);
    let mut tap = open("tap:tap", &OpenOptions { host_addresses: addresses, ..OpenOptions::default() })?;
    bench(&mut *tap, "tap", 9)?;
    host_side::create_veth("veth", "ours")?;
    host_side::configure("veth", &[("10.10.0.1".parse()?, 24)], None)?;
    host_side::configure("ours", &[], None)?;
    let mut packet = open("packet:ours", &OpenOptions::default())?;
    // The end that was put up first drops what it is given until the kernel has started its queue.
    std::thread::sleep(SECONDS);
    bench(&mut *packet, "veth", 10)
}
