//! A row of the table of addresses, and a frame that a block holds, as state: head with what was pulled, tail by reference, metadata. Whom its end is to be told, too: that block's state
//! travels with it.

use super::{Damage, Field, Reader, Writer};
use crate::block::BlockId;
use crate::frame::{Checksum, Completion, Direction, Frame, Gso, GsoKind, IcmpError, IcmpErrorKind, Meta};
use crate::table::{Address, AddressState, Label};
use weft_wire::Protocol;
use weft_wire::ethernet::{EtherType, Mac};

/// Longest head of a frame, bytes: positions in it have 16 bits.
const HEAD_BYTES_MAX: usize = u16::MAX as usize;

macro_rules! wrapped {
    ($($type:ident),+) => {$(
        impl Field for $type {
            fn write(&self, out: &mut Writer) {
                out.put(&self.0);
            }
            fn read(from: &mut Reader<'_>) -> Result<$type, Damage> {
                from.take().map($type)
            }
        }
    )+};
}
wrapped!(BlockId, EtherType, Mac, Protocol);

crate::fields!(
    enum Direction {
        Ingress = 0,
        Egress = 1,
    }
);
crate::fields!(
    enum GsoKind {
        Tcp = 0,
        Udp = 1,
    }
);
crate::fields!(struct Completion { block, token, bytes });
crate::fields!(struct IcmpError { kind, from });
crate::fields!(struct Meta {
    direction, interface, received, ether_type, src_mac, dst_mac, src, dst, next_hop, protocol, ttl, tos, dont_fragment, src_port, dst_port, network_at,
    transport_at, checksum, gso, no_loop, ip_options, attached, mark, completion, error,
});

crate::fields!(
    enum AddressState {
        Preferred = 0,
        Deprecated = 1,
        Tentative = 2,
        Duplicated = 3,
    }
);
crate::fields!(struct Address {
    interface, address, prefix_bits, state, dynamic, preferred_until, valid_until, peer, broadcast, scope, label, flags, metric,
});

impl Field for Label {
    fn write(&self, out: &mut Writer) {
        out.serialised(self);
    }
    fn read(from: &mut Reader<'_>) -> Result<Label, Damage> {
        from.serialised()
    }
}

impl Field for Gso {
    fn write(&self, out: &mut Writer) {
        out.put(&self.segment_bytes);
        out.put(&self.kind);
    }
    fn read(from: &mut Reader<'_>) -> Result<Gso, Damage> {
        let (segment_bytes, kind) = (from.take()?, from.take()?);
        if segment_bytes == 0 { Err(Damage::new("segments of no bytes")) } else { Ok(Gso { segment_bytes, kind }) }
    }
}

impl Field for Checksum {
    fn write(&self, out: &mut Writer) {
        match self {
            Checksum::Unknown => out.byte(0),
            Checksum::Valid => out.byte(1),
            Checksum::Partial { offset } => {
                out.byte(2);
                out.put(offset);
            }
            Checksum::Covers(bytes) => {
                out.byte(3);
                out.put(bytes);
            }
            Checksum::Absent => out.byte(4),
        }
    }
    fn read(from: &mut Reader<'_>) -> Result<Checksum, Damage> {
        Ok(match from.byte()? {
            0 => Checksum::Unknown,
            1 => Checksum::Valid,
            2 => Checksum::Partial { offset: from.take()? },
            3 => Checksum::Covers(from.take()?),
            4 => Checksum::Absent,
            other => return Err(Damage::new(format_args!("a checksum in state {other}"))),
        })
    }
}

/// Those without a figure, by their numbers.
const PLAIN: [IcmpErrorKind; 8] = [
    IcmpErrorKind::NetUnreachable,
    IcmpErrorKind::HostUnreachable,
    IcmpErrorKind::ProtocolUnreachable,
    IcmpErrorKind::PortUnreachable,
    IcmpErrorKind::SourceRouteFailed,
    IcmpErrorKind::Prohibited,
    IcmpErrorKind::TtlExceeded,
    IcmpErrorKind::ReassemblyTimeout,
];

