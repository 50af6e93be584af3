//! Blocks and edges: the linking table. Nothing else decides where a frame goes next.
//!
//! [`Slots`] is the running graph, owned by an engine. It changes only by [`crate::transaction::Plan`]s.

use crate::block::{Block, BlockId, BlockRow, InPort, Kind, OutPort};
use crate::reason::Reason;
use crate::table::Table;
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// Most blocks in one graph.
pub const BLOCKS_MAX: usize = 4096;

/// Where an output leads.
pub type Edge = (BlockId, InPort);

/// A block in its place. What every vector touches comes first and shares a cache line.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Slot {
    /// Taken out while the block runs.
    pub block: Option<Box<dyn Block>>,
    /// Frames that entered.
    pub frames_in: u64,
    /// One entry an output port.
    pub edges: SmallVec<[Option<Edge>; 2]>,
    pub kind: &'static Kind,
    pub name: Box<str>,
    /// Drops by reason.
    pub drops: Box<[u64; Reason::COUNT]>,
}

impl Slot {
    pub(crate) fn new(name: String, block: Box<dyn Block>) -> Slot {
        let kind = block.kind();
        let edges = smallvec::smallvec![None; kind.outputs.len()];
        Slot { block: Some(block), frames_in: 0, edges, kind, name: name.into(), drops: Box::new([0; Reason::COUNT]) }
    }

    #[inline]
    pub(crate) fn edge(&self, port: OutPort) -> Option<Edge> {
        self.edges.get(usize::from(port.0)).copied().flatten()
    }
}

/// The running graph.
#[derive(Debug, Default)]
pub struct Slots {
    pub(crate) slots: Vec<Option<Slot>>,
    pub(crate) names: BTreeMap<String, BlockId>,
    pub(crate) owners: BTreeMap<Table, BlockId>,
}

impl Slots {
    /// The block with this name.
    pub fn find(&self, name: &str) -> Option<BlockId> {
        self.names.get(name).copied()
    }
    /// A block's name.
    pub fn name(&self, id: BlockId) -> &str {
        self.slot(id).map_or("?", |slot| &slot.name)
    }
    /// A block's kind.
    pub fn kind(&self, id: BlockId) -> Option<&'static Kind> {
        self.slot(id).map(|slot| slot.kind)
    }
    /// All blocks in the order of their names.
    pub fn ids(&self) -> impl Iterator<Item = BlockId> {
        self.names.values().copied()
    }
    /// The owner of a table.
    pub fn owner(&self, table: Table) -> Option<BlockId> {
        self.owners.get(&table).copied()
    }
    /// Where an output leads.
    pub fn edge(&self, from: BlockId, port: OutPort) -> Option<Edge> {
        self.slot(from).and_then(|slot| slot.edge(port))
    }
    /// All edges: from, output, to, input.
    pub fn edges(&self) -> impl Iterator<Item = (BlockId, OutPort, BlockId, InPort)> {
        self.ids().flat_map(move |id| {
            let edges = self.slot(id).map(|slot| slot.edges.as_slice()).unwrap_or_default();
            edges.iter().enumerate().filter_map(move |(port, edge)| edge.map(|(to, input)| (id, OutPort(port as u8), to, input)))
        })
    }
    /// A block, unless it is running right now.
    pub fn block(&self, id: BlockId) -> Option<&dyn Block> {
        self.slot(id).and_then(|slot| slot.block.as_deref())
    }
    /// How often a block dropped for a reason.
    pub fn drops(&self, id: BlockId) -> impl Iterator<Item = (Reason, u64)> {
        let drops = self.slot(id).map(|slot| slot.drops.as_slice()).unwrap_or_default();
        Reason::ALL.iter().copied().zip(drops.iter().copied()).filter(|(_, count)| *count > 0)
    }
    /// Frames that entered a block.
    pub fn frames_in(&self, id: BlockId) -> u64 {
        self.slot(id).map_or(0, |slot| slot.frames_in)
    }

    pub(crate) fn slot(&self, id: BlockId) -> Option<&Slot> {
        self.slots.get(id.0 as usize).and_then(Option::as_ref)
    }
    pub(crate) fn slot_mut(&mut self, id: BlockId) -> Option<&mut Slot> {
        self.slots.get_mut(id.0 as usize).and_then(Option::as_mut)
    }
}

/// The kinds of block that a node can make: rows from several crates, found by name.
#[derive(Clone, Debug, Default)]
pub struct BlockTable(BTreeMap<&'static str, BlockRow>);

impl BlockTable {
    /// A table with these rows; a later row replaces an earlier one of the same name.
    pub fn new(rows: impl IntoIterator<Item = BlockRow>) -> BlockTable {
        BlockTable(rows.into_iter().map(|row| (row.kind.name, row)).collect())
    }
    /// Finds a kind.
    pub fn get(&self, kind: &str) -> Option<&BlockRow> {
        self.0.get(kind)
    }
    /// All rows in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &BlockRow> {
        self.0.values()
    }
    /// The names, for error messages.
    pub fn names(&self) -> String {
        self.0.keys().copied().collect::<Vec<_>>().join(", ")
    }
}
