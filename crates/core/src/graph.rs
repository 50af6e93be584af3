//! Blocks and edges: the linking table. Nothing else decides where a frame goes next.
//!
//! [`Slots`] is the running graph, owned by an engine. It changes only by [`crate::transaction::Plan`]s.

use crate::block::{Block, BlockId, BlockRow, Config, InPort, Kind, OutPort};
use crate::control::ControlError;
use crate::frame::Frame;
use crate::load::{LOADED_MAX, Loaded, Loader};
use crate::order::Places;
use crate::reason::Reason;
use crate::table::Table;
use crate::time::Instant;
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Most blocks in one graph.
pub const BLOCKS_MAX: usize = 4096;
/// Most generations of blocks that are remembered when they have ended; the oldest is forgotten first, and counted.
pub const GENERATIONS_MAX: usize = 4096;

/// Most deleted blocks whose drops are remembered one by one; those of the oldest are counted together from then on.
pub const GONE_MAX: usize = 4096;
/// The name under which they are: none that a block can have.
const OLDER: &str = "(deleted earlier)";

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
    /// What the block that stands here now began with.
    pub birth: Birth,
    /// Orders of it that were carried out or answered with an error, and those that found no place.
    pub orders: [u64; 2],
}

/// When a block took its place, and what had been counted there by then: what its predecessor handed over is not its own.
#[derive(Debug)]
pub(crate) struct Birth {
    generation: u32,
    at: Instant,
    frames: u64,
    counters: Box<[u64]>,
    drops: Box<[u64; Reason::COUNT]>,
}

/// What one block did between taking its place and losing it to a successor, or to nobody.
#[derive(Clone, Debug)]
pub struct Generation {
    /// The place: a block's name.
    pub block: Box<str>,
    /// Its kind.
    pub kind: &'static Kind,
    /// 1 for the first that stood there.
    pub number: u32,
    /// Since when.
    pub began: Instant,
    /// Until when; none: it stands there now.
    pub ended: Option<Instant>,
    /// Frames that entered.
    pub frames: u64,
    /// What its counters went up by, in the order of its kind's.
    pub counters: Box<[u64]>,
    /// Frames that ended here, by reason.
    pub drops: Vec<(Reason, u64)>,
}

impl Generation {
    /// All of it, as `show generations` and result folders have it.
    pub fn to_json(&self) -> serde_json::Value {
        let counters = self.kind.counters.iter().zip(&self.counters).map(|(row, value)| (row.name.to_owned(), (*value).into()));
        let drops = self.drops.iter().map(|(reason, count)| (reason.name().to_owned(), (*count).into()));
        serde_json::json!({
            "block": self.block, "kind": self.kind.name, "version": self.kind.version, "generation": self.number, "began_ns": self.began.as_nanos(),
            "ended_ns": self.ended.map(Instant::as_nanos), "frames": self.frames,
            "counters": counters.collect::<serde_json::Map<_, _>>(), "drops": drops.collect::<serde_json::Map<_, _>>(),
        })
    }
}

/// What a block that was deleted had dropped, and what was dropped since because it is gone.
#[derive(Debug)]
struct Gone {
    id: BlockId,
    name: Box<str>,
    drops: Box<[u64; Reason::COUNT]>,
}

impl Slot {
    pub(crate) fn new(name: String, block: Box<dyn Block>, now: Instant) -> Slot {
        let kind = block.kind();
        let edges = smallvec::smallvec![None; kind.outputs.len()];
        let none = Box::new([0; Reason::COUNT]);
        let birth = Birth { generation: 1, at: now, frames: 0, counters: block.counters().into(), drops: none.clone() };
        Slot { block: Some(block), frames_in: 0, edges, kind, name: name.into(), drops: none, birth, orders: [0; 2] }
    }

    /// What the block has done since it took its place. None while it runs.
    fn generation(&self, ended: Option<Instant>) -> Option<Generation> {
        let counters = self.block.as_ref()?.counters().iter().zip(&self.birth.counters);
        let drops =
            Reason::ALL.iter().zip(self.drops.iter().zip(self.birth.drops.iter())).map(|(reason, (now, before))| (*reason, now - before));
        Some(Generation {
            block: self.name.clone(),
            kind: self.kind,
            number: self.birth.generation,
            began: self.birth.at,
            ended,
            frames: self.frames_in - self.birth.frames,
            // One that was set to zero meanwhile (by a procedure) has gone up by what it shows.
            counters: counters.map(|(now, before)| now.checked_sub(*before).unwrap_or(*now)).collect(),
            drops: drops.filter(|(_, count)| *count > 0).collect(),
        })
    }

