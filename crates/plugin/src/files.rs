//! Where kinds of block come from: files, by their content.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use weft_core::{Loaded, Loader};
use xxhash_rust::xxh3::xxh3_64;

/// Largest file, bytes.
pub const FILE_BYTES_MAX: u64 = 64 << 20;
/// Most different files that one process loads: what a kind declares stays in memory.
pub const FILES_MAX: usize = 4096;

/// Files that were read.
type Kept = BTreeMap<PathBuf, Vec<u8>>;

/// Reads blocks from files. The content of a file that was read before is not read again: a kind is loaded once in a process.
#[derive(Clone, Debug)]
pub struct Files {
    folder: PathBuf,
    /// What each file has in it, when it must not change while somebody looks (virtual time: the same run has the same blocks).
    kept: Option<Arc<Mutex<Kept>>>,
}

impl Files {
    /// Names that do not begin with `/` are looked for in this folder.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Files {
        Files { folder: folder.into(), kept: None }
    }
    /// As [`Files::in_folder`], and each file is read once: later it is what it was then.
    pub fn kept(folder: impl Into<PathBuf>) -> Files {
        Files { folder: folder.into(), kept: Some(Default::default()) }
    }
    /// Names that do not begin with `/` are looked for beside this file.
    pub fn beside(file: &Path) -> Files {
        Files::in_folder(file.parent().unwrap_or(Path::new("")))
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>, String> {
        let Some(kept) = &self.kept else { return content(path) };
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(content) = kept.get(path) {
            return Ok(content.clone());
        }
        let content = content(path)?;
        kept.insert(path.to_owned(), content.clone());
        Ok(content)
    }
}

fn content(path: &Path) -> Result<Vec<u8>, String> {
    let plainly = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => format!("there is no such file ({})", path.display()),
        _ => error.to_string(),
    };
    // A pipe without a writer is no reason to wait for one.
    let file = std::fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(plainly)?;
    if !file.metadata().map_err(plainly)?.is_file() {
        return Err("it is no plain file".to_owned());
    }
    let mut content = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut content).map_err(plainly)?;
    match content.len() as u64 > FILE_BYTES_MAX {
        true => Err(format!("it is larger than {FILE_BYTES_MAX} bytes")),
        false => Ok(content),
    }
}

/// What was loaded in this process, by content.
fn known() -> &'static Mutex<BTreeMap<(u64, usize), Loaded>> {
    static KNOWN: OnceLock<Mutex<BTreeMap<(u64, usize), Loaded>>> = OnceLock::new();
    KNOWN.get_or_init(Default::default)
}

impl Loader for Files {
    fn load(&self, file: &str) -> Result<Loaded, String> {
        let path = self.folder.join(file);
        let content = self.read(&path)?;
        let digest = xxh3_64(&content);
        let key = (digest, content.len());
        if let Some(loaded) = known().lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(loaded.clone());
        }
        let loaded = open(&path, &content, &format!("{digest:016x}")[..12])?;
        let mut known = known().lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= FILES_MAX {
            return Err(format!("this process has loaded {FILES_MAX} different files already"));
        }
        Ok(known.entry(key).or_insert(loaded).clone())
    }
}

/// What a file is, its first bytes say; a script has none that do, so its name does.
fn open(path: &Path, content: &[u8], build: &str) -> Result<Loaded, String> {
    match content {
        [0, b'a', b's', b'm', ..] => crate::wasm::load(content, build),
        [0x7f, b'E', b'L', b'F', ..] => crate::native::load(content, build),
        [] => Err("it is empty".to_owned()),
        _ if path.extension().is_some_and(|extension| extension == "py") => crate::python::load(path, content, build),
        _ => Err("it is no block: weft loads WebAssembly modules (.wasm), native objects (.so) and Python scripts (.py)".to_owned()),
    }
}
