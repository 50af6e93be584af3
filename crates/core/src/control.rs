//! Control messages: everything that is read, set, run or rebuilt in a node goes through one of these, and each gets one answer.

use crate::nearest::hint;
use crate::refused::{ErrorKind, Refused};
use crate::selector::Selector;
use crate::table::Table;
use serde::{Deserialize, Serialize};

/// A value in a control message: JSON's types.
pub type Value = serde_json::Value;

/// One request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Comes back in the reply.
    pub serial: u64,
    /// What is asked.
    pub op: Op,
}

/// One end of an edge as a person writes it: `tcp` or `tcp:ip4`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// The block's name.
    pub block: String,
    /// The port; may be left out where only one fits.
    pub port: Option<String>,
}

impl End {
    /// Reads `block` or `block:port`.
    pub fn parse(text: &str) -> End {
        match text.split_once(':') {
            Some((block, port)) => End { block: block.to_owned(), port: Some(port.to_owned()) },
            None => End { block: text.to_owned(), port: None },
        }
    }
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.port {
            Some(port) => write!(f, "{}:{port}", self.block),
            None => f.write_str(&self.block),
        }
    }
}

/// The operations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Op {
    /// Read a parameter (or, without a name, all parameters) of the selected blocks.
    Get {
        /// Which blocks.
        target: Selector,
        /// Which parameter.
        name: Option<String>,
    },
    /// Set a parameter of the selected blocks: all or none.
    Set {
        /// Which blocks.
        target: Selector,
        /// Which parameter.
        name: String,
        /// Its value.
        value: Value,
    },
    /// Run a procedure.
    Exec {
        /// Which blocks.
        target: Selector,
        /// Which procedure.
        procedure: String,
        /// Its arguments.
        arguments: Value,
    },
    /// Stream the alerts of the selected blocks to whoever sent this.
    Subscribe {
        /// Which blocks.
        target: Selector,
        /// Which alert; none: all.
        alert: Option<String>,
        /// On or off.
        on: bool,
    },
    /// Make a block.
    Add {
        /// Its name.
        name: String,
        /// Its kind.
        kind: String,
        /// Parameters that differ from their defaults.
        parameters: indexmap::IndexMap<String, Value>,
    },
    /// Remove a block and its edges.
    Delete {
        /// Its name.
        name: String,
    },
    /// Make an edge.
    Bind {
        /// Output.
        from: End,
        /// Input.
        to: End,
    },
    /// Remove the edges from one block (port) to another.
    Unbind {
        /// Output.
        from: End,
        /// Input; none: wherever it leads.
        #[serde(default)]
        to: Option<End>,
    },
    /// Put a bound-to-nothing block into the edge between two others, in one step.
    Insert {
        /// The block to put in.
        block: End,
        /// Output of the edge.
        from: End,
        /// Input of the edge.
        to: End,
    },
    /// Take a block out and join what was before and after it.
    Extract {
        /// The block.
        block: String,
    },
    /// Replace a block by a new one, which takes over edges and (unless told otherwise) state.
    Replace {
        /// The block to replace.
        name: String,
        /// The new one's kind.
        kind: String,
        /// Its parameters; those not named are taken from the old block if it has them.
        parameters: indexmap::IndexMap<String, Value>,
        /// Start empty.
        drop_state: bool,
    },
    /// Make the kind of block in a file known, or another build of one that was loaded before.
    Load {
        /// The file; where a name leads that does not begin with `/`, the world decides.
        file: String,
    },
    /// Forget a kind of block that was loaded and that no block is of.
    Unload {
        /// The kind.
        kind: String,
    },
    /// Write the state of all blocks, as it stands at one frame boundary, into a file.
    Snapshot {
        /// The file; where a name leads that does not begin with `/`, the world decides.
        file: String,
    },
    /// Put the state in such a file into all blocks, at one frame boundary: into all of them or into none.
    Restore {
        /// The file.
        file: String,
    },
    /// Several operations as one transaction: all or none.
    All(Vec<Op>),
    /// Hold every frame inside the graph, at the edge that it was about to pass. Calls, timers and control messages go on.
    Pause,
    /// Let what was held go on, in its order.
    Unpause,
    /// Rows of a table.
    List(Table),
    /// What the graph is: blocks, edges, counters, drops.
    Show(Show),
}

impl Op {
    /// Does it only ask?
    pub fn is_question(&self) -> bool {
        matches!(self, Op::Get { .. } | Op::Subscribe { .. } | Op::List(_) | Op::Show(_))
    }

    /// Can it be part of a change that happens as a whole or not at all?
    pub fn is_change(&self) -> bool {
        match self {
            Op::All(ops) => ops.iter().all(Op::is_change),
            op => !op.is_question() && !matches!(op, Op::Exec { .. } | Op::Pause | Op::Unpause | Op::Snapshot { .. } | Op::Restore { .. }),
        }
    }

