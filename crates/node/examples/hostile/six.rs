//! What the stranger sends of IPv6: neighbour discovery, routers, groups, errors, chains of headers, fragments.

use super::packet::*;
use super::stranger::Stranger;

const ALL_NODES: [u8; 16] = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

/// An address that is not one of the nodes': on the link, link-local, or anywhere.
pub fn stranger(of: &mut Stranger) -> [u8; 16] {
    let mut out = match of.below(3) {
        0 => node6(0),
        1 => link6(0),
        _ => {
            let mut random = [0; 16];
            of.rng.fill(&mut random);
            random[0] = 0x20 | random[0] & 15;
            return random;
        }
    };
    out[14] = 1;
    out[15] = of.byte();
    out
}

/// All nodes, a group that programs have joined, solicited-node groups, or another.
pub fn group(of: &mut Stranger) -> [u8; 16] {
    let mut out = ALL_NODES;
    match of.below(4) {
        0 => {}
        1 => out = [0xff, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 3],
        2 => {
            out[11..14].copy_from_slice(&[1, 0xff, 0]);
            out[15] = of.byte() % 4;
        }
        _ => out[15] = of.byte(),
    }
    out
}

/// Options of neighbour discovery: link-layer addresses, prefixes, MTU, routes, nonces, and others; most of them hold together.
fn nd_options(of: &mut Stranger, router: bool) -> Vec<u8> {
    let mut out = Vec::new();
    for _ in 0..of.below(4) {
        let kind = if router { of.pick(&[1, 3, 3, 3, 5, 24, 25, 31, 4]) } else { of.pick(&[1, 1, 2, 2, 14, 4, 5]) };
        match kind {
            3 => {
                let bits = of.pick(&[64, 64, 64, 0, 128, 129, 48, 10]);
                out.extend_from_slice(&[3, 4, bits, of.byte()]);
                let (valid, preferred) = (lifetime(of), lifetime(of));
                out.extend_from_slice(&valid.to_be_bytes());
                out.extend_from_slice(&preferred.to_be_bytes());
                out.extend_from_slice(&[0; 4]);
                let mut prefix = [0; 16];
                // Some again and again, so that they are renewed and withdrawn.
                let last = if of.rng.chance(0.5) { of.byte() % 4 } else { of.byte() };
                prefix[..4].copy_from_slice(&[[0x20, 1, 0xd, last], [0xfd, 0x79, 0, last], [0xfe, 0x80, 0, 0]][of.below(3)]);
                out.extend_from_slice(&prefix);
            }
            5 => {
                let mtu = [1280, 1500, 9000, of.rng.u32() % 3000][of.below(4)];
                out.extend_from_slice(&[5, 1, 0, 0]);
                out.extend_from_slice(&mtu.to_be_bytes());
            }
            24 => {
                let units = 1 + of.byte() % 3;
                out.extend_from_slice(&[24, units, of.byte() % 129, of.byte()]);
                let valid = lifetime(of);
                out.extend_from_slice(&valid.to_be_bytes());
                let mut prefix = [0; 16];
                prefix[..3].copy_from_slice(&[0xfd, 0x7a, of.byte()]);
                out.extend_from_slice(&prefix[..usize::from(units - 1) * 8]);
            }
            1 | 2 | 14 => out.extend_from_slice(&[kind, 1, 2, 9, of.byte(), of.byte(), of.byte(), of.byte()]),
            _ => {
                let units = 1 + of.below(4);
                out.extend_from_slice(&[kind, units as u8]);
                let mut rest = vec![0; units * 8 - 2];
                of.rng.fill(&mut rest);
                out.extend_from_slice(&rest);
            }
        }
    }
    if of.rng.chance(0.1) && !out.is_empty() {
        let at = of.below(out.len());
        out[at] = of.byte();
    }
    out
}

fn lifetime(of: &mut Stranger) -> u32 {
    let random = of.rng.u32();
    of.pick(&[0, 1, 30, 1800, 7200, 86_400, u32::MAX, random])
}

fn hop_limit(of: &mut Stranger) -> u8 {
    if of.rng.chance(0.93) { 255 } else { of.byte() }
}

