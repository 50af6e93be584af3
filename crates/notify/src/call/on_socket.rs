//! Calls that are their socket's affair alone: find it, and let [`weft_intercept::socket_calls`] answer.

use super::trapped::{Call, Outcome};
use super::trapped_socket::TrappedSocket;
use crate::supervisor::{Supervisor, Turn};
use crate::sys::Errno;
use weft_intercept::socket_calls::{connection, data, option};
use weft_loader::calls;

macro_rules! on_socket {
    ($($family:ident::$name:ident($asked:ident);)*) => { $(
        pub(super) fn $name(s: &mut Supervisor, turn: &mut Turn<'_>, call: &Call, asked: calls::$asked) -> Result<Outcome, Errno> {
            match TrappedSocket::find(s, turn, call, asked.fd)? {
                Some(mut socket) => $family::$name(&mut socket, asked),
                None => Ok(Outcome::Continue),
            }
        }
    )* };
}

on_socket! {
    connection::bind(Bind);
    connection::listen(Listen);
    connection::connect(Connect);
    connection::accept(Accept);
    connection::accept4(Accept4);
    connection::shutdown(Shutdown);
    connection::getsockname(Getsockname);
    connection::getpeername(Getpeername);
    option::getsockopt(Getsockopt);
    option::setsockopt(Setsockopt);
    data::sendto(Sendto);
    data::recvfrom(Recvfrom);
    data::sendmmsg(Sendmmsg);
}
