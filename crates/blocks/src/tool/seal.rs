//! Encrypts and authenticates what leaves, and opens what comes in, on an edge of Ethernet frames (XChaCha20-Poly1305).
//!
//! Both ends have one key. Each frame is sealed by itself under a number that no other frame has: 16 random bytes of the block, and a count. A frame that would be too
//! long for the wire then leaves in two pieces, which the other end joins. RustCrypto's implementation is used: it is audited and pure Rust.

use super::envelope::{self, ENVELOPE_LEN, Envelope};
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use std::any::Any;
use std::collections::VecDeque;
use weft_core::*;
use weft_wire::ethernet::{HEADER_LEN, Mac};

/// In [`Envelope::kind`].
const IN_ENVELOPES: u8 = 2;
const FIRST: u8 = 1;
const LAST: u8 = 2;
const KEY_BYTES: usize = 32;
const PREFIX_BYTES: usize = 16;
const NONCE_BYTES: usize = 24;
const TAG_BYTES: usize = 16;
/// What a sealed frame has more than its payload: envelope, number, EtherType, tag.
const OVERHEAD_BYTES: usize = ENVELOPE_LEN + NONCE_BYTES + 2 + TAG_BYTES;
/// First pieces that wait for their second, of different senders.
const WAITING_MAX: usize = 64;
const OUT: OutPort = OutPort(0);

/// What this kind declares.
pub static KIND: Kind = Kind {
    name: "seal",
    summary: "encrypts and authenticates Ethernet frames that leave and opens those that come in (XChaCha20-Poly1305)",
    doc: "Goes into edges of Ethernet frames; both ends of a wire have the same key. A frame that leaves is sealed by itself and gets EtherType 0x88b5 (IEEE 802, \
          local experiments); addresses stay readable. Where that makes it longer than mtu allows, it leaves in two pieces. A frame that comes in is opened if it is \
          sealed, and else passes as it is, unless sealed_only is set. So both ends are switched one after the other, without a frame lost: first the blocks for what \
          comes in, at both ends, then those for what leaves, then sealed_only. What cannot be opened (another key, damage) is dropped (bad-packet), what is not sealed \
          under sealed_only is, too (filtered), and without a key everything. It does not notice frames that are sent a second time: protocols above do. Who may use \
          the control socket can read the key.\n\
          Standards: RFC 8439 with the 192-bit nonces of draft-irtf-cfrg-xchacha.\n\
          Example: insert open interfaces:upper ether:lower; insert close ether:lower interfaces:upper",
    inputs: &[Port::required("in", Carries::Ethernet, "frames in one direction or both")],
    outputs: &[Port::required("out", Carries::Ethernet, "sealed, or opened")],
    parameters: &[
        Parameter {
            name: "key",
            value: ParameterType::Text,
            default: "\"\"",
            live: false,
            doc: "64 hexadecimal digits; without it every frame is dropped",
        },
        Parameter {
            name: "sealed_only",
            value: ParameterType::Bool,
            default: "false",
            live: true,
            doc: "frames that come in and are not sealed are dropped",
        },
        Parameter {
            name: "mtu",
            value: ParameterType::Unsigned { min: 576, max: 65_535 },
            default: "1500",
            live: true,
            doc: "what the wire takes behind the Ethernet header, bytes",
        },
    ],
    counters: &[
        Counter { name: "Sealed", text: "frames that left sealed" },
        Counter { name: "InPieces", text: "of these in two pieces" },
        Counter { name: "Opened", text: "frames that came sealed" },
        Counter { name: "Plain", text: "frames that came as they are" },
        Counter { name: "Refused", text: "frames that could not be opened, or were not sealed and had to be" },
        Counter { name: "PiecesLost", text: "first pieces whose second did not come" },
    ],
    state_version: 1,
    ..Kind::EMPTY
};

/// How to make one.
pub const ROW: BlockRow = BlockRow {
    kind: &KIND,
    make: |config| {
        let text = config.text("key");
        let key = if text.is_empty() {
            None
        } else {
            Some(key(&text).ok_or_else(|| config.bad("key", "is not 64 hexadecimal digits".to_owned()))?)
        };
        let mut prefix = [0; PREFIX_BYTES];
        prefix[..8].copy_from_slice(&config.rng.u64().to_be_bytes());
        prefix[8..].copy_from_slice(&config.rng.u64().to_be_bytes());
        Ok(Box::new(Seal {
            key: text,
            cipher: key.map(|key| XChaCha20Poly1305::new(&key.into())),
            sealed_only: config.bool("sealed_only"),
            mtu: config.u64("mtu") as usize,
            prefix,
            count: 0,
            waiting: VecDeque::new(),
            counters: [0; 6],
        }))
    },
};

