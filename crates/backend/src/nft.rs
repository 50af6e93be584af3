//! nftables tables that live and die with this process: `NETLINK_NETFILTER`, batches, and the owner flag
//! (include/uapi/linux/netfilter/nf_tables.h, net/netfilter/nf_tables_api.c).
//!
//! A table with `NFT_TABLE_F_OWNER` belongs to the netlink socket that made it: no other can change it, and the kernel deletes it when the socket
//! is closed, however its process ends. That is why the `nft` program is of no use here (it ends, and its table with it), and why this
//! crate speaks the protocol itself; messages and attributes are encoded by netlink-packet-core. The crate that knows nftables' rules
//! (rustables) has a licence that weft cannot take.
//!
//! Only what [`crate::guard`] and [`crate::nat`] need is here.

use netlink_packet_core::{
    DefaultNla, Emitable, NLA_F_NESTED, NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_EXCL, NLM_F_REQUEST,
    NetlinkDeserializable, NetlinkHeader, NetlinkMessage, NetlinkPayload, NetlinkSerializable, Nla, NlasIterator,
};
use nix::sys::socket::{AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Families of tables (include/uapi/linux/netfilter.h).
pub(crate) const NFPROTO_INET: u8 = 1;
pub(crate) const NFPROTO_NETDEV: u8 = 5;

const NFNL_SUBSYS_NFTABLES: u16 = 10;
const NFNL_MSG_BATCH_BEGIN: u16 = 0x10;
const NFNL_MSG_BATCH_END: u16 = 0x11;
const NFT_MSG_NEWTABLE: u16 = 0;
const NFT_MSG_GETTABLE: u16 = 1;
const NFT_MSG_NEWCHAIN: u16 = 3;
const NFT_MSG_GETCHAIN: u16 = 4;
const NFT_MSG_NEWRULE: u16 = 6;
const NFT_MSG_DELRULE: u16 = 8;
const NFT_TABLE_F_OWNER: u32 = 2;
const NLM_F_APPEND: u16 = 0x800;

/// `nfgenmsg`: family, version 0, resource.
const GENERIC_HEADER_BYTES: usize = 4;
/// Register for data of up to 16 bytes.
const NFT_REG_1: u32 = 1;
const NFT_REG_VERDICT: u32 = 0;
/// What the kernel's answers to one batch are read into, bytes.
const ANSWER_BYTES: usize = 64 << 10;

/// So often a list is asked for again that changed while it was read.
const LISTS_MAX: u32 = 8;

/// Verdicts (include/uapi/linux/netfilter.h).
const NF_DROP: u32 = 0;

fn word(kind: u16, value: u32) -> DefaultNla {
    DefaultNla::new(kind, value.to_be_bytes().to_vec())
}

fn text(kind: u16, value: &str) -> DefaultNla {
    DefaultNla::new(kind, [value.as_bytes(), b"\0"].concat())
}

fn nested(kind: u16, inner: &[DefaultNla]) -> DefaultNla {
    let mut bytes = vec![0; inner.buffer_len()];
    inner.emit(&mut bytes);
    DefaultNla::new(kind | NLA_F_NESTED, bytes)
}

/// One step of a rule.
pub(crate) struct Expression(DefaultNla);

fn expression(name: &str, data: &[DefaultNla]) -> Expression {
    const NFTA_LIST_ELEM: u16 = 1;
    Expression(nested(NFTA_LIST_ELEM, &[text(1, name), nested(2, data)]))
}

/// What `meta` reads.
#[derive(Clone, Copy)]
pub(crate) enum Meta {
    /// EtherType, network order.
    Protocol = 1,
    /// Name of the interface that a packet came in on, 16 bytes.
    InputName = 6,
    /// Name of the interface that it leaves through, 16 bytes.
    OutputName = 7,
    /// Family of an inet table's packet, one byte.
    Family = 15,
}

/// Reads a fact about the packet.
pub(crate) fn meta(key: Meta) -> Expression {
    expression("meta", &[word(1, NFT_REG_1), word(2, key as u32)])
}

/// Reads bytes behind the start of the network header.
pub(crate) fn network_bytes(offset: u32, length: u32) -> Expression {
    const NFT_PAYLOAD_NETWORK_HEADER: u32 = 1;
    expression("payload", &[word(1, NFT_REG_1), word(2, NFT_PAYLOAD_NETWORK_HEADER), word(3, offset), word(4, length)])
}

/// Reads the state of the packet's connection, a bit mask in the machine's order.
pub(crate) fn connection_state() -> Expression {
    const NFT_CT_STATE: u32 = 0;
    expression("ct", &[word(1, NFT_REG_1), word(2, NFT_CT_STATE)])
}

/// Keeps only these bits of what was read.
pub(crate) fn mask(mask: &[u8]) -> Expression {
    let value = |bytes: Vec<u8>| [DefaultNla::new(1, bytes)];
    let length = mask.len() as u32;
    let zero = vec![0; mask.len()];
    expression(
        "bitwise",
        &[word(1, NFT_REG_1), word(2, NFT_REG_1), word(3, length), nested(4, &value(mask.to_vec())), nested(5, &value(zero))],
    )
}

fn compare(operation: u32, value: &[u8]) -> Expression {
    expression("cmp", &[word(1, NFT_REG_1), word(2, operation), nested(3, &[DefaultNla::new(1, value.to_vec())])])
}

/// The rule goes on only if what was read is this.
pub(crate) fn is(value: &[u8]) -> Expression {
    compare(0, value)
}

/// The rule goes on only if what was read is not this.
pub(crate) fn is_not(value: &[u8]) -> Expression {
    compare(1, value)
}

/// An interface's name as a packet's metadata has it.
pub(crate) fn name_bytes(name: &str) -> [u8; libc::IFNAMSIZ] {
    let mut bytes = [0; libc::IFNAMSIZ];
    for (to, from) in bytes.iter_mut().zip(name.bytes()) {
        *to = from;
    }
    bytes
}

/// Ends the packet.
pub(crate) fn drop_it() -> Expression {
    let verdict = nested(2, &[word(1, NF_DROP)]);
    expression("immediate", &[word(1, NFT_REG_VERDICT), nested(2, &[verdict])])
}

/// Gives the packet the source address of the interface that it leaves through.
pub(crate) fn masquerade() -> Expression {
    expression("masq", &[])
}

/// Where a chain stands.
pub(crate) struct Hook<'a> {
    /// `filter` or `nat`.
    pub(crate) kind: &'a str,
    /// NF_NETDEV_INGRESS, NF_INET_FORWARD …
    pub(crate) number: u32,
    /// Lower comes first.
    pub(crate) priority: i32,
    /// The interface of a netdev chain.
    pub(crate) device: Option<&'a str>,
}