    /// Is it about blocks of these names? Those of a pattern may be.
    pub fn concerns(&self, target: &Selector) -> bool {
        let named = |name: &str| target.matches(name, None);
        match self {
            Op::Get { target: of, .. } | Op::Set { target: of, .. } | Op::Exec { target: of, .. } | Op::Subscribe { target: of, .. } => {
                match of {
                    Selector::Name(name) => named(name),
                    _ => true,
                }
            }
            Op::Add { name, .. } | Op::Delete { name } | Op::Replace { name, .. } | Op::Extract { block: name } => named(name),
            Op::Bind { from, to } => named(&from.block) || named(&to.block),
            Op::Unbind { from, to } => named(&from.block) || to.as_ref().is_some_and(|to| named(&to.block)),
            Op::Insert { block, from, to } => [block, from, to].iter().any(|end| named(&end.block)),
            Op::Load { .. } | Op::Unload { .. } | Op::Snapshot { .. } => false,
            Op::All(ops) => ops.iter().any(|op| op.concerns(target)),
            Op::Pause | Op::Unpause | Op::Restore { .. } | Op::List(_) | Op::Show(_) => true,
        }
    }
}

/// What [`Op::Show`] shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Show {
    /// Blocks with kind and parameters.
    Blocks,
    /// Edges.
    Edges,
    /// Counters of every block.
    Counters,
    /// Drops of every block by reason.
    Drops,
    /// What each block did between taking its place and losing it to its successor, and those that stand there now.
    Generations,
    /// Interfaces.
    Interfaces,
    /// Addresses of both families.
    Addresses,
    /// Routes of both families.
    Routes,
    /// Neighbours of both families.
    Neighbours,
    /// Multicast groups of both families.
    Groups,
    /// Sockets.
    Sockets,
    /// Connections over several paths, with their subflows.
    Mptcp,
}

impl Show {
    /// Everything that can be shown, by the word for it.
    pub const ALL: &[(&str, Show)] = &[
        ("blocks", Show::Blocks),
        ("edges", Show::Edges),
        ("interfaces", Show::Interfaces),
        ("addresses", Show::Addresses),
        ("routes", Show::Routes),
        ("neighbours", Show::Neighbours),
        ("groups", Show::Groups),
        ("sockets", Show::Sockets),
        ("mptcp", Show::Mptcp),
        ("counters", Show::Counters),
        ("drops", Show::Drops),
        ("generations", Show::Generations),
    ];

    /// The word for it.
    pub fn name(self) -> &'static str {
        Show::ALL.iter().find(|(_, show)| *show == self).map_or("?", |(name, _)| name)
    }
}

/// The one answer to a [`Message`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// The request's.
    pub serial: u64,
    /// What came of it.
    pub result: Result<Value, ControlError>,
}

