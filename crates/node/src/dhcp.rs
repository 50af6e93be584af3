//! The block that asks for leases: which parameters it gets, and where it stands in the default graph of a file whose interfaces want it.

use crate::default_graph::BLOCKS;
use crate::error::StackError;
use crate::stack::{Base, BlockEntry, NodeSection, Stack};
use indexmap::IndexMap;
use weft_blocks::ip::dhcp::is_host_name;
use weft_core::control::Value;
use weft_core::{End, Op};

/// Its name, and its kind.
pub(crate) const DHCP: &str = "dhcp";
/// The edge of the default graph in which it stands.
pub(crate) const INSIDE: (&str, &str) = ("ether:ip4", "ip4:lower");
/// The edges that it has then.
const EDGES: [(&str, &str); 3] = [("ether:ip4", "dhcp:lower"), ("dhcp:upper", "ip4:lower"), ("dhcp:out", "arp:upper")];

/// Parameters of the block for interfaces that ask.
pub(crate) fn parameters(node: &str, interfaces: Vec<String>) -> IndexMap<String, Value> {
    let mut parameters = IndexMap::from([("interfaces".to_owned(), Value::from(interfaces))]);
    // The usual name of a stack says nothing of this one.
    if is_host_name(node) && node != NodeSection::default().name {
        parameters.insert("host_name".to_owned(), node.into());
    }
    parameters
}

pub(crate) fn binds() -> impl Iterator<Item = Op> {
    EDGES.into_iter().map(|(from, to)| Op::Bind { from: End::parse(from), to: End::parse(to) })
}

/// Puts the block into the blocks of a file whose interfaces ask for it. The edges that it stands in, in place of [`INSIDE`]; none: nobody asks.
///
/// # Errors
/// The graph is none of this node's making.
pub(crate) fn put_in(stack: &Stack, entries: &mut IndexMap<String, BlockEntry>) -> Result<Vec<Op>, StackError> {
    let Some(index) = stack.interfaces().position(|interface| interface.dhcp) else { return Ok(Vec::new()) };
    if stack.node().graph != Base::Default {
        let help =
            "add a block of kind dhcp with interfaces = [\"…\"], and bind it between ether and ip4 and to arp: `weft help block dhcp`";
        return Err(stack.interface_error(index, "dhcp", "only the default graph gets the block that asks by itself", help));
    }
    debug_assert!(BLOCKS.iter().all(|(name, _)| *name != DHCP), "it is there where somebody asks for it only");
    let asked = parameters(&stack.node().name, stack.by_dhcp().map(str::to_owned).collect());
    let new = || BlockEntry {
        name: DHCP.to_owned(),
        span: usize::MAX..usize::MAX,
        kind: None,
        parameters: IndexMap::new(),
        spans: IndexMap::new(),
    };
    let entry = entries.entry(DHCP.to_owned()).or_insert_with(new);
    for (name, value) in asked {
        entry.parameters.entry(name).or_insert(value);
    }
    Ok(binds().collect())
}