/// Solicitations and advertisements, mostly of others than the two nodes: who may claim their addresses may take their traffic.
pub fn nd(of: &mut Stranger) -> (usize, Vec<u8>) {
    let to = of.below(2);
    let other = stranger(of);
    let kind = of.pick(&[135, 135, 136, 133]);
    let target = match kind {
        135 => [node6(to), node6(to), link6(to), other][of.below(4)],
        _ if of.rng.chance(0.05) => [node6(1 - to), node6(to)][of.below(2)],
        _ => other,
    };
    let mut body = vec![kind, if of.rng.chance(0.97) { 0 } else { of.byte() }, 0, 0, if kind == 136 { of.byte() } else { 0 }, 0, 0, 0];
    if kind != 133 {
        body.extend_from_slice(&target);
    }
    body.extend(nd_options(of, false));
    let source = if of.rng.chance(0.1) { [0; 16] } else { other };
    let destination = if of.rng.chance(0.5) { node6(to) } else { group(of) };
    let hops = hop_limit(of);
    (to, ip6(to, source, destination, hops, 58, &body))
}

/// Advertisements of routers, and redirects that quote live packets.
pub fn router(of: &mut Stranger) -> (usize, Vec<u8>) {
    let to = of.below(2);
    let mut source = link6(0);
    source[14..].copy_from_slice(&[7, of.byte() % 80]);
    let hops = hop_limit(of);
    if of.rng.chance(0.7) {
        let mut body = vec![134, 0, 0, 0, of.pick(&[0, 64, 1, 255]), of.byte()];
        let router = [0, 0, 1800, 9000, of.short()][of.below(5)];
        body.extend_from_slice(&router.to_be_bytes());
        let times = [0, of.rng.u32() % 100_000, of.rng.u32()];
        body.extend_from_slice(&times[of.below(3)].to_be_bytes());
        body.extend_from_slice(&times[of.below(3)].to_be_bytes());
        body.extend(nd_options(of, true));
        let source = if of.rng.chance(0.95) { source } else { node6(1 - to) };
        let destination = if of.rng.chance(0.8) { ALL_NODES } else { node6(to) };
        return (to, ip6(to, source, destination, hops, 58, &body));
    }
    let (target, destination) = (if of.rng.chance(0.5) { source } else { stranger(of) }, stranger(of));
    let mut body = vec![137, 0, 0, 0, 0, 0, 0, 0];
    body.extend_from_slice(&target);
    body.extend_from_slice(&if of.rng.chance(0.3) { target } else { destination });
    body.extend(nd_options(of, false));
    if let Some((_, frame)) = of.taped(Some((6, 17)))
        && of.rng.chance(0.5)
    {
        let quote = ((frame.len() - LINK) / 8 * 8).min(400);
        body.extend_from_slice(&[4, (quote / 8 + 1) as u8, 0, 0, 0, 0, 0, 0]);
        body.extend_from_slice(&frame[LINK..LINK + quote]);
    }
    let source = [source, link6(1 - to), link6(1 - to)][of.below(3)];
    (to, ip6(to, source, node6(to), hops, 58, &body))
}

/// Queries of two versions, reports, done.
pub fn mld(of: &mut Stranger) -> (usize, Vec<u8>) {
    let to = of.below(2);
    let about = if of.rng.chance(0.4) { [0; 16] } else { group(of) };
    let kind = of.pick(&[130, 130, 130, 131, 132, 143]);
    let mut body = vec![kind, 0, 0, 0];
    match kind {
        143 => {
            let count = of.below(4) as u8;
            body.extend_from_slice(&[0, 0, 0, count]);
            for _ in 0..count {
                let sources = of.below(3) as u8;
                body.extend_from_slice(&[1 + of.byte() % 6, 0, 0, sources]);
                body.extend_from_slice(&about);
                (0..sources).for_each(|_| body.extend_from_slice(&node6(0)));
            }
        }
        _ => {
            let delay = [of.short() % 2000, of.short()][of.below(2)];
            body.extend_from_slice(&delay.to_be_bytes());
            body.extend_from_slice(&[0, 0]);
            body.extend_from_slice(&about);
            if kind == 130 && of.rng.chance(0.7) {
                let sources = of.below(4) as u8;
                body.extend_from_slice(&[of.byte() % 16, of.byte(), 0, sources]);
                (0..sources).for_each(|_| body.extend_from_slice(&node6(0)));
            }
        }
    }
    if of.rng.chance(0.1) {
        let keep = of.below(body.len() + 1);
        body.truncate(keep);
    }
    let mut packet = vec![58, 0, 5, 2, 0, 0, 1, 0];
    packet.extend_from_slice(&body);
    let destination = if about[0] == 0 { ALL_NODES } else { about };
    let source = if of.rng.chance(0.9) { link6(1 - to) } else { stranger(of) };
    let hops = if of.rng.chance(0.9) { 1 } else { of.byte() };
    (to, ip6(to, source, destination, hops, 0, &packet))
}

