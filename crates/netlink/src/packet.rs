//! `struct nlmsghdr`: packets taken apart into requests, and answers put into packets.

use crate::errno::Refusal;
use crate::message::{CONTROL, INET6, MPTCP_PM, Message, byte, put, word};

/// Most bytes of answer in one packet: Go and old libcs read into one page.
pub(crate) const PACKET_BYTES_MAX: usize = 3800;
/// Bytes of `struct nlmsghdr`.
pub(crate) const HEADER_BYTES: usize = 16;
/// Most requests in one packet: `ip route flush` sends as many as fit into 32 KiB.
pub(crate) const REQUESTS_MAX: usize = 4096;

pub(crate) const NLM_F_REQUEST: u16 = 1;
pub(crate) const NLM_F_MULTI: u16 = 2;
pub(crate) const NLM_F_ACK: u16 = 4;
const NLM_F_DUMP_FILTERED: u16 = 0x20;
pub(crate) const NLM_F_DUMP: u16 = 0x300;
pub(crate) const NLM_F_REPLACE: u16 = 0x100;
pub(crate) const NLM_F_EXCL: u16 = 0x200;
pub(crate) const NLM_F_CREATE: u16 = 0x400;
pub(crate) const NLM_F_APPEND: u16 = 0x800;
const NLM_F_CAPPED: u16 = 0x100;
const NLM_F_ACK_TLVS: u16 = 0x200;
pub(crate) const NLMSG_CONTROL_MAX: u16 = 16;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLMSGERR_ATTR_MSG: u16 = 1;
const NLMSGERR_ATTR_MISS_TYPE: u16 = 5;

/// Switches of SOL_NETLINK.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Options {
    /// NETLINK_EXT_ACK: refusals come with a sentence.
    pub extended: bool,
    /// NETLINK_CAP_ACK: refusals come without the request's body.
    pub capped: bool,
    /// NETLINK_GET_STRICT_CHK: dumps are filtered here.
    pub strict: bool,
    /// NETLINK_PKTINFO, and NETLINK_BROADCAST_ERROR, NETLINK_NO_ENOBUFS, NETLINK_LISTEN_ALL_NSID, which change nothing: there is one namespace, and losses
    /// are told.
    pub kept: [bool; 4],
}

/// A request, as far as it matters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub kind: u16,
    pub flags: u16,
    pub sequence: u32,
    pub body: &'a [u8],
    pub whole: &'a [u8],
}

impl Request<'_> {
    pub fn is_dump(&self) -> bool {
        self.flags & NLM_F_DUMP == NLM_F_DUMP
    }
    pub fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}

/// What becomes of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Reply {
    /// Rows, of which some may have been left out on demand.
    Dump(Vec<Message>, bool),
    /// A dump that ends with an error.
    DumpFailed(Refusal),
    /// One answer.
    One(Message),
    /// It is done.
    Done,
}

/// Splits a packet into requests. Lengths that make no sense end it.
pub(crate) fn requests(packet: &[u8]) -> Vec<Request<'_>> {
    let mut found = Vec::new();
    let mut rest = packet;
    while found.len() < REQUESTS_MAX && rest.len() >= HEADER_BYTES {
        let length = word(rest, 0) as usize;
        if length < HEADER_BYTES || length > rest.len() {
            break;
        }
        found.push(Request {
            kind: u16::from_ne_bytes([rest[4], rest[5]]),
            flags: u16::from_ne_bytes([rest[6], rest[7]]),
            sequence: word(rest, 8),
            body: &rest[HEADER_BYTES..length],
            whole: &rest[..length],
        });
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    found
}

/// Appends a message with its header.
pub(crate) fn append(into: &mut Vec<u8>, kind: u16, flags: u16, sequence: u32, port: u32, body: &[u8]) {
    let length = u32::try_from(HEADER_BYTES + body.len()).unwrap_or(u32::MAX);
    into.extend_from_slice(&length.to_ne_bytes());
    into.extend_from_slice(&kind.to_ne_bytes());
    into.extend_from_slice(&flags.to_ne_bytes());
    into.extend_from_slice(&sequence.to_ne_bytes());
    into.extend_from_slice(&port.to_ne_bytes());
    into.extend_from_slice(body);
    into.resize(into.len().next_multiple_of(4), 0);
}

