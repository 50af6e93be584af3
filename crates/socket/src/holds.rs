//! One socket's hold on a local port.

use crate::errno::Errno;
use crate::ports::{Hold, How, Ports, Range};
use crate::socket::Socket;
use std::net::{IpAddr, SocketAddr};
use weft_core::Rng;

/// What others see of this socket's hold on a port.
pub(crate) fn of(socket: &Socket, address: IpAddr, how: How) -> Hold {
    Hold {
        address,
        v6_only: socket.options.v6_only,
        owner: socket.owner,
        interface: socket.options.interface,
        reuse_address: socket.options.reuse_address,
        reuse_port: socket.options.reuse_port,
        listening: socket.is_listening(),
        remote: socket.remote,
        how,
        time_wait: None,
    }
}

/// IP_LOCAL_PORT_RANGE narrows the node's range; what lies outside of it is ignored (inet_sk_get_local_port_range).
pub(crate) fn range_of(socket: &Socket, (first, last): (u16, u16)) -> Range {
    let (low, high) = socket.options.port_range;
    let within = |port: u16| (port != 0 && (first..=last).contains(&port)).then_some(port);
    Range { first: within(low).unwrap_or(first), last: within(high).unwrap_or(last), own: (low, high) != (0, 0) }
}

/// Takes the port of `address`, or one of the node's `ephemeral` range for port 0, which is then the socket's. EADDRINUSE.
pub(crate) fn take(socket: &mut Socket, ports: &mut Ports, address: SocketAddr, ephemeral: (u16, u16), rng: &mut Rng) -> Result<(), Errno> {
    let hold = of(socket, address.ip(), How::Bind);
    let (id, port) = ports.bind(address.port(), hold, range_of(socket, ephemeral), rng)?;
    (socket.hold, socket.number) = (Some(id), port);
    Ok(())
}

/// Lets others see this socket's reuse flags, interface and owner.
pub(crate) fn show(socket: &Socket, ports: &mut Ports) {
    let Some(hold) = socket.hold else { return };
    ports.update(hold, |held| {
        (held.reuse_address, held.reuse_port) = (socket.options.reuse_address, socket.options.reuse_port);
        (held.interface, held.owner) = (socket.options.interface, socket.owner);
    });
}
