//! Who is connected to whom, who may ask whom, and in which order locks are taken: fixed while the threads run.
//!
//! **Why questions cannot deadlock.** A block that asks (`Context::ask`) is in the middle of a call and holds the lock that it runs under; the block
//! that answers must be at rest, so that its lock is waited for. Kinds declare what they ask about (`Kind::asks`), and nothing else is answered.
//! From that and from the owners of the tables follows a relation "may ask" between blocks. Blocks that may ask each other in a circle
//! (ip6 and mld) are one *group* and have one lock: who runs knows the others of its group at rest, and reads them without
//! waiting. Between groups the relation has no circles, and groups are numbered so that every question goes to a higher number. Every
//! thread thus waits for a group's lock only while it holds locks of lower numbers: one that runs a block holds one and waits for a
//! higher one; an answer is given without asking further (`Block::query` has no context); a control message takes all, from the lowest
//! up. Of the threads that wait for a group's lock or hold one, take the one that holds the highest number: it waits for none that is held,
//! so it goes on. Locks of queues and of the exit are taken last and held for no other.
//!
//! Only blocks that own a table can be asked, and there are few tables: the relation is closed over owners alone.

use super::inbox::Inbox;
use super::lock::lock;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use weft_core::engine::Work;
use weft_core::graph::{Edge, Slots};
use weft_core::order::Places;
use weft_core::solo::Around;
use weft_core::{Answer, BlockId, Instant, Kind, OutPort, Query, Solo, Table};

/// How often a thread that holds a group's lock and saw others wait for it steps back before it takes it again.
const YIELDS_MAX: usize = 64;

/// A block and the work that it has taken from its queue.
#[derive(Debug)]
pub(super) struct Member {
    pub solo: Solo,
    pub batch: VecDeque<Work>,
}

/// Blocks under one lock. A place is empty while its block runs, or is lent for a control message.
pub(super) type Members = Vec<Option<Box<Member>>>;

#[derive(Debug, Default)]
pub(super) struct Group {
    members: Mutex<Members>,
    /// Who waits for the lock. The system's locks are not fair: who runs on and on would keep the others out.
    waiting: AtomicUsize,
}

impl Group {
    /// Takes the lock.
    pub fn enter(&self) -> MutexGuard<'_, Members> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let members = lock(&self.members);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        members
    }
    /// Does anybody wait for the lock?
    pub fn is_wanted(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }
    /// Lets others have the lock, which the caller has just given back.
    pub fn step_back(&self) {
        for _ in 0..YIELDS_MAX {
            if !self.is_wanted() {
                return;
            }
            std::thread::yield_now();
        }
    }
}

/// A block's place.
#[derive(Debug)]
pub(super) struct Seat {
    pub kind: &'static Kind,
    edges: Vec<Option<Edge>>,
    /// Which group, and where in it.
    pub group: usize,
    pub place: usize,
    pub inbox: Inbox,
}

#[derive(Debug)]
pub(super) struct Topology {
    seats: BTreeMap<BlockId, Seat>,
    owners: BTreeMap<Table, BlockId>,
    /// In the order in which their locks are taken.
    pub groups: Vec<Group>,
    /// Until the graph is at rest.
    pub order_places: Places,
}

impl Topology {
    /// Of a graph; places for the blocks are made, and empty.
    pub fn new(graph: &Slots) -> Topology {
        let kinds: BTreeMap<BlockId, &'static Kind> = graph.ids().filter_map(|id| Some((id, graph.kind(id)?))).collect();
        let owned = kinds.iter().flat_map(|(id, kind)| kind.owns.iter().map(move |table| (*table, *id)));
        let owners: BTreeMap<Table, BlockId> = owned.collect();
        let mut edges: BTreeMap<BlockId, Vec<Option<Edge>>> =
            kinds.iter().map(|(id, kind)| (*id, vec![None; kind.outputs.len()])).collect();
        for (from, port, to, input) in graph.edges() {
            if let Some(place) = edges.get_mut(&from).and_then(|of_block| of_block.get_mut(usize::from(port.0))) {
                *place = Some((to, input));
            }
        }
        let mut groups: Vec<Group> = Vec::new();
        let mut seats = BTreeMap::new();
        for members in order(&kinds, &owners) {
            let places = members.iter().map(|_| None).collect();
            for (place, id) in members.into_iter().enumerate() {
                let edges = edges.remove(&id).unwrap_or_default();
                seats.insert(id, Seat { kind: kinds[&id], edges, group: groups.len(), place, inbox: Inbox::default() });
            }
            groups.push(Group { members: Mutex::new(places), waiting: AtomicUsize::new(0) });
        }
        Topology { seats, owners, groups, order_places: Places::default() }
    }

    pub fn seat(&self, id: BlockId) -> Option<&Seat> {
        self.seats.get(&id)
    }
    pub fn seats(&self) -> impl Iterator<Item = (BlockId, &Seat)> {
        self.seats.iter().map(|(id, seat)| (*id, seat))
    }
    /// All locks, in their order.
    pub fn enter_all(&self) -> Vec<MutexGuard<'_, Members>> {
        self.groups.iter().map(Group::enter).collect()
    }
}