fn key(text: &str) -> Option<[u8; KEY_BYTES]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * KEY_BYTES || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let mut key = [0; KEY_BYTES];
    for (byte, pair) in key.iter_mut().zip(digits.chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(key)
}

/// A first piece.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Waiting {
    from: [u8; 6],
    number: [u8; NONCE_BYTES],
    ether_type: u16,
    payload: Vec<u8>,
}

weft_core::fields!(struct Waiting { from, number, ether_type, payload });

/// The block.
struct Seal {
    key: String,
    cipher: Option<XChaCha20Poly1305>,
    sealed_only: bool,
    mtu: usize,
    prefix: [u8; PREFIX_BYTES],
    count: u64,
    waiting: VecDeque<Waiting>,
    counters: [u64; 6],
}

fn number(prefix: [u8; PREFIX_BYTES], count: u64) -> [u8; NONCE_BYTES] {
    let mut number = [0; NONCE_BYTES];
    number[..PREFIX_BYTES].copy_from_slice(&prefix);
    number[PREFIX_BYTES..].copy_from_slice(&count.to_be_bytes());
    number
}

/// The number behind a number: the second piece's.
fn following(mut number: [u8; NONCE_BYTES]) -> [u8; NONCE_BYTES] {
    for byte in number[PREFIX_BYTES..].iter_mut().rev() {
        let (next, carry) = byte.overflowing_add(1);
        *byte = next;
        if !carry {
            break;
        }
    }
    number
}

impl Seal {
    fn seal(&mut self, mut frame: Frame, cx: &mut Context<'_>) {
        let Some((ether_type, payload)) = envelope::payload(&mut frame).filter(|_| self.cipher.is_some()) else {
            self.counters[4] += 1;
            return cx.drop(frame, Reason::Filtered);
        };
        let room = self.mtu.saturating_sub(OVERHEAD_BYTES);
        let (first, second) = payload.split_at(if payload.len() > room { payload.len() / 2 } else { payload.len() });
        let mut pieces = vec![(FIRST | if second.is_empty() { LAST } else { 0 }, first)];
        if !second.is_empty() {
            pieces.push((LAST, second));
            self.counters[1] += 1;
        }
        let count = pieces.len();
        self.counters[0] += 1;
        for (at, (flags, piece)) in pieces.into_iter().enumerate() {
            let envelope = Envelope { kind: IN_ENVELOPES, flags, inner: 0 };
            let mut text = ether_type.to_be_bytes().to_vec();
            text.extend_from_slice(piece);
            let number = number(self.prefix, self.count);
            self.count += 1;
            let aad = [IN_ENVELOPES, flags];
            // It fails for texts longer than 256 GiB only.
            let Some(sealed) =
                self.cipher.as_ref().and_then(|cipher| cipher.encrypt(&XNonce::from(number), Payload { msg: &text, aad: &aad }).ok())
            else {
                return;
            };
            let content = [&number[..], &sealed].concat();
            cx.emit(OUT, envelope::wrapped(&mut frame, envelope, content, at + 1 == count));
        }
    }

