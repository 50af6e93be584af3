//! The model on the small loopback of `below`.

use super::model::Model;
use weft_core::{BlockTable, Mode, Op};

/// The sockets on the small loopback, with these parameters.
pub fn model(parameters: &[(&str, u64)]) -> Model {
    let table = BlockTable::new([weft_socket::ROW, super::below::ROW]);
    let parameters = parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
    let bind = |from: &str, to: &str| Op::Bind { from: weft_core::End::parse(from), to: weft_core::End::parse(to) };
    let ops = [
        Op::Add { name: "sockets".to_owned(), kind: "sockets".to_owned(), parameters },
        Op::Add { name: "below".to_owned(), kind: "below".to_owned(), parameters: Default::default() },
        bind("sockets:tcp", "below:tcp"),
        bind("below:tcp", "sockets:tcp"),
        bind("sockets:udp", "below:udp"),
        bind("below:udp", "sockets:udp"),
        bind("sockets:unreachable", "below:unreachable"),
        bind("below:error", "sockets:error"),
    ];
    Model::with(Mode::Inline, table, &ops)
}