/// Errors that quote live packets, some behind extension headers.
pub fn icmp6(of: &mut Stranger) -> (usize, Vec<u8>) {
    let random = of.byte();
    let kind = of.pick(&[1, 1, 2, 2, 3, 4, 100, random]);
    let mtu = [0, 1279, 1280, 1300, 1400, of.rng.u32()][of.below(6)];
    let mut body = vec![kind, of.byte() % 8, 0, 0];
    body.extend_from_slice(&mtu.to_be_bytes());
    let protocol = of.pick(&[6, 6, 17, 58, 255]);
    let mut to = of.below(2);
    if let Some((from, frame)) = of.taped(Some((6, protocol))).filter(|(_, frame)| frame.len() > LINK + 40) {
        to = from;
        let most = (frame.len() - LINK).min(1232);
        let quote = if of.rng.chance(0.6) { most } else { of.below(most + 1) };
        body.extend_from_slice(&frame[LINK..LINK + quote]);
        if of.rng.chance(0.1) {
            let at = 8 + of.below(body.len() - 8);
            body.extend_from_slice(&[0]);
            body[at] = of.byte();
        } else if of.rng.chance(0.2) && quote > 48 {
            // A destination options' header that the packet may have had.
            let next = body[8 + 6];
            body[8 + 6] = 60;
            body.splice(48..48, [next, 0, 1, 4, 0, 0, 0, 0]);
        }
    }
    let source = if of.rng.chance(0.5) { node6(1 - to) } else { stranger(of) };
    (to, ip6(to, source, node6(to), 64, 58, &body))
}

/// One extension header that says what is next.
fn header(of: &mut Stranger, kind: u8, next: u8) -> Vec<u8> {
    match kind {
        44 => vec![next, 0, 0, 0, 0, 0, 0, of.byte()],
        43 => {
            let units = of.byte() % 5;
            let mut out = vec![next, units, of.pick(&[0, 2, 3, 4, 200]), of.pick(&[0, 0, 1, 2])];
            let mut rest = vec![0; usize::from(units) * 8 + 4];
            of.rng.fill(&mut rest);
            if rest.len() >= 20 && of.rng.chance(0.7) {
                rest[4..20].copy_from_slice(&node6(1));
            }
            out.extend(rest);
            out
        }
        51 => vec![next, 2, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 9, 9, 9, 9],
        0 | 60 => {
            let mut options = Vec::new();
            for _ in 0..of.below(5) {
                let random = of.byte();
                match of.pick(&[0, 1, 5, 0xc2, 0x1e, 0x5e, 0x9e, 0xde, 0xc9, random]) {
                    0 => options.push(0),
                    1 => {
                        let length = of.byte() % 7;
                        options.extend_from_slice(&[1, length]);
                        options.resize(options.len() + usize::from(length), 0);
                    }
                    5 => options.extend_from_slice(&[5, 2, 0, 0]),
                    0xc2 => options.extend_from_slice(&[0xc2, 4, 0, of.byte() % 2, of.byte(), of.byte()]),
                    other => {
                        let data = of.bytes(12);
                        options.extend_from_slice(&[other, data.len() as u8]);
                        options.extend(data);
                    }
                }
            }
            let length = (options.len() + 2).next_multiple_of(8);
            let mut out = vec![next, (length / 8 - 1) as u8];
            out.extend(options);
            match length - out.len() {
                0 => {}
                1 => out.push(0),
                room => {
                    out.extend_from_slice(&[1, room as u8 - 2]);
                    out.resize(length, 0);
                }
            }
            out
        }
        _ => vec![next, 0, 0, 0, 0, 0, 0, 0],
    }
}