/// Does the end of a dump that has something come in a packet of its own? netlink_dump: "if (nlk->dump_done_errno > 0 || …) { … return 0; }": where the
/// dump came to a length and not to 0. Asked of Linux 6.18.
fn ends_apart(request: &Request<'_>) -> bool {
    const GETLINK: u16 = 18;
    const GETADDR: u16 = 22;
    const GETROUTE: u16 = 26;
    const GETQDISC: u16 = 38;
    match request.kind {
        GETLINK | GETADDR => byte(request.body, 0) != INET6,
        GETROUTE | GETQDISC | crate::diag::BY_FAMILY | CONTROL | MPTCP_PM => true,
        _ => false,
    }
}

/// Puts what becomes of a request into packets, with what belongs at the end.
pub(crate) fn pack(reply: Result<Reply, Refusal>, request: &Request<'_>, port: u32, options: &Options) -> Vec<Vec<u8>> {
    let mut packets: Vec<Vec<u8>> = Vec::new();
    let mut add = |kind: u16, flags: u16, body: &[u8]| {
        let room = |packet: &&mut Vec<u8>| packet.len() + HEADER_BYTES + body.len() <= PACKET_BYTES_MAX;
        if let Some(last) = packets.last_mut().filter(room) {
            return append(last, kind, flags, request.sequence, port, body);
        }
        let mut packet = Vec::with_capacity(PACKET_BYTES_MAX);
        append(&mut packet, kind, flags, request.sequence, port, body);
        packets.push(packet);
    };
    match reply {
        Ok(Reply::Dump(messages, filtered)) => {
            let flags = NLM_F_MULTI | if filtered { NLM_F_DUMP_FILTERED } else { 0 };
            messages.iter().for_each(|message| add(message.kind, flags, &message.body));
            if messages.is_empty() || !ends_apart(request) {
                add(NLMSG_DONE, flags, &0_i32.to_ne_bytes());
            } else {
                let mut own = Vec::new();
                append(&mut own, NLMSG_DONE, flags, request.sequence, port, &0_i32.to_ne_bytes());
                packets.push(own);
            }
        }
        Ok(Reply::DumpFailed(refusal)) => {
            let mut body = (-refusal.errno).to_ne_bytes().to_vec();
            let flag = explain(&mut body, &refusal, options);
            add(NLMSG_DONE, NLM_F_MULTI | flag, &body);
        }
        Ok(Reply::One(message)) => {
            add(message.kind, 0, &message.body);
            // netlink_ack makes a packet of its own.
            if request.has(NLM_F_ACK) {
                let mut own = Vec::new();
                acknowledge(&mut |kind, flags, body| append(&mut own, kind, flags, request.sequence, port, body), request);
                packets.push(own);
            }
        }
        Ok(Reply::Done) if request.has(NLM_F_ACK) => acknowledge(&mut add, request),
        Ok(Reply::Done) => {}
        Err(refusal) => refuse(&mut add, request, &refusal, options),
    }
    packets
}

/// netlink_ack: "if (!err) flags |= NLM_F_CAPPED;" and the request's header only.
fn acknowledge(add: &mut dyn FnMut(u16, u16, &[u8]), request: &Request<'_>) {
    add(NLMSG_ERROR, NLM_F_CAPPED, &[&0_i32.to_ne_bytes()[..], &request.whole[..HEADER_BYTES]].concat());
}

/// `struct nlmsgerr`: an errno, negative; the request; a sentence.
fn refuse(add: &mut dyn FnMut(u16, u16, &[u8]), request: &Request<'_>, refusal: &Refusal, options: &Options) {
    let kept = if options.capped { &request.whole[..HEADER_BYTES] } else { request.whole };
    let mut flags = if options.capped { NLM_F_CAPPED } else { 0 };
    let mut body = [&(-refusal.errno).to_ne_bytes()[..], kept].concat();
    flags |= explain(&mut body, refusal, options);
    add(NLMSG_ERROR, flags, &body);
}

/// Appends the sentence, or which attribute is missing, for those who want that; a flag says so.
fn explain(body: &mut Vec<u8>, refusal: &Refusal, options: &Options) -> u16 {
    if !options.extended || refusal.text.is_none() && refusal.missing.is_none() {
        return 0;
    }
    body.resize(body.len().next_multiple_of(4), 0);
    if let Some(text) = &refusal.text {
        put(body, NLMSGERR_ATTR_MSG, &[text.as_bytes(), &[0]].concat());
    }
    if let Some(attribute) = refusal.missing {
        put(body, NLMSGERR_ATTR_MISS_TYPE, &u32::from(attribute).to_ne_bytes());
    }
    NLM_F_ACK_TLVS
}
