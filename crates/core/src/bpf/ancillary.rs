//! What a program may ask of a frame beside its bytes: Linux's ancillary data (SKF_AD_OFF), and places before the bytes that it sees (SKF_NET_OFF,
//! SKF_LL_OFF).

/// SKF_AD_OFF: offsets from here on are no places.
const ANCILLARY_FROM: u32 = 0xffff_f000;
/// SKF_NET_OFF and SKF_LL_OFF: offsets from here on count from the network header, or the link header.
const NETWORK_FROM: u32 = 0xfff0_0000;
const LINK_FROM: u32 = 0xffe0_0000;
/// Bytes of an attribute's header (`struct nlattr`).
const ATTRIBUTE_BYTES: u32 = 4;
/// Most attributes that are looked at.
const ATTRIBUTES_MAX: u32 = 1 << 16;
const IPV6: u16 = 0x86dd;
const IPV4: u16 = 0x0800;

/// The bytes of a frame.
pub(super) trait Bytes {
    /// How many there are.
    fn bytes(&self) -> usize;
    /// The place of the first one, as [`About`] counts places.
    fn begins_at(&self) -> u16;
    /// A big-endian number; `None`: beyond the end.
    fn load(&self, at: u32, bytes: u8) -> Option<u32>;
    /// A byte that was taken off, by its place.
    fn before(&self, at: u16) -> Option<u8>;
}

/// What is known of a frame beside its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct About {
    /// `skb->protocol`.
    pub protocol: u16,
    /// PACKET_HOST and so on.
    pub kind: u8,
    /// Its interface.
    pub interface: u32,
    /// ARPHRD_* of that.
    pub hardware: u16,
    /// SO_MARK.
    pub mark: u32,
    /// A VLAN's tag that it came with, and the tag's EtherType.
    pub tag: Option<(u16, u16)>,
    /// Where its network header begins: `Frame::position` then.
    pub network_at: Option<u16>,
    /// The same of its link header.
    pub link_at: Option<u16>,
    /// What random numbers are made of: the same for the same run.
    pub seed: u64,
}

impl About {
    /// The EtherType of an IP packet.
    pub(super) fn protocol_of(v6: bool) -> u16 {
        if v6 { IPV6 } else { IPV4 }
    }

    /// A random number (SKF_AD_RANDOM); `times`: how many were drawn before.
    fn random(&self, times: &mut u32) -> u32 {
        *times = times.wrapping_add(1);
        // SplitMix64 (G. Steele, D. Lea, C. Flood, 2014).
        let mut mixed = self.seed.wrapping_add(u64::from(*times).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) as u32
    }
}

/// One of Linux's ancillary loads (SKF_AD_*).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ask {
    Protocol,
    PacketType,
    Interface,
    Attribute,
    NestedAttribute,
    Mark,
    Queue,
    Hardware,
    Hash,
    Processor,
    XorIndex,
    Tag,
    TagPresent,
    PayloadOffset,
    Random,
    TagProtocol,
}

/// What an absolute load with this offset is. `Err`: "if (anc_found == false && ftest->k >= SKF_AD_OFF) return -EINVAL;"
pub(super) fn asks(at: u32) -> Result<Option<Ask>, ()> {
    let Some(number) = at.checked_sub(ANCILLARY_FROM) else { return Ok(None) };
    Ok(Some(match number {
        0 => Ask::Protocol,
        4 => Ask::PacketType,
        8 => Ask::Interface,
        12 => Ask::Attribute,
        16 => Ask::NestedAttribute,
        20 => Ask::Mark,
        24 => Ask::Queue,
        28 => Ask::Hardware,
        32 => Ask::Hash,
        36 => Ask::Processor,
        40 => Ask::XorIndex,
        44 => Ask::Tag,
        48 => Ask::TagPresent,
        52 => Ask::PayloadOffset,
        56 => Ask::Random,
        60 => Ask::TagProtocol,
        _ => return Err(()),
    }))
}