/// Chains of extension headers before something live.
pub fn chain(of: &mut Stranger) -> (usize, Vec<u8>) {
    let protocol = of.pick(&[17, 6, 58]);
    let Some((from, frame)) = of.taped(Some((6, protocol))) else { return of.noise() };
    let Some((mut next, range, false)) = transport(&frame[LINK..]) else { return of.noise() };
    let mut packet = frame[LINK + range.start..LINK + range.end].to_vec();
    if of.rng.chance(0.1) {
        next = of.pick(&[59, 50, 135, 139, 4, 41, 250]);
    }
    for _ in 0..=of.below(4) {
        let kind = of.pick(&[60, 60, 43, 44, 51, 60]);
        let front = header(of, kind, next);
        packet.splice(0..0, front);
        next = kind;
    }
    if of.rng.chance(0.5) {
        let front = header(of, 0, next);
        packet.splice(0..0, front);
        next = 0;
    }
    if of.rng.chance(0.1) {
        let at = of.below(packet.len().min(64));
        packet[at] = of.byte();
    }
    let mut out = frame[..LINK + 40].to_vec();
    out[LINK + 6] = next;
    out.extend_from_slice(&packet);
    if of.rng.chance(0.1) {
        let end = LINK + 40 + of.below(packet.len() + 1);
        out.truncate(end);
    }
    set_lengths(&mut out);
    repair(&mut out);
    (1 - from, out)
}

/// A packet of a live flow in pieces: overlapping, twice, in any order, with holes, behind other headers.
pub fn pieces(of: &mut Stranger) -> (usize, Vec<u8>) {
    let protocol = of.pick(&[17, 6, 58]);
    let Some((from, frame)) = of.taped(Some((6, protocol))) else { return of.noise() };
    let Some((protocol, range, false)) = transport(&frame[LINK..]) else { return of.noise() };
    let mut payload = frame[LINK + range.start..LINK + range.end].to_vec();
    if of.rng.chance(0.5) {
        payload.extend(of.bytes(300));
    }
    let (id, sound) = (of.byte() % 64, of.rng.chance(0.5));
    let step = 8 * (1 + of.below(40));
    let mut at = 0;
    while at < payload.len() {
        let back = if sound { 0 } else { (8 * of.below(3)).min(at) };
        let end = (at + step).min(payload.len());
        let more = end < payload.len() || (!sound && of.rng.chance(0.2));
        let offset = if sound || of.rng.chance(0.95) { (at - back) as u16 } else { of.short() & 0xfff8 };
        let field = (offset | u16::from(more)).to_be_bytes();
        let mut piece = frame[..LINK + 40].to_vec();
        piece[LINK + 6] = 44;
        if !sound && of.rng.chance(0.1) {
            piece[LINK + 6] = 60;
            piece.extend_from_slice(&[44, 0, 1, 4, 0, 0, 0, 0]);
        }
        piece.extend_from_slice(&[protocol, 0, field[0], field[1], 0, 0, 0, id]);
        let cut = if !sound && of.rng.chance(0.1) { of.below(8) } else { 0 };
        piece.extend_from_slice(&payload[at - back..end.saturating_sub(cut).max(at - back)]);
        set_lengths(&mut piece);
        of.queue_piece((1 - from, piece), sound);
        at = end;
    }
    of.more.pop_front().unwrap_or((1 - from, frame))
}

/// To be forwarded: to the other network, to nowhere, with little hop limit, from impossible sources.
pub fn passing(of: &mut Stranger) -> (usize, Vec<u8>) {
    let mut far = [0; 16];
    far[..2].copy_from_slice(&[0xfd, 0x78]);
    far[15] = if of.rng.chance(0.7) { 9 } else { of.byte() };
    let destination = [far, far, stranger(of), group(of)][of.below(4)];
    let mut loopback = [0; 16];
    loopback[15] = 1;
    let source = [node6(0), node6(0), stranger(of), link6(0), [0; 16], loopback, group(of)][of.below(7)];
    let protocol = of.pick(&[17, 6, 58, 47]);
    let (payload, hops) = (of.bytes(1460), of.pick(&[64, 64, 64, 1, 0, 2, 255]));
    let mut frame = ip6(1, source, destination, hops, protocol, &payload);
    if of.rng.chance(0.7) {
        frame[..6].copy_from_slice(&MACS[1]);
    }
    (1, frame)
}
