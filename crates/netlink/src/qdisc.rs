//! RTM_GETQDISC: interfaces have no queue of their own (`noqueue`); queues are blocks and wires.

use crate::errno::Refusal;
use crate::message::{Message, word};
use crate::packet::{Reply, Request};
use crate::{Tables, interfaces};
use weft_core::InterfaceIndex;
use weft_core::table::Which;

const NEWQDISC: u16 = 36;
const TCA_KIND: u16 = 1;
/// TC_H_ROOT.
const ROOT: u32 = u32::MAX;

pub(crate) fn answer(request: &Request<'_>, tables: &mut dyn Tables) -> Result<Reply, Refusal> {
    if !request.is_dump() {
        return Err(Refusal::lacking("answers dumps of queues only"));
    }
    let index = word(request.body, 4);
    let which = if index == 0 { Which::All } else { Which::Index(InterfaceIndex(index)) };
    // What is down has the kernel's noop, which it does not list.
    let rows = interfaces(tables, which).into_iter().filter(|row| row.interface.up);
    let message = |index: u32| {
        // struct tcmsg: family, index, handle, parent, and (tcm_info) references.
        let words = [0, index, 0, ROOT, 2];
        let mut message = Message::new(NEWQDISC, &words.iter().flat_map(|word: &u32| word.to_ne_bytes()).collect::<Vec<_>>());
        message.text(TCA_KIND, "noqueue");
        message
    };
    Ok(Reply::Dump(rows.map(|row| message(row.interface.index.0)).collect(), false))
}
