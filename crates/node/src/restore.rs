//! A snapshot goes back into a running graph: what programs hold must be what they held.

use std::collections::BTreeMap;
use weft_core::{Block, BlockId, Engine, Instant, Snapshot, SnapshotError};
use weft_socket::{Poll, SocketId, Sockets};

/// Most sockets that a refusal names.
const NAMED_MAX: usize = 8;

/// Sockets that programs hold, with their readiness.
type Held = BTreeMap<SocketId, Poll>;

fn sockets_of(block: Option<&mut dyn Block>) -> Option<&mut Sockets> {
    block?.as_any_mut().downcast_mut::<Sockets>()
}

/// Prepared for all blocks, then committed; see [`crate::Node::restore`].
pub(crate) fn restore(
    engine: &mut Engine,
    now: Instant,
    sockets: Option<BlockId>,
    snapshot: &Snapshot,
    own: bool,
) -> Result<Vec<String>, SnapshotError> {
    let mut plan = engine.prepare_restore(now, &snapshot.blocks)?;
    let (mut before, mut after) = (Held::new(), Held::new());
    if let Some(id) = sockets {
        let old = sockets_of(engine.block(id));
        let new = sockets_of(plan.made(id));
        before = old.as_ref().map(|sockets| sockets.held()).unwrap_or_default();
        after = new.as_ref().map_or_else(|| before.clone(), |sockets| sockets.held());
        let name = |of: &Option<&mut Sockets>, s: SocketId| of.as_ref().and_then(|sockets| sockets.describe(s)).unwrap_or_default();
        check_held(&before, &after, own, |s| name(&old, s), |s| name(&new, s))?;
    }
    let summary = engine.commit(plan);
    let other: Vec<SocketId> = after.iter().filter(|(s, poll)| before.get(s) != Some(poll)).map(|(s, _)| *s).collect();
    if let (Some(id), false) = (sockets, other.is_empty()) {
        engine.with(now, id, |block, _| {
            if let Some(sockets) = sockets_of(Some(block)) {
                sockets.tell_changed(other);
            }
        });
    }
    if !own || snapshot.at != now {
        let ids: Vec<BlockId> = engine.graph().ids().collect();
        for id in ids {
            engine.with(now, id, |block, cx| block.went_back(cx));
        }
    }
    Ok(summary)
}

/// Do the programs hold the sockets that the snapshot has? `name_old` and `name_new` describe one of the node, and one of the snapshot.
fn check_held(
    before: &Held,
    after: &Held,
    own: bool,
    name_old: impl Fn(SocketId) -> String,
    name_new: impl Fn(SocketId) -> String,
) -> Result<(), SnapshotError> {
    let refused = |why: String| Err(SnapshotError::Sockets(why));
    let first = |held: &Held| held.keys().next().copied();
    if !own {
        if !before.is_empty() {
            let named = before.keys().take(NAMED_MAX).map(|s| name_old(*s)).collect::<Vec<_>>().join(", ");
            let (count, more) = (before.len(), if before.len() > NAMED_MAX { ", …" } else { "" });
            let sockets = if count == 1 { "socket" } else { "sockets" };
            return refused(format!(
                "programs hold {count} {sockets} of this node, which would not be theirs any more: {named}{more}; close them (`weft show sockets` \
                 lists them), or restore it into a node on which nothing runs"
            ));
        }
        if let Some(s) = first(after) {
            return refused(format!(
                "it has {} sockets of programs that are not here, the first of them {}: only the world that took it can restore it, while they run",
                after.len(),
                name_new(s)
            ));
        }
    }
    if let Some(s) = after.keys().find(|s| !before.contains_key(s)) {
        return refused(format!("the socket {} of the snapshot is not there any more", name_new(*s)));
    }
    match before.keys().find(|s| !after.contains_key(s)) {
        Some(s) => refused(format!("the socket {} was opened after the snapshot was taken", name_old(*s))),
        None => Ok(()),
    }
}