impl Ask {
    /// What it loads; `a` and `x`: the registers.
    pub fn value(self, frame: &impl Bytes, about: &About, (a, x): (u32, u32), drawn: &mut u32) -> u32 {
        match self {
            Ask::Protocol => about.protocol.into(),
            Ask::PacketType => about.kind.into(),
            Ask::Interface => about.interface,
            Ask::Attribute => attribute(frame, a, frame.bytes() as u32, x),
            Ask::NestedAttribute => nested(frame, a, x),
            Ask::Mark => about.mark,
            // A node has one queue and one processor, and gives frames no number of their flow.
            Ask::Queue | Ask::Hash | Ask::Processor => 0,
            Ask::Hardware => about.hardware.into(),
            Ask::XorIndex => a ^ x,
            Ask::Tag => about.tag.map_or(0, |(tag, _)| tag.into()),
            Ask::TagPresent => about.tag.is_some().into(),
            Ask::TagProtocol => about.tag.map_or(0, |(_, of)| of.into()),
            Ask::PayloadOffset => payload_offset(frame, about),
            Ask::Random => about.random(drawn),
        }
    }
}

/// A number at any offset, also one before the frame; `None`: there is nothing (`bpf_internal_load_pointer_neg_helper`).
#[inline]
pub(super) fn load_anywhere(frame: &impl Bytes, at: u32, bytes: u8, about: &About) -> Option<u32> {
    if at < LINK_FROM {
        return frame.load(at, bytes);
    }
    let (from, offset) = if at >= NETWORK_FROM { (about.network_at?, at - NETWORK_FROM) } else { (about.link_at?, at - LINK_FROM) };
    let (from, start) = (u32::from(from) + offset, u32::from(frame.begins_at()));
    let byte = |at: u32| match at.checked_sub(start) {
        Some(behind) => frame.load(behind, 1),
        None => frame.before(u16::try_from(at).ok()?).map(u32::from),
    };
    (from..from.checked_add(u32::from(bytes))?).try_fold(0, |value, at| Some(value << 8 | byte(at)?))
}

/// `nla_find` from `at` to `end`; 0: there is none.
fn attribute(frame: &impl Bytes, at: u32, end: u32, wanted: u32) -> u32 {
    // struct nlattr is in the machine's order, a load is not.
    let half = |at: u32| frame.load(at, 2).map(|value| u32::from((value as u16).to_be()));
    let mut at = at;
    for _ in 0..ATTRIBUTES_MAX {
        if end.checked_sub(at).is_none_or(|left| left < ATTRIBUTE_BYTES) {
            return 0;
        }
        let (Some(length), Some(kind)) = (half(at), half(at + 2)) else { return 0 };
        if length < ATTRIBUTE_BYTES || length > end - at {
            return 0;
        }
        // NLA_TYPE_MASK
        if kind & 0x3fff == wanted {
            return at;
        }
        at = at.saturating_add(length.next_multiple_of(4));
    }
    0
}

/// `bpf_skb_get_nlattr_nest`
fn nested(frame: &impl Bytes, at: u32, wanted: u32) -> u32 {
    let length = frame.load(at, 2).map_or(0, |value| u32::from((value as u16).to_be()));
    match at.checked_add(length).filter(|end| *end as usize <= frame.bytes()) {
        Some(end) => attribute(frame, at.saturating_add(ATTRIBUTE_BYTES), end, wanted),
        None => 0,
    }
}

/// `skb_get_poff`: where the payload begins, behind the headers of network and transport.
fn payload_offset(frame: &impl Bytes, about: &About) -> u32 {
    let Some(network) = about.network_at.and_then(|at| at.checked_sub(frame.begins_at())).map(u32::from) else { return 0 };
    let byte = |at: u32| frame.load(at, 1).unwrap_or(0);
    let (transport, protocol, whole) = match about.protocol {
        IPV4 => (network + (byte(network) & 0xf) * 4, byte(network + 9), frame.load(network + 6, 2).unwrap_or(0) & 0x1fff == 0),
        IPV6 => (network + 40, byte(network + 6), true),
        _ => return 0,
    };
    if !whole {
        return transport;
    }
    let header = match protocol {
        // At most as long as a header without options.
        6 => (byte(transport + 12) >> 4 << 2).max(20),
        17 | 136 | 1 | 58 | 2 => 8,
        33 | 132 => 12,
        _ => 0,
    };
    transport + header
}

