//! `snapshot` and `restore` in the real world: files of the host's, and nothing but the node itself may be attached.

use std::path::Path;
use weft_core::control::{ControlError, Value};
use weft_core::{Instant, Snapshot, TimeKind};
use weft_node::Node;

/// Writes the node's state into a file. Answers with what was written.
///
/// # Errors
/// What is in the way.
pub(crate) fn save(node: &mut Node, now: Instant, file: &str) -> Result<Value, ControlError> {
    let not_saved = |why: String| ControlError::NotSaved { file: file.to_owned(), why };
    let path = absolute(file).map_err(not_saved)?;
    let snapshot = node.snapshot(now, TimeKind::Real).map_err(|error| not_saved(error.to_string()))?;
    let bytes = snapshot.to_bytes().map_err(|error| not_saved(error.to_string()))?;
    weft_backend::snapshot::write(path, &bytes).map_err(not_saved)?;
    Ok(vec![format!("snapshot {file}: {} blocks, {} bytes", snapshot.blocks.len(), bytes.len())].into())
}

/// Puts the state in a file into the node. `attached`: who uses its sockets, which would not be theirs any more.
///
/// # Errors
/// What is in the way. Nothing has changed then.
pub(crate) fn restore(node: &mut Node, now: Instant, file: &str, attached: Option<String>) -> Result<Value, ControlError> {
    let not_restored = |why: String| ControlError::NotRestored { file: file.to_owned(), why };
    let path = absolute(file).map_err(not_restored)?;
    let bytes = weft_backend::snapshot::read(path).map_err(not_restored)?;
    let snapshot = Snapshot::from_bytes(&bytes).map_err(|error| not_restored(error.to_string()))?;
    if let Some(who) = attached {
        let why = format!("{who}: in real time a node can go back to earlier state only while nobody uses it; end them first");
        return Err(not_restored(why));
    }
    node.restore(now, &snapshot, false).map(Value::from).map_err(|error| not_restored(error.to_string()))
}

fn absolute(file: &str) -> Result<&Path, String> {
    let path = Path::new(file);
    if path.is_absolute() { Ok(path) } else { Err("name it from the root on: this stack has a folder of its own".to_owned()) }
}