    /// Puts a block into another one's place.
    fn succeed(&mut self, block: Box<dyn Block>, now: Instant) {
        let generation = self.birth.generation.saturating_add(1);
        self.birth = Birth { generation, at: now, frames: self.frames_in, counters: block.counters().into(), drops: self.drops.clone() };
        self.kind = block.kind();
        self.block = Some(block);
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
    /// For orders of blocks, until everything has come to rest.
    pub(crate) order_places: Places,
    /// Generations that have ended, the oldest first.
    ended: VecDeque<Generation>,
    forgotten: u64,
    /// Blocks that were deleted, the oldest first.
    gone: VecDeque<Gone>,
    /// Drops of those that were deleted before these.
    older: Option<Box<[u64; Reason::COUNT]>>,
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
    /// Counts frames that ended at a block, or on their way to it.
    pub(crate) fn count_drops(&mut self, id: BlockId, reason: Reason, frames: u64) {
        let drops = match self.slots.get_mut(id.0 as usize).and_then(Option::as_mut) {
            Some(slot) => &mut slot.drops,
            None => match self.gone.iter_mut().rfind(|gone| gone.id == id) {
                Some(gone) => &mut gone.drops,
                None => self.older.get_or_insert_with(|| Box::new([0; Reason::COUNT])),
            },
        };
        drops[reason as usize] += frames;
    }
    /// What was ever dropped, by the name of the block, in the order of names: blocks that were deleted count with those that have their name now.
    pub fn all_drops(&self) -> BTreeMap<&str, [u64; Reason::COUNT]> {
        let here = self.ids().filter_map(|id| self.slot(id)).map(|slot| (&*slot.name, &slot.drops));
        let gone = self.gone.iter().map(|gone| (&*gone.name, &gone.drops));
        let older = self.older.iter().map(|drops| (OLDER, drops));
        let mut sums = BTreeMap::new();
        for (name, drops) in here.chain(gone).chain(older) {
            let sum = sums.entry(name).or_insert([0; Reason::COUNT]);
            sum.iter_mut().zip(drops.iter()).for_each(|(sum, count)| *sum += count);
        }
        sums
    }
    /// Frames that entered a block.
    pub fn frames_in(&self, id: BlockId) -> u64 {
        self.slot(id).map_or(0, |slot| slot.frames_in)
    }

    /// How many orders of a block were answered, and how many found no place.
    pub fn orders(&self, id: BlockId) -> [u64; 2] {
        self.slot(id).map_or([0; 2], |slot| slot.orders)
    }
    pub(crate) fn take_order_place(&self) -> bool {
        self.order_places.take()
    }

    /// What every generation of every block has done: those that have ended in the order of their ends, then those that run, by name.
    pub fn generations(&self) -> impl Iterator<Item = Generation> {
        let running = self.ids().filter_map(|id| self.slot(id)?.generation(None));
        self.ended.iter().cloned().chain(running)
    }
    /// Generations that ended so long ago that they are forgotten.
    pub fn generations_forgotten(&self) -> u64 {
        self.forgotten
    }

    /// The frames that a block which is about to end holds back: they end with it, counted as its drops.
    pub(crate) fn give_up(&mut self, id: BlockId) -> Vec<Frame> {
        let Some(slot) = self.slot_mut(id) else { return Vec::new() };
        let frames = slot.block.as_mut().map(|block| block.give_up()).unwrap_or_default();
        slot.drops[Reason::BlockGone as usize] += frames.len() as u64;
        frames
    }

    /// A block ends at its place, with or without a successor.
    pub(crate) fn end(&mut self, id: BlockId, successor: Option<Box<dyn Block>>, now: Instant) {
        let Some(slot) = self.slots.get_mut(id.0 as usize) else { return };
        let generation = slot.as_ref().and_then(|slot| slot.generation(Some(now)));
        match (successor, slot.as_mut()) {
            (Some(block), Some(slot)) => slot.succeed(block, now),
            _ => {
                let gone = slot.take().map(|slot| Gone { id, name: slot.name, drops: slot.drops });
                self.gone.extend(gone);
            }
        }
        if self.gone.len() > GONE_MAX
            && let Some(oldest) = self.gone.pop_front()
        {
            let older = self.older.get_or_insert_with(|| Box::new([0; Reason::COUNT]));
            older.iter_mut().zip(oldest.drops.iter()).for_each(|(sum, count)| *sum += count);
        }
        if self.ended.len() == GENERATIONS_MAX {
            self.ended.pop_front();
            self.forgotten += 1;
        }
        self.ended.extend(generation);
    }

    pub(crate) fn slot(&self, id: BlockId) -> Option<&Slot> {
        self.slots.get(id.0 as usize).and_then(Option::as_ref)
    }
    pub(crate) fn slot_mut(&mut self, id: BlockId) -> Option<&mut Slot> {
        self.slots.get_mut(id.0 as usize).and_then(Option::as_mut)
    }
}

/// The kinds of block that a node can make: rows from several crates, found by name, and what was loaded from files.
#[derive(Clone, Debug, Default)]
pub struct BlockTable {
    rows: BTreeMap<&'static str, BlockRow>,
    loaded: BTreeMap<&'static str, Loaded>,
    loader: Option<Arc<dyn Loader>>,
}

/// A block that was made, or why it was not: the error names the parameter.
type Made = Result<Box<dyn Block>, ControlError>;

/// A kind that was found in a [`BlockTable`].
#[derive(Clone, Copy)]
pub struct Found<'a> {
    /// What it declares.
    pub kind: &'static Kind,
    /// Its constructor.
    pub make: &'a dyn Fn(&mut Config) -> Made,
}