    fn open(&mut self, mut frame: Frame, cx: &mut Context<'_>) {
        let Some(Envelope { flags, .. }) = Envelope::of(&mut frame).filter(|envelope| envelope.kind == IN_ENVELOPES) else {
            if self.sealed_only || self.cipher.is_none() {
                self.counters[4] += 1;
                return cx.drop(frame, Reason::Filtered);
            }
            self.counters[3] += 1;
            return cx.emit(OUT, frame);
        };
        let content = frame.to_vec().split_off(HEADER_LEN + ENVELOPE_LEN);
        let opened = content.split_first_chunk::<NONCE_BYTES>().and_then(|(number, sealed)| {
            let cipher = self.cipher.as_ref()?;
            let text = cipher.decrypt(&XNonce::from(*number), Payload { msg: sealed, aad: &[IN_ENVELOPES, flags] }).ok()?;
            let (ether_type, piece) = text.split_first_chunk::<2>()?;
            Some((*number, u16::from_be_bytes(*ether_type), piece.to_vec()))
        });
        let Some((number, ether_type, piece)) = opened else {
            self.counters[4] += 1;
            return cx.drop(frame, Reason::BadPacket);
        };
        let from = <[u8; 6]>::try_from(&frame.head()[6..12]).unwrap_or(Mac::ZERO.0);
        let payload = match (flags & FIRST != 0, flags & LAST != 0) {
            (true, true) => piece,
            (true, false) => {
                // One of each sender waits: its second piece comes next, or is lost.
                let before = self.waiting.len();
                self.waiting.retain(|waiting| waiting.from != from);
                if self.waiting.len() == WAITING_MAX {
                    self.waiting.pop_front();
                }
                self.counters[5] += (before - self.waiting.len()) as u64;
                self.waiting.push_back(Waiting { from, number: following(number), ether_type, payload: piece });
                return;
            }
            _ => {
                let at = self
                    .waiting
                    .iter()
                    .position(|waiting| waiting.from == from && waiting.number == number && waiting.ether_type == ether_type);
                let Some(mut whole) = at.and_then(|at| self.waiting.remove(at)) else {
                    self.counters[4] += 1;
                    return cx.drop(frame, Reason::BadPacket);
                };
                whole.payload.extend_from_slice(&piece);
                whole.payload
            }
        };
        self.counters[2] += 1;
        cx.emit(OUT, envelope::with_content(&mut frame, ether_type, &[], payload, true));
    }
}

impl Block for Seal {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn process(&mut self, _port: InPort, vector: &mut Vector, cx: &mut Context<'_>) {
        for frame in envelope::ready(vector) {
            match frame.meta().direction {
                Direction::Egress => self.seal(frame, cx),
                Direction::Ingress => self.open(frame, cx),
            }
        }
    }

    fn get(&self, name: &str, _now: Instant) -> Option<Value> {
        match name {
            "key" => Some(self.key.clone().into()),
            "sealed_only" => Some(self.sealed_only.into()),
            "mtu" => Some(self.mtu.into()),
            _ => None,
        }
    }

    fn set(&mut self, name: &str, value: Value, _cx: &mut Context<'_>) {
        match name {
            "sealed_only" => self.sealed_only = value.as_bool().unwrap_or(false),
            "mtu" => self.mtu = value.as_u64().unwrap_or(1500) as usize,
            _ => {}
        }
    }

    fn counters(&self) -> &[u64] {
        &self.counters
    }

    /// The count of numbers above all: none may come a second time under one key.
    fn export(&self, now: Instant) -> Result<State, StateError> {
        Ok(State::written(&KIND, now, |out| {
            out.put(&self.prefix);
            out.put(&self.count);
            out.put(&self.waiting);
            out.put(&self.counters);
        }))
    }

    fn import(&mut self, state: &State, now: Instant) -> Result<(), StateError> {
        let (prefix, count, waiting, counters) =
            state.taken(&KIND, now, |from| Ok((from.take()?, from.take()?, from.take::<VecDeque<Waiting>>()?, from.take()?)))?;
        if waiting.len() > WAITING_MAX {
            return Err(StateError::Damaged { kind: KIND.name.to_owned(), why: "more pieces than may wait".to_owned() });
        }
        (self.prefix, self.count, self.waiting, self.counters) = (prefix, count, waiting, counters);
        Ok(())
    }