#[cfg(test)]
mod tests {
    use super::super::Program;
    use super::*;
    use crate::frame::Frame;

    /// `ld ASK; ret a`.
    fn told(ask: u32, frame: &Frame, about: &About) -> u32 {
        Program::parse(&format!("32 0 0 {},22 0 0 0", ANCILLARY_FROM + ask)).unwrap().run_about(frame, about)
    }

    #[test]
    fn programs_ask_what_is_known_of_a_frame() {
        let frame = Frame::ingress(&[0; 60]);
        let about = About {
            protocol: 0x800,
            kind: 3,
            interface: 2,
            hardware: 1,
            mark: 9,
            tag: Some((5, 0x8100)),
            network_at: None,
            link_at: None,
            seed: 1,
        };
        for (ask, value) in [(0, 0x800), (4, 3), (8, 2), (20, 9), (28, 1), (36, 0), (44, 5), (48, 1), (60, 0x8100)] {
            assert_eq!(told(ask, &frame, &about), value, "{ask}");
        }
        assert_eq!((told(44, &frame, &About::default()), told(48, &frame, &About::default())), (0, 0));
        assert_eq!(told(56, &frame, &about), told(56, &frame, &about));
        assert_ne!(told(56, &frame, &about), told(56, &frame, &About { seed: 2, ..about }));
        assert!(Program::parse(&format!("32 0 0 {},22 0 0 0", ANCILLARY_FROM + 64)).is_err());
        assert!(Program::parse(&format!("32 0 0 {},22 0 0 0", ANCILLARY_FROM + 1)).is_err());
    }

    #[test]
    fn headers_that_were_taken_off_can_be_looked_at() {
        let mut frame = Frame::ingress(&(0..60).collect::<Vec<u8>>());
        let link_at = frame.position();
        frame.pull(14).unwrap();
        let about = About { network_at: Some(frame.position()), link_at: Some(link_at), ..About::default() };
        let load = |at: u32, bytes: u8| load_anywhere(&frame, at, bytes, &about);
        assert_eq!((load(NETWORK_FROM, 1), load(LINK_FROM + 12, 4), load(LINK_FROM, 2)), (Some(14), Some(0x0c0d_0e0f), Some(1)));
        assert_eq!((load(NETWORK_FROM + 45, 1), load(NETWORK_FROM + 46, 1), load(LINK_FROM + 59, 2)), (Some(59), None, None));
        assert_eq!(load_anywhere(&frame, LINK_FROM, 1, &About::default()), None);
        assert_eq!(load(u32::MAX, 4), None);
    }

    #[test]
    fn a_payload_begins_behind_its_headers() {
        let mut bytes = vec![0; 80];
        (bytes[14], bytes[23], bytes[46]) = (0x45, 6, 0x80);
        let frame = Frame::ingress(&bytes);
        let about = About { protocol: IPV4, network_at: Some(frame.position() + 14), ..About::default() };
        assert_eq!(told(52, &frame, &about), 14 + 20 + 32);
    }

    #[test]
    fn attributes_are_found() {
        let attributes = [[8, 0, 1, 0, 0, 0, 0, 0], [8, 0, 2, 0, 4, 0, 7, 0]].concat();
        let frame = Frame::ingress(&attributes);
        assert_eq!((attribute(&frame, 0, 16, 2), attribute(&frame, 0, 16, 3), nested(&frame, 8, 7), nested(&frame, 8, 1)), (8, 0, 12, 0));
        assert_eq!(attribute(&frame, u32::MAX, 16, 2), 0);
    }
}
