//! A layer of the node's over each folder of the host's.
//!
//! The kernel lets no user namespace put an overlay over a folder below which something is mounted: what the mount hides would be seen
//! (`has_locked_children`, fs/namespace.c). Such folders are not rare: /etc of a container, /var beside snap or docker. They are made piece by piece:
//! a folder of the node's own, with an overlay for each folder in it, links, copies of small files, and the others as they are.

use super::super::error::StartError;
use super::layout::{Kind, Layout};
use super::places::{SKELETON, escaped, is_empty, text};
use super::steps::{Act, Otherwise, Steps};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weft_intercept::sys::is_root;

/// More in a folder that is made piece by piece is not looked at: it is shown as it is, and nothing can be written there.
const PIECES_MAX: usize = 1024;
/// A file that is not copied is the host's, and can be neither replaced nor removed.
const COPY_BYTES_MAX: u64 = 64 << 10;
/// Whoever runs weft, a node gets what everybody may read.
const EVERYBODY_READS: u32 = 0o004;
const EVERYBODY_ENTERS: u32 = 0o005;

/// A folder of the host's, the node's folders for what is written, and where both are seen.
pub(super) struct Layer {
    /// Below the node's root.
    pub rest: PathBuf,
    /// On the host, and where the nursery has it.
    pub lower: PathBuf,
    pub low: PathBuf,
    pub upper: PathBuf,
    pub work: PathBuf,
    pub to: PathBuf,
}

impl Layer {
    fn piece(&self, name: &OsStr) -> Layer {
        let [rest, lower, low, upper, work, to] =
            [&self.rest, &self.lower, &self.low, &self.upper, &self.work, &self.to].map(|path| path.join(name));
        Layer { rest, lower, low, upper, work, to }
    }
}

impl Steps {
    /// What all nodes see of folders that have nothing of theirs in the beginning: the host's files below folders that nodes may change.
    pub(super) fn late(&mut self, layout: &Layout) -> Result<(), StartError> {
        for folder in layout.folders.iter().filter(|folder| folder.kind == Kind::Late) {
            self.folder(&Path::new(SKELETON).join(&folder.name), 0o755)?;
        }
        for (folder, mode) in layout.writable_below(true) {
            self.folder(&Path::new(SKELETON).join(folder), mode)?;
        }
        for folder in layout.folders.iter().filter(|folder| folder.kind == Kind::Late) {
            let [low, between] = [layout.place(folder), Path::new(SKELETON)].map(|place| place.join(&folder.name));
            let options = [&b"lowerdir="[..], &escaped(&between), b":", &escaped(&low), b",userxattr"].concat();
            self.layers.push((self.steps.len(), folder.name.clone()));
            self.mount(
                "lay folders that nodes can change over the host's",
                "weft",
                &low,
                c"overlay",
                libc::MS_NOSUID,
                &options,
                Otherwise::GoOn,
            )?;
            self.add("protect a folder of the host's", Act::ReadOnly { path: text(&low)? }, Otherwise::GoOn);
        }
        Ok(())
    }

    /// Makes a folder of pieces. `own`: files of the node's that are in its layer. False: it has too many.
    pub(super) fn lay_pieces_of(&mut self, layer: &Layer, layout: &Layout, own: &BTreeSet<PathBuf>) -> Result<bool, StartError> {
        let Some(names) = pieces(&layer.lower) else { return Ok(false) };
        self.mount("give a folder to the node", &layer.upper, &layer.to, c"", libc::MS_BIND, b"", Otherwise::Fail)?;
        self.lay_pieces(layer, names, layout, own)?;
        Ok(true)
    }

    /// What is in a folder that is the node's own.
    fn lay_pieces(&mut self, layer: &Layer, names: Vec<PathBuf>, layout: &Layout, own: &BTreeSet<PathBuf>) -> Result<(), StartError> {
        for name in names {
            let piece = layer.piece(name.as_os_str());
            let Ok(found) = piece.lower.symlink_metadata() else { continue };
            if own.contains(&piece.upper) {
                continue;
            }
            if found.is_symlink() {
                let Ok(to) = std::fs::read_link(&piece.lower) else { continue };
                self.add("make a link", Act::Link { to: text(to)?, path: text(&piece.upper)? }, Otherwise::GoOn);
            } else if found.is_file() {
                self.lay_file(&piece, &found)?;
            } else if found.is_dir() {
                self.folder(&piece.upper, found.mode() & 0o7777)?;
                self.folder(&piece.work, 0o755)?;
                if is_root() && found.mode() & EVERYBODY_ENTERS != EVERYBODY_ENTERS {
                    continue;
                }
                if !layout.mounted.below(&piece.lower) {
                    self.lay_piece(&piece, layout)?;
                } else if let Some(names) = pieces(&piece.lower) {
                    self.lay_pieces(&piece, names, layout, own)?;
                } else {
                    self.as_it_is(&piece)?;
                }
            }
        }
        Ok(())
    }

    fn lay_file(&mut self, piece: &Layer, found: &std::fs::Metadata) -> Result<(), StartError> {
        let copied = found.len() <= COPY_BYTES_MAX && found.mode() & EVERYBODY_READS != 0;
        if let Some(contents) = copied.then(|| std::fs::read(&piece.lower).ok()).flatten() {
            return self.file(&piece.upper, Arc::from(contents), found.mode() & 0o777);
        }
        self.file(&piece.upper, Arc::from(&b""[..]), 0o600)?;
        self.mount("show a file of the host's", &piece.low, &piece.to, c"", libc::MS_BIND, b"", Otherwise::GoOn)?;
        self.add("protect a file of the host's", Act::ReadOnly { path: text(&piece.to)? }, Otherwise::GoOn);
        Ok(())
    }

    fn lay_piece(&mut self, piece: &Layer, layout: &Layout) -> Result<(), StartError> {
        if is_empty(&piece.lower) {
            return Ok(());
        }
        if !layout.is_refused(piece.rest.as_os_str()) {
            self.layers.push((self.steps.len(), piece.rest.clone().into()));
            self.overlay(std::slice::from_ref(&piece.low), &piece.upper, &piece.work, &piece.to, Otherwise::Instead(2))?;
        }
        self.as_it_is(piece)
    }

    /// Some file systems cannot be below an overlay: then there is no layer, and nothing can be written.
    fn as_it_is(&mut self, piece: &Layer) -> Result<(), StartError> {
        let flags = libc::MS_BIND | libc::MS_REC;
        self.mount("show a folder of the host's", &piece.low, &piece.to, c"", flags, b"", Otherwise::GoOn)?;
        self.add("protect a folder of the host's", Act::ReadOnly { path: text(&piece.to)? }, Otherwise::GoOn);
        Ok(())
    }
}

/// The names in a folder, in order; None if it cannot be read, or has too many.
fn pieces(folder: &Path) -> Option<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).ok()?;
    let mut names =
        entries.take(PIECES_MAX + 1).map(|entry| entry.map(|entry| entry.file_name().into())).collect::<Result<Vec<PathBuf>, _>>().ok()?;
    names.sort();
    (names.len() <= PIECES_MAX).then_some(names)
}
