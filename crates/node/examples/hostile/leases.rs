//! A stranger's DHCP server: answers to what the host asked last, most of them such as a server may give, some with one thing wrong.
//!
//! Its addresses and routes are of networks that nobody else here uses: who believes a stranger about the way to everybody has lost, whatever its code.

use super::packet::{LINK, MACS, ip4};
use super::stranger::{Stranger, TO_DHCP_SERVERS};

const SERVER: [u8; 4] = [10, 0, 0, 2];
/// Where the parts of a message are (RFC 2131 §2).
const XID: std::ops::Range<usize> = 4..8;
const CLIENT: std::ops::Range<usize> = 12..16;
const YOURS: std::ops::Range<usize> = 16..20;
const HARDWARE: std::ops::Range<usize> = 28..34;
const OPTIONS: usize = 240;
const COOKIE: [u8; 4] = [99, 130, 83, 99];
const DISCOVER: u8 = 1;

/// One of the last messages of the host for a server: what it is, and the message.
fn asked(s: &mut Stranger) -> Option<(u8, Vec<u8>)> {
    // Mostly in time.
    let (_, frame) = if s.rng.chance(0.8) { s.tape.latest(TO_DHCP_SERVERS)? } else { s.tape.last(&mut s.rng, TO_DHCP_SERVERS)? };
    let message = frame.get(LINK + 28..)?.to_vec();
    message.get(OPTIONS)?;
    let kind = message.get(OPTIONS + 2).copied()?;
    Some((kind, message))
}

/// The value of an option of a message that has no padding in front.
fn option(message: &[u8], wanted: u8) -> Option<[u8; 4]> {
    let mut at = OPTIONS;
    while let (Some(&code), Some(&length)) = (message.get(at), message.get(at + 1)) {
        if code == wanted {
            return message.get(at + 2..at + 6)?.try_into().ok();
        }
        at += 2 + usize::from(length);
    }
    None
}

pub fn answer(s: &mut Stranger) -> (usize, Vec<u8>) {
    let Some((kind, question)) = asked(s) else { return s.spoiled(Some((4, 17))) };
    let mut message = vec![0; OPTIONS];
    message[..4].copy_from_slice(&[2, 1, 6, 0]);
    message[XID].copy_from_slice(&question[XID]);
    message[HARDWARE].copy_from_slice(&MACS[0]);
    message[236..240].copy_from_slice(&COOKIE);
    let offer = [10, 9, s.byte() % 3, 1 + s.byte() % 250];
    let wanted = option(&question, 50).or_else(|| question[CLIENT].try_into().ok().filter(|own| *own != [0; 4]));
    let own = if kind == DISCOVER { offer } else { wanted.unwrap_or(offer) };
    message[YOURS].copy_from_slice(&own);
    let said = match kind {
        DISCOVER => 2,
        _ if s.rng.chance(0.15) => 6,
        _ => 5,
    };
    let seconds = s.pick(&[1, 60, 90, 600, 3600, u32::MAX]);
    let gateway = [10, 9, own[2], 251];
    let mut options: Vec<(u8, Vec<u8>)> = vec![
        (53, vec![said]),
        (54, option(&question, 54).unwrap_or(SERVER).to_vec()),
        (51, seconds.to_be_bytes().to_vec()),
        (1, s.pick(&[[255, 255, 255, 0], [255, 255, 0, 0], [255, 255, 255, 255], [255, 0, 255, 0]]).to_vec()),
    ];
    for (code, value) in [
        (3, gateway.to_vec()),
        (6, [gateway, [127, 0, 0, 1]].concat()),
        (15, b"lab.example".to_vec()),
        (26, s.pick(&[1400u16, 1280, 100, 65535]).to_be_bytes().to_vec()),
        (28, [10, 9, own[2], 255].to_vec()),
        (58, (seconds / 2).to_be_bytes().to_vec()),
        (59, (seconds / 8 * 7).to_be_bytes().to_vec()),
        (61, [&[1][..], &MACS[0]].concat()),
        (121, [&[24, 10, 10, s.byte()][..], &gateway, &[32, 10, 10, 0, 9, 0, 0, 0, 0]].concat()),
    ] {
        if s.rng.chance(0.5) {
            options.push((code, value));
        }
    }
    if s.rng.chance(0.25) {
        // One thing wrong: a value, a length, or an option that is none.
        let at = s.below(options.len());
        let bytes = s.bytes(40);
        let code = s.byte();
        match s.below(4) {
            0 => options[at].1 = bytes,
            1 => options[at].1.truncate(bytes.len() % 4),
            2 => options.push((code, bytes)),
            _ => options.swap_remove(at).1.clear(),
        }
        if options.iter().any(|(code, value)| matches!(code, 3 | 121) && !value.windows(2).any(|pair| pair == [10, 9])) {
            options.retain(|(code, _)| !matches!(code, 3 | 121));
        }
    }
    for (code, value) in options {
        message.extend([code, value.len() as u8]);
        message.extend(value);
    }
    if s.rng.chance(0.95) {
        message.push(255);
    }
    if s.rng.chance(0.05) {
        let at = s.below(message.len());
        message[at] ^= 1 << s.below(8);
    }
    let (from, to) = (SERVER, if s.rng.chance(0.5) { [255; 4] } else { own });
    let length = message.len() as u16 + 8;
    let mut datagram = [&[0, 67, 0, 68][..], &length.to_be_bytes(), &[0, 0]].concat();
    datagram.extend(message);
    (0, ip4(0, from, to, 64, 17, &datagram))
}
