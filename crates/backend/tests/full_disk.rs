//! A capture on a disk that fills up: it ends with whole packets and one warning, and the traffic goes on.

mod support;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use pcap_file::pcapng::{Block, PcapNgReader};
use std::collections::VecDeque;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use support::*;
use weft_backend::pcapng::{Capture, CaptureFile};
use weft_backend::{Backend, OpenOptions, memory};
use weft_core::{Frame, Instant};

const DISK_BYTES: u64 = 1 << 20;

/// Counts warnings.
struct Warnings(Arc<AtomicUsize>);

impl tracing::Subscriber for Warnings {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        self.0.fetch_add(usize::from(*event.metadata().level() == tracing::Level::WARN), Ordering::Relaxed);
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

fn capture_until_full(warnings: &Arc<AtomicUsize>) {
    let directory = std::env::temp_dir().join(format!("weft-full-disk-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    // Seen by this thread alone, and gone with it.
    unshare(CloneFlags::CLONE_NEWNS).unwrap();
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>).unwrap();
    mount(Some("weft"), &directory, Some("tmpfs"), MsFlags::empty(), Some(format!("size={DISK_BYTES}").as_str())).unwrap();
    let path = directory.join("trace.pcapng");
    let file = CaptureFile::create(&path, Duration::ZERO).unwrap();
    let (one, mut other) = memory::pair(&OpenOptions { queue_frames_max: 10, ..OpenOptions::default() });
    let mut one = Capture::new(one, &file);
    let mut sent = 0;
    for at in 0..3000 {
        let now = Instant::from_millis(at);
        let frame = Frame::ingress(&[7; 1000]);
        assert_eq!(one.transmit(now, &mut VecDeque::from([frame]), &mut Vec::new()).unwrap(), 1);
        assert_eq!(other.receive(now, &mut Vec::new(), 9).unwrap(), 1, "traffic goes on");
        sent += 1;
    }
    assert_eq!(file.written() + file.lost(), sent);
    assert!(file.lost() > 1000 && file.written() > 500, "{} {}", file.written(), file.lost());
    assert!(one.drops().contains(&("missing in the capture", file.lost())));
    assert_eq!(warnings.load(Ordering::Relaxed), 1);
    let mut reader = PcapNgReader::new(File::open(&path).unwrap()).unwrap();
    let mut packets = 0;
    while let Some(block) = reader.next_block() {
        packets += u64::from(matches!(block.unwrap(), Block::EnhancedPacket(packet) if packet.data.len() == 1000));
    }
    assert_eq!(packets, file.written());
}

#[test]
fn a_full_disk_ends_the_capture_with_whole_packets_and_one_warning() {
    if !can_make_namespaces() {
        return;
    }
    let warnings = Arc::new(AtomicUsize::new(0));
    let counted = warnings.clone();
    std::thread::spawn(move || tracing::subscriber::with_default(Warnings(counted.clone()), || capture_until_full(&counted)))
        .join()
        .unwrap();
    std::fs::remove_dir(std::env::temp_dir().join(format!("weft-full-disk-{}", std::process::id()))).unwrap();
}