impl Field for IcmpErrorKind {
    fn write(&self, out: &mut Writer) {
        match self {
            IcmpErrorKind::TooBig { mtu } => out.put(&(100u8, *mtu)),
            IcmpErrorKind::ParameterProblem { pointer } => out.put(&(101u8, *pointer)),
            IcmpErrorKind::Redirect { gateway } => out.put(&(102u8, *gateway)),
            plain => out.byte(PLAIN.iter().position(|kind| kind == plain).unwrap_or(PLAIN.len()) as u8),
        }
    }
    fn read(from: &mut Reader<'_>) -> Result<IcmpErrorKind, Damage> {
        Ok(match from.byte()? {
            100 => IcmpErrorKind::TooBig { mtu: from.take()? },
            101 => IcmpErrorKind::ParameterProblem { pointer: from.take()? },
            102 => IcmpErrorKind::Redirect { gateway: from.take()? },
            plain => *PLAIN.get(usize::from(plain)).ok_or_else(|| Damage::new(format_args!("no ICMP error has the number {plain}")))?,
        })
    }
}

impl Field for Frame {
    fn write(&self, out: &mut Writer) {
        let (start, head) = self.whole_head();
        out.put(self.meta());
        out.number(start as u64);
        out.content(head);
        out.put(self.tail());
    }
    fn read(from: &mut Reader<'_>) -> Result<Frame, Damage> {
        let (meta, start): (Meta, usize) = (from.take()?, from.take()?);
        let head = from.content()?;
        if head.len() > HEAD_BYTES_MAX || start > head.len() {
            return Err(Damage::new("a frame whose head does not fit"));
        }
        let frame = Frame::of_parts(meta, start, head, from.take()?);
        let meta = frame.meta();
        let (head, whole) = (head.len(), start + frame.len());
        let sum_fits = match meta.checksum {
            Checksum::Partial { offset } => usize::from(meta.transport_at) + usize::from(offset) + 2 <= whole,
            _ => true,
        };
        match usize::from(meta.network_at) <= head && usize::from(meta.transport_at) <= head && sum_fits {
            true => Ok(frame),
            false => Err(Damage::new("a frame whose headers lie outside of it")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Instant;
    use bytes::Bytes;

    #[test]
    fn a_frame_is_what_it_was() {
        let mut frame = Frame::egress();
        frame.extend(b"payload");
        frame.push(20).fill(6);
        frame.append(Bytes::from_static(b"shared"));
        let meta = frame.meta_mut();
        meta.dst = [10, 0, 0, 1].into();
        (meta.network_at, meta.transport_at) = (100, 120);
        meta.checksum = Checksum::Partial { offset: 16 };
        meta.gso = Some(Gso { segment_bytes: 1448, kind: GsoKind::Udp });
        meta.completion = Some(Completion { block: BlockId(3), token: 9, bytes: 100 });
        meta.error = Some(IcmpError { kind: IcmpErrorKind::Redirect { gateway: [10, 0, 0, 9].into() }, from: [10, 0, 0, 2].into() });
        let now = Instant::from_millis(5);
        let mut out = Writer::new(now);
        out.put(&frame);
        let state = out.finish("x", 1);
        assert_eq!(state.buffers, [&b"shared"[..]]);
        let mut from = Reader::new(&state, "x", 1, now).unwrap();
        let mut read: Frame = from.take().unwrap();
        from.finish().unwrap();
        assert_eq!(format!("{read:?}"), format!("{frame:?}"));
        read.push(14).fill(1);
        assert_eq!(read.len(), frame.len() + 14, "there is room in front");
    }

    #[test]
    fn frames_that_cannot_be_are_refused() {
        let read = |change: &dyn Fn(&mut Meta)| {
            let mut frame = Frame::egress();
            frame.extend(b"payload");
            change(frame.meta_mut());
            let mut out = Writer::new(Instant::ZERO);
            out.put(&frame);
            let state = out.finish("x", 1);
            Reader::new(&state, "x", 1, Instant::ZERO).unwrap().take::<Frame>().map(|_| ())
        };
        assert!(read(&|_| ()).is_ok());
        assert!(read(&|meta| meta.network_at = 168).is_err());
        assert!(read(&|meta| meta.gso = Some(Gso { segment_bytes: 0, kind: GsoKind::Tcp })).is_err());
        assert!(read(&|meta| meta.checksum = Checksum::Partial { offset: 6 + 160 }).is_err());
    }
}
