//! Reading and writing on the fast path allocates nothing.

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use weft_wire::ethernet::EtherType;
use weft_wire::{Protocol, checksum, ethernet, ipv4, ipv6, tcp, udp};

/// Counts the allocations of each thread.
struct Counting;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise about `layout` is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: `pointer` came from `alloc`, hence from `System`, with `layout`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations() -> usize {
    COUNT.with(Cell::get)
}

/// Reads the headers of a frame and writes them to `out`; how many there were.
fn read_and_write(frame: &[u8], out: &mut [u8; 256]) -> usize {
    let (header, len) = ethernet::Header::parse(frame).expect("Ethernet");
    header.emit(out);
    let packet = &frame[len..];
    let (protocol, rest) = match header.ether_type {
        EtherType::IPV4 => {
            let (header, len) = ipv4::Header::parse(packet).expect("IPv4");
            header.emit(out);
            if header.is_fragment() {
                return 2;
            }
            (header.protocol, &packet[len..])
        }
        EtherType::IPV6 => {
            let (header, len) = ipv6::Header::parse(packet).expect("IPv6");
            header.emit(out);
            let mut extensions = ipv6::Extensions::new(header.next_header, &packet[len..]);
            while extensions.next().is_some() {}
            (extensions.next_header(), extensions.rest())
        }
        _ => return 1,
    };
    match protocol {
        Protocol::TCP => {
            let (segment, _) = tcp::Segment::parse(rest).expect("TCP");
            assert_eq!(segment.options.mptcp().filter(Result::is_err).count(), 0);
            segment.clone().emit(out);
        }
        Protocol::UDP => udp::Header::parse(rest).expect("UDP").0.emit(out),
        _ => return 2,
    }
    std::hint::black_box(checksum::of(out));
    3
}

#[test]
fn the_fast_path_allocates_nothing() {
    let frames = support::all_frames();
    let mut out = [0; 256];
    let before = allocations();
    let headers: usize = frames.iter().map(|frame| read_and_write(&frame.bytes, &mut out)).sum();
    assert_eq!(allocations() - before, 0);
    assert!(headers > 900, "only {headers} headers, of {}", frames[0].name);
    drop(std::hint::black_box(vec![1]));
    assert_eq!(allocations() - before, 1, "the count does not count");
}