    /// Frames may have been sealed since under numbers that would come again.
    fn went_back(&mut self, cx: &mut Context<'_>) {
        cx.rng.fill(&mut self.prefix);
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::testing::{Bench, ethernet};

    const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

    #[test]
    fn a_number_does_not_come_again_after_a_block_went_back() {
        let mut bench = bench(KEY);
        let state = bench.engine.graph().block(bench.tool).unwrap().export(Instant::ZERO).unwrap();
        let (now, tool) = (bench.engine.now(), bench.tool);
        let prefix = |block: &mut dyn Block| block.as_any_mut().downcast_mut::<Seal>().unwrap().prefix;
        let before = bench.engine.with(now, tool, |block, _| prefix(block)).unwrap();
        let again = bench.engine.with(now, tool, |block, cx| {
            block.import(&state, cx.now).unwrap();
            let as_it_was = prefix(block);
            block.went_back(cx);
            (as_it_was, prefix(block))
        });
        let (as_it_was, since) = again.unwrap();
        assert_eq!(as_it_was, before);
        assert_ne!(since, before);
    }

    fn bench(key: &str) -> Bench {
        Bench::new("seal", &[("key", key.into())])
    }
    fn arrived(frames: &[Frame]) -> Vec<Frame> {
        frames.iter().map(|frame| Frame::ingress(&frame.to_vec())).collect()
    }

    #[test]
    fn what_leaves_comes_in_as_it_was_in_one_piece_or_two() {
        let (mut close, mut open) = (bench(KEY), bench(KEY));
        let frames: Vec<Frame> = [10, 1454, 1455, 1500].map(|bytes| ethernet(0x0800, &vec![7; bytes])).into();
        close.send(Instant::ZERO, frames.clone());
        let sealed = close.taken();
        assert_eq!(sealed.len(), 6, "two are in two pieces");
        assert!(sealed.iter().all(|frame| frame.len() <= HEADER_LEN + 1500 && frame.head()[12..15] == [0x88, 0xb5, 2]));
        open.send(Instant::ZERO, arrived(&sealed));
        assert_eq!(open.taken().iter().map(Frame::to_vec).collect::<Vec<_>>(), frames.iter().map(Frame::to_vec).collect::<Vec<_>>());
        assert_eq!((close.counters(), open.counters()), (&[4, 2, 0, 0, 0, 0][..], &[0, 0, 4, 0, 0, 0][..]));
        // A successor goes on with the next number.
        close.replace("seal");
        close.send(Instant::ZERO, frames[..1].iter().cloned());
        let next = close.taken();
        assert_eq!(next[0].to_vec()[34..42], 6u64.to_be_bytes());
    }

    #[test]
    fn damage_another_key_and_lost_pieces_are_refused() {
        let (mut close, mut open, mut other) = (bench(KEY), bench(KEY), bench(&KEY.replace('0', "f")));
        close.send(Instant::ZERO, [ethernet(0x0800, &[7; 1500])]);
        let sealed = close.taken();
        other.send(Instant::ZERO, arrived(&sealed));
        assert_eq!((other.taken().len(), other.drops(Reason::BadPacket)), (0, 2));
        for at in [15, 18, 30, 60, 100] {
            let mut bytes = sealed[0].to_vec();
            bytes[at] ^= 1;
            open.send(Instant::ZERO, [Frame::ingress(&bytes), Frame::ingress(&bytes[..at])]);
        }
        open.send(Instant::ZERO, arrived(&sealed[1..]));
        assert_eq!(open.taken().len(), 1, "what is cut before its envelope is none of it");
        open.send(Instant::ZERO, arrived(&[sealed[0].clone(), sealed[0].clone(), sealed[1].clone(), sealed[1].clone()]));
        assert_eq!((open.taken().len(), open.counters()[5]), (1, 1));
    }

    #[test]
    fn plain_frames_pass_until_they_may_not_and_nothing_passes_without_a_key() {
        let mut open = bench(KEY);
        let plain = || arrived(&[ethernet(0x0800, &[1; 60])]);
        open.send(Instant::ZERO, plain());
        open.set("sealed_only", "true").unwrap();
        open.send(Instant::ZERO, plain());
        assert_eq!((open.taken().len(), open.drops(Reason::Filtered)), (1, 1));
        let mut none = bench("");
        none.send(Instant::ZERO, plain().into_iter().chain([ethernet(0x0800, &[1; 60])]));
        assert_eq!((none.taken().len(), none.drops(Reason::Filtered)), (0, 2));
    }

    #[test]
    fn senders_that_never_finish_take_a_bounded_room() {
        let (mut close, mut open) = (bench(KEY), bench(KEY));
        for sender in 0..WAITING_MAX + 9 {
            let mut bytes = ethernet(0x0800, &[7; 1500]).to_vec();
            bytes[11] = sender as u8;
            let mut frame = Frame::egress();
            frame.extend(&bytes);
            close.send(Instant::ZERO, [frame]);
            open.send(Instant::ZERO, arrived(&close.taken()[..1]));
        }
        assert_eq!(open.counters()[5], 9);
    }
}