/// Why an operation was refused. Every one names what it is about.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ControlError {
    /// No such block.
    #[error("there is no block named '{name}'; {}the graph has: {known}", hint(name, known))]
    NoBlock {
        /// The name.
        name: String,
        /// Names that exist.
        known: String,
    },
    /// Nothing matches.
    #[error("'{selector}' matches nothing")]
    NoMatch {
        /// The selector.
        selector: String,
    },
    /// No such kind.
    #[error("there is no kind of block named '{kind}'; {}known: {known}", hint(kind, known))]
    NoKind {
        /// The kind.
        kind: String,
        /// Kinds that exist.
        known: String,
    },
    /// There is no kind of block in that file.
    #[error("cannot load '{file}': {why}")]
    NotLoaded {
        /// The file.
        file: String,
        /// Why.
        why: String,
    },
    /// The kind stays.
    #[error("cannot unload '{kind}': {why}")]
    NotUnloaded {
        /// The kind.
        kind: String,
        /// Why.
        why: String,
    },
    /// The name is taken.
    #[error("a block named '{name}' exists already")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// The name has characters that names may not have.
    #[error("'{name}' is no name for a block: use letters, digits, '-', '_' and '.', at most 64")]
    BadName {
        /// The name.
        name: String,
    },
    /// No such parameter.
    #[error("block '{block}' has no parameter '{parameter}'; {}it has: {known}", hint(parameter, known))]
    NoParameter {
        /// The block.
        block: String,
        /// The parameter.
        parameter: String,
        /// Parameters that exist.
        known: String,
    },
    /// The value does not fit.
    #[error("{block}.{parameter}: {why}")]
    BadValue {
        /// The block.
        block: String,
        /// The parameter.
        parameter: String,
        /// What is wrong, and what would be right.
        why: String,
    },
    /// Not while it runs.
    #[error("{block}.{parameter} can only be set when the block is made")]
    NotLive {
        /// The block.
        block: String,
        /// The parameter.
        parameter: String,
    },
    /// No such procedure.
    #[error("block '{block}' has no procedure '{procedure}'; {}{}", hint(procedure, known), has(known))]
    NoProcedure {
        /// The block.
        block: String,
        /// The procedure.
        procedure: String,
        /// Procedures that exist.
        known: String,
    },
    /// The procedure says no.
    #[error("{block} {procedure}: {why}")]
    ExecFailed {
        /// The block.
        block: String,
        /// The procedure.
        procedure: String,
        /// Why.
        #[serde(flatten)]
        why: Refused,
    },
    /// No such port.
    #[error("block '{block}' has no {direction} port '{port}'; it has: {known}")]
    NoPort {
        /// The block.
        block: String,
        /// "input" or "output".
        direction: String,
        /// The port.
        port: String,
        /// Ports that exist.
        known: String,
    },
    /// The port was left out and several (or none) fit.
    #[error("which port? {from} -> {to} could be: {candidates}")]
    AmbiguousPort {
        /// Output end as given.
        from: String,
        /// Input end as given.
        to: String,
        /// The pairs that fit.
        candidates: String,
    },
    /// A block that cannot be taken out of its edge, because it has several, or none.
    #[error(
        "'{block}' cannot be extracted: it has {outputs} output edges, and only a block with one leaves an edge behind; unbind what leads to it, then delete it"
    )]
    NotExtractable {
        /// The block.
        block: String,
        /// Its edges.
        outputs: u64,
    },
    /// The ports carry different things.
    #[error("{from} carries {carries_from}, {to} takes {carries_to}: they cannot be bound")]
    TypeMismatch {
        /// Output end.
        from: String,
        /// Input end.
        to: String,
        /// Its type.
        carries_from: String,
        /// The other's.
        carries_to: String,
    },
    /// The output has an edge already.
    #[error("{from} is bound to {to} already; unbind it first, or put a tee between")]
    PortTaken {
        /// Output end.
        from: String,
        /// Where it leads.
        to: String,
    },
    /// There is no such edge.
    #[error("there is no edge from {from} to {to}")]
    NoEdge {
        /// Output end.
        from: String,
        /// Input end.
        to: String,
    },
    /// Two blocks would own one table.
    #[error("'{first}' and '{second}' would both own the table of {table}")]
    TwoOwners {
        /// A block.
        first: String,
        /// Another.
        second: String,
        /// The table.
        table: String,
    },
    /// A port that must be bound is not.
    #[error("{end} must be bound ({doc})")]
    Unbound {
        /// The port.
        end: String,
        /// What it is for.
        doc: String,
    },
    /// The new block does not take the old one's state.
    #[error("cannot replace '{block}': {why}")]
    StateRefused {
        /// The block.
        block: String,
        /// Why.
        why: String,
    },
    /// An interface is not added to or taken from a running node, and nothing has changed.
    #[error("interface '{interface}': {why}")]
    NotAttached {
        /// Its name.
        interface: String,
        /// Why, and what to do.
        #[serde(flatten)]
        why: Refused,
    },
    /// There is no snapshot.
    #[error("cannot write the snapshot '{file}': {why}")]
    NotSaved {
        /// The file.
        file: String,
        /// Why.
        why: String,
    },
    /// The snapshot is not restored, and nothing has changed.
    #[error("cannot restore '{file}': {why}")]
    NotRestored {
        /// The file.
        file: String,
        /// Why.
        why: String,
    },
    /// The message makes no sense.
    #[error("bad request: {why}")]
    BadRequest {
        /// Why.
        why: String,
    },
    /// A limit would be exceeded.
    #[error("limit: {what} (at most {max})")]
    Limit {
        /// What.
        what: String,
        /// The bound.
        max: u64,
    },
    /// The world refuses (for example an interface that cannot be opened).
    #[error("{why}")]
    World {
        /// Why, and what to do.
        #[serde(flatten)]
        why: Refused,
    },
}

impl ControlError {
    /// What kind of refusal it is: the errno that a program gets is [`ErrorKind::errno`] of it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            ControlError::Limit { .. } => ErrorKind::NoSpace,
            // Of arguments that cannot be read the kind is not said.
            ControlError::ExecFailed { why, .. } => why.kind.unwrap_or(ErrorKind::Invalid),
            ControlError::NotAttached { why, .. } | ControlError::World { why } => why.kind.unwrap_or(ErrorKind::Unsupported),
            // The graph has no such block.
            _ => ErrorKind::Unsupported,
        }
    }
}

/// What there is, of what need not be there.
fn has(known: &str) -> String {
    if known.is_empty() { "it has none".to_owned() } else { format!("it has: {known}") }
}