/// Messages that take effect together, or not at all.
pub(crate) struct Batch<'a> {
    table: &'a str,
    family: u8,
    messages: Vec<(Message, u16)>,
}

impl<'a> Batch<'a> {
    pub(crate) fn new(family: u8, table: &'a str) -> Batch<'a> {
        Batch { table, family, messages: Vec::new() }
    }

    fn push(&mut self, kind: u16, flags: u16, attributes: Vec<DefaultNla>) {
        let kind = NFNL_SUBSYS_NFTABLES << 8 | kind;
        self.messages.push((Message { kind, family: self.family, resource: 0, attributes }, flags));
    }

    /// Makes the table, owned by the socket.
    pub(crate) fn add_table(&mut self) {
        self.push(NFT_MSG_NEWTABLE, NLM_F_CREATE | NLM_F_EXCL, vec![text(1, self.table), word(2, NFT_TABLE_F_OWNER)]);
    }

    /// Makes a chain at a hook; what no rule drops is accepted.
    pub(crate) fn add_chain(&mut self, chain: &str, hook: &Hook<'_>) {
        let mut place = vec![word(1, hook.number), word(2, hook.priority.cast_unsigned())];
        place.extend(hook.device.map(|device| text(3, device)));
        let attributes = vec![text(1, self.table), text(3, chain), nested(4, &place), text(7, hook.kind)];
        self.push(NFT_MSG_NEWCHAIN, NLM_F_CREATE | NLM_F_EXCL, attributes);
    }

    /// Makes a chain that no packet comes to: a name that others can read.
    pub(crate) fn add_name(&mut self, chain: &str) {
        self.push(NFT_MSG_NEWCHAIN, NLM_F_CREATE | NLM_F_EXCL, vec![text(1, self.table), text(3, chain)]);
    }

    /// Takes all rules out of a chain.
    pub(crate) fn flush(&mut self, chain: &str) {
        self.push(NFT_MSG_DELRULE, 0, vec![text(1, self.table), text(2, chain)]);
    }

    /// Puts a rule at a chain's end.
    pub(crate) fn add_rule(&mut self, chain: &str, expressions: Vec<Expression>) {
        let list: Vec<DefaultNla> = expressions.into_iter().map(|Expression(nla)| nla).collect();
        let attributes = vec![text(1, self.table), text(2, chain), nested(4, &list)];
        self.push(NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND, attributes);
    }
}

/// A message of nfnetlink.
#[derive(Clone, Debug, PartialEq)]
struct Message {
    kind: u16,
    family: u8,
    resource: u16,
    attributes: Vec<DefaultNla>,
}

impl NetlinkSerializable for Message {
    fn message_type(&self) -> u16 {
        self.kind
    }
    fn buffer_len(&self) -> usize {
        GENERIC_HEADER_BYTES + self.attributes.as_slice().buffer_len()
    }
    fn serialize(&self, buffer: &mut [u8]) {
        let [high, low] = self.resource.to_be_bytes();
        buffer[..GENERIC_HEADER_BYTES].copy_from_slice(&[self.family, 0, high, low]);
        self.attributes.as_slice().emit(&mut buffer[GENERIC_HEADER_BYTES..]);
    }
}

impl NetlinkDeserializable for Message {
    type Error = std::convert::Infallible;
    fn deserialize(header: &NetlinkHeader, bytes: &[u8]) -> Result<Message, Self::Error> {
        let all = NlasIterator::new(bytes.get(GENERIC_HEADER_BYTES..).unwrap_or_default());
        let attributes = all.map_while(Result::ok).map(|one| DefaultNla::new(one.kind(), one.value().to_vec())).collect();
        Ok(Message { kind: header.message_type, family: 0, resource: 0, attributes })
    }
}

/// An attribute that is a name.
fn name(message: &Message, kind: u16) -> Option<String> {
    let attribute = message.attributes.iter().find(|one| one.kind() == kind)?;
    let mut bytes = vec![0; attribute.value_len()];
    attribute.emit_value(&mut bytes);
    Some(String::from_utf8_lossy(bytes.strip_suffix(b"\0").unwrap_or(&bytes)).into_owned())
}

/// A netlink socket to nftables. Tables made through it are gone when it is closed.
#[derive(Debug)]
pub(crate) struct Owner {
    socket: OwnedFd,
    number: u32,
}

impl Owner {
    pub(crate) fn open() -> io::Result<Owner> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = nix::sys::socket::socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkNetFilter)?;
        nix::sys::socket::bind(socket.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
        let number = nix::sys::socket::getsockname::<NetlinkAddr>(socket.as_raw_fd())?.pid();
        Ok(Owner { socket, number })
    }

