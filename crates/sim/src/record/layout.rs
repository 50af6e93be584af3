//! Where a record is, and how its files begin.

use std::path::{Path, PathBuf};

/// Folder of the record in a folder of results.
pub const FOLDER: &str = "record";
/// Names of what the record speaks of; written last.
pub const INDEX: &str = "index.json";
/// First line of each file of events.
pub(super) const FORMAT: &[u8] = b"weft record 1\n";

/// Where a node's events go.
pub(super) fn file_of(folder: &Path, node: &str) -> PathBuf {
    folder.join(format!("{node}.events"))
}