/// The groups in the order of their locks: blocks that own nothing, each alone; then owners, those before others whom they may ask.
fn order(kinds: &BTreeMap<BlockId, &'static Kind>, owners: &BTreeMap<Table, BlockId>) -> Vec<Vec<BlockId>> {
    let ids: Vec<BlockId> = kinds.keys().copied().filter(|id| owners.values().any(|owner| owner == id)).collect();
    let asks = |a: BlockId, b: BlockId| kinds[&a].asks.iter().any(|table| owners.get(table) == Some(&b));
    // reach[a][b]: a question of a's, or of somebody's whom it may ask, and so on, may go to b.
    let mut reach: Vec<Vec<bool>> = ids.iter().map(|a| ids.iter().map(|b| a == b || asks(*a, *b)).collect()).collect();
    for via in 0..ids.len() {
        for from in 0..ids.len() {
            for to in 0..ids.len() {
                reach[from][to] |= reach[from][via] && reach[via][to];
            }
        }
    }
    let mut groups: Vec<(usize, Vec<BlockId>)> = Vec::new();
    for (at, row) in reach.iter().enumerate() {
        let mates: Vec<usize> = (0..ids.len()).filter(|other| row[*other] && reach[*other][at]).collect();
        if mates.first() == Some(&at) {
            groups.push((row.iter().filter(|reached| **reached).count(), mates.into_iter().map(|mate| ids[mate]).collect()));
        }
    }
    // Who may ask somebody of another group reaches all that they reach, and more: itself.
    groups.sort_by_key(|(reached, _)| std::cmp::Reverse(*reached));
    let alone = kinds.keys().filter(|id| !ids.contains(id)).map(|id| vec![*id]);
    alone.chain(groups.into_iter().map(|(_, members)| members)).collect()
}

/// What a running block sees: the graph, and the others of its group, which are at rest.
#[derive(Debug)]
pub(super) struct Surroundings<'a> {
    pub topology: &'a Topology,
    pub group: usize,
    pub mates: &'a Members,
}

impl Around for Surroundings<'_> {
    fn edge(&self, from: BlockId, port: OutPort) -> Option<Edge> {
        self.topology.seat(from)?.edges.get(usize::from(port.0)).copied().flatten()
    }
    fn owner(&self, table: Table) -> Option<BlockId> {
        self.topology.owners.get(&table).copied()
    }
    fn asks(&self, block: BlockId, table: Table) -> bool {
        self.topology.seat(block).is_some_and(|seat| seat.kind.asks.contains(&table))
    }
    fn query(&self, _asker: BlockId, owner: BlockId, query: &Query, now: Instant) -> Answer {
        let Some(seat) = self.topology.seat(owner) else { return Answer::None };
        let answer = |members: &Members| members[seat.place].as_ref().map_or(Answer::None, |member| member.solo.query(query, now));
        match seat.group == self.group {
            true => answer(self.mates),
            // By the module's text the group has a higher number than the asker's.
            false => answer(&self.topology.groups[seat.group].enter()),
        }
    }
    fn admits_order(&self) -> bool {
        self.topology.order_places.take()
    }
    fn others(&self, than: BlockId) -> Vec<BlockId> {
        self.topology.seats().map(|(id, _)| id).filter(|id| *id != than).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_core::table::Family;

    /// Kinds of the default graph by name, as blocks numbered in that order.
    fn kinds() -> (BTreeMap<BlockId, &'static Kind>, BTreeMap<Table, BlockId>) {
        let table = weft_node::block_table();
        let kinds: BTreeMap<BlockId, &'static Kind> =
            weft_node::BLOCKS.iter().enumerate().map(|(at, (_, kind))| (BlockId(at as u32), table.get(kind).unwrap().kind)).collect();
        let owners = kinds.iter().flat_map(|(id, kind)| kind.owns.iter().map(move |table| (*table, *id))).collect();
        (kinds, owners)
    }

    #[test]
    fn every_question_goes_to_the_same_group_or_a_higher_one() {
        let (kinds, owners) = kinds();
        let groups = order(&kinds, &owners);
        let number = |id: BlockId| groups.iter().position(|group| group.contains(&id)).unwrap();
        assert_eq!(groups.iter().flatten().count(), kinds.len(), "every block is in one group");
        let mut questions = 0;
        for (id, kind) in &kinds {
            for owner in kind.asks.iter().filter_map(|table| owners.get(table)).filter(|owner| *owner != id) {
                questions += 1;
                assert!(number(*owner) >= number(*id), "{} may ask {}", kind.name, kinds[owner].name);
            }
        }
        assert!(questions > 20, "{questions}");
    }

    #[test]
    fn blocks_share_a_lock_only_where_they_may_ask_each_other_in_a_circle() {
        let (kinds, owners) = kinds();
        let names = |group: &Vec<BlockId>| group.iter().map(|id| kinds[id].name).collect::<Vec<_>>();
        let mut shared: Vec<Vec<&str>> = order(&kinds, &owners).iter().filter(|group| group.len() > 1).map(names).collect();
        shared.iter_mut().for_each(|group| group.sort_unstable());
        shared.sort();
        assert_eq!(shared, [vec!["igmp", "ip4"], vec!["ip6", "mld"]]);
        assert!(owners.contains_key(&Table::Routes(Family::V4)));
    }
}