impl std::fmt::Debug for Found<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Found({})", self.kind.name)
    }
}

impl BlockTable {
    /// A table with these rows; a later row replaces an earlier one of the same name.
    pub fn new(rows: impl IntoIterator<Item = BlockRow>) -> BlockTable {
        BlockTable { rows: rows.into_iter().map(|row| (row.kind.name, row)).collect(), ..BlockTable::default() }
    }
    /// Who reads files for [`BlockTable::load`]; without one there is nothing to load.
    pub fn set_loader(&mut self, loader: Option<Arc<dyn Loader>>) {
        self.loader = loader;
    }
    /// Finds a kind.
    pub fn get(&self, kind: &str) -> Option<Found<'_>> {
        let row = self.rows.get(kind).map(|row| Found { kind: row.kind, make: &row.make });
        row.or_else(|| self.loaded.get(kind).map(|loaded| Found { kind: loaded.kind, make: &*loaded.make }))
    }
    /// All built-in rows in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &BlockRow> {
        self.rows.values()
    }
    /// The kinds that were loaded, in the order of their names.
    pub fn loaded(&self) -> impl Iterator<Item = &'static Kind> {
        self.loaded.values().map(|loaded| loaded.kind)
    }
    /// Adds the kind in a file, or another build in place of one that was loaded before. Blocks that exist stay what they are.
    ///
    /// # Errors
    /// What is wrong with the file; or its kind has the name of a built-in one.
    pub fn load(&mut self, file: &str) -> Result<&'static Kind, ControlError> {
        let refused = |why: String| ControlError::NotLoaded { file: file.to_owned(), why };
        let loader = self.loader.as_ref().ok_or_else(|| refused("this node loads no blocks".to_owned()))?;
        let loaded = loader.load(file).map_err(refused)?;
        let kind = loaded.kind;
        if self.rows.contains_key(kind.name) {
            return Err(refused(format!("its kind '{}' has the name of a built-in one; give it another", kind.name)));
        }
        if self.loaded.len() >= LOADED_MAX && !self.loaded.contains_key(kind.name) {
            return Err(ControlError::Limit { what: "loaded kinds of block".to_owned(), max: LOADED_MAX as u64 });
        }
        self.loaded.insert(kind.name, loaded);
        Ok(kind)
    }
    /// Forgets a kind that was loaded.
    ///
    /// # Errors
    /// There is no such kind, or it is built in.
    pub fn unload(&mut self, kind: &str) -> Result<(), ControlError> {
        match (self.loaded.remove(kind), self.rows.contains_key(kind)) {
            (Some(_), _) => Ok(()),
            (None, true) => Err(ControlError::NotUnloaded { kind: kind.to_owned(), why: "it is built in".to_owned() }),
            (None, false) => {
                let known = self.loaded.keys().copied().collect::<Vec<_>>().join(", ");
                Err(ControlError::NoKind {
                    kind: kind.to_owned(),
                    known: if known.is_empty() { "nothing is loaded".to_owned() } else { known },
                })
            }
        }
    }
    /// The names, for error messages.
    pub fn names(&self) -> String {
        self.rows.keys().chain(self.loaded.keys()).copied().collect::<Vec<_>>().join(", ")
    }
}