    /// The socket's number, which no other socket like it has in this network namespace: for names of tables.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Carries a batch out.
    pub(crate) fn commit(&self, mut batch: Batch<'_>) -> io::Result<()> {
        // Errors come in any case. An acknowledgement of each message would overflow the socket's buffer when there are some hundred.
        let Some((_, last)) = batch.messages.last_mut() else { return Ok(()) };
        *last |= NLM_F_ACK;
        let edge = |kind| (Message { kind, family: 0, resource: NFNL_SUBSYS_NFTABLES, attributes: Vec::new() }, 0);
        let messages = [edge(NFNL_MSG_BATCH_BEGIN)].into_iter().chain(batch.messages).chain([edge(NFNL_MSG_BATCH_END)]);
        let mut bytes = Vec::new();
        for (sequence, (message, flags)) in messages.enumerate() {
            let mut header = NetlinkHeader::default();
            header.flags = NLM_F_REQUEST | flags;
            header.sequence_number = sequence as u32;
            let mut packet = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
            packet.finalize();
            let at = bytes.len();
            bytes.resize(at + packet.buffer_len().next_multiple_of(4), 0);
            packet.serialize(&mut bytes[at..]);
        }
        nix::sys::socket::sendto(self.socket.as_raw_fd(), &bytes, &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
        self.read_answers()
    }

    /// The names of all tables of a family.
    pub(crate) fn tables(&self, family: u8) -> io::Result<Vec<String>> {
        Ok(self.list(NFT_MSG_GETTABLE, family)?.iter().filter_map(|one| name(one, 1)).collect())
    }

    /// All chains of a family: table and name.
    pub(crate) fn chains(&self, family: u8) -> io::Result<Vec<(String, String)>> {
        Ok(self.list(NFT_MSG_GETCHAIN, family)?.iter().filter_map(|one| Some((name(one, 1)?, name(one, 3)?))).collect())
    }

    fn list(&self, kind: u16, family: u8) -> io::Result<Vec<Message>> {
        for _ in 0..LISTS_MAX {
            let mut header = NetlinkHeader::default();
            header.flags = NLM_F_REQUEST | NLM_F_DUMP;
            let request = Message { kind: NFNL_SUBSYS_NFTABLES << 8 | kind, family, resource: 0, attributes: Vec::new() };
            let mut packet = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(request));
            packet.finalize();
            let mut bytes = vec![0; packet.buffer_len()];
            packet.serialize(&mut bytes);
            nix::sys::socket::sendto(self.socket.as_raw_fd(), &bytes, &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
            if let Some(messages) = self.read_list()? {
                return Ok(messages);
            }
        }
        Err(io::Error::new(io::ErrorKind::ResourceBusy, "the list changes while it is read"))
    }

    /// None: it changed meanwhile.
    fn read_list(&self) -> io::Result<Option<Vec<Message>>> {
        let (mut answer, mut messages, mut changed) = (vec![0; ANSWER_BYTES], Vec::new(), false);
        loop {
            let got = nix::sys::socket::recv(self.socket.as_raw_fd(), &mut answer, MsgFlags::empty())?;
            let mut rest = &answer[..got];
            while let Ok(message) = NetlinkMessage::<Message>::deserialize(rest) {
                let length = (message.header.length as usize).next_multiple_of(4);
                changed |= message.header.flags & NLM_F_DUMP_INTR != 0;
                match message.payload {
                    NetlinkPayload::InnerMessage(one) => messages.push(one),
                    NetlinkPayload::Error(error) => {
                        return Err(io::Error::from_raw_os_error(error.code.map_or(libc::EIO, |code| code.get().abs())));
                    }
                    NetlinkPayload::Done(_) => return Ok((!changed).then_some(messages)),
                    _ => {}
                }
                rest = rest.get(length..).unwrap_or_default();
            }
        }
    }

    /// All answers are there when sending returns.
    fn read_answers(&self) -> io::Result<()> {
        let (mut answer, mut acknowledged, mut failed) = (vec![0; ANSWER_BYTES], false, None);
        loop {
            let got = match nix::sys::socket::recv(self.socket.as_raw_fd(), &mut answer, MsgFlags::empty()) {
                Ok(got) => got,
                Err(nix::errno::Errno::EAGAIN) => break,
                Err(error) => return Err(error.into()),
            };
            let mut rest = &answer[..got];
            while let Ok(message) = NetlinkMessage::<Message>::deserialize(rest) {
                if let NetlinkPayload::Error(error) = &message.payload {
                    match error.code {
                        None => acknowledged = true,
                        Some(code) => failed = failed.or(Some(code.get().abs())),
                    }
                }
                let length = (message.header.length as usize).next_multiple_of(4);
                rest = rest.get(length..).unwrap_or_default();
            }
        }
        match failed {
            Some(number) => Err(io::Error::from_raw_os_error(number)),
            None if acknowledged => Ok(()),
            None => Err(io::Error::new(io::ErrorKind::InvalidData, "the kernel did not answer")),
        }
    }
}
