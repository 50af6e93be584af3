//! What is done to make a node's files: the steps, the list in which whoever does them reads them, and the results that he leaves there.

use super::super::error::{StartError, Undone};
use super::layout::Layout;
use super::places::{COMMON, NODE, TREE, escaped, text};
use super::unlaid::Unlaid;
use std::ffi::{CStr, CString, OsString};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use weft_intercept::sys::Errno;
use weft_loader::abi;

/// What stands in a list for the namespaces before anybody has done it.
const NOT_BEGUN: i32 = libc::EINPROGRESS;

/// Something to do.
#[derive(Debug)]
pub(super) enum Act {
    Folder {
        path: CString,
        mode: libc::mode_t,
    },
    File {
        path: CString,
        contents: Arc<[u8]>,
        mode: libc::mode_t,
    },
    Link {
        to: CString,
        path: CString,
    },
    Mount {
        from: CString,
        to: CString,
        kind: &'static CStr,
        flags: libc::c_ulong,
        data: CString,
    },
    /// Only to be read from now on.
    ReadOnly {
        path: CString,
    },
    /// This folder becomes `/`.
    Enter {
        path: CString,
    },
    Unmount {
        path: CString,
    },
    /// This mount goes over `/`.
    Cover {
        path: CString,
    },
    /// The mount that came with the order.
    Attach {
        path: CString,
    },
    /// What lower layers have in this folder does not show.
    Opaque {
        path: CString,
    },
    /// A copy of this mount is sent to the controller.
    Keep {
        path: CString,
    },
}

/// Something to do, what it is for, and what to do when it fails.
#[derive(Debug)]
pub(super) struct Step {
    what: &'static str,
    act: Act,
    otherwise: Otherwise,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Otherwise {
    Fail,
    GoOn,
    /// Do the next steps, so many, which are left out when this one succeeds.
    Instead(usize),
}

/// What makes a node's files.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    pub(super) steps: Vec<Step>,
    /// The folders that get an overlay, and in which step.
    pub(super) layers: Vec<(usize, OsString)>,
    pub(super) unlaid: Unlaid,
}

impl Steps {
    pub(super) fn add(&mut self, what: &'static str, act: Act, otherwise: Otherwise) {
        self.steps.push(Step { what, act, otherwise });
    }

    #[allow(clippy::too_many_arguments)] // those of mount(2)
    pub(super) fn mount(
        &mut self,
        what: &'static str,
        from: impl AsRef<Path>,
        to: impl AsRef<Path>,
        kind: &'static CStr,
        flags: libc::c_ulong,
        data: &[u8],
        otherwise: Otherwise,
    ) -> Result<(), StartError> {
        let data = CString::new(data).map_err(|_| StartError::Step { step: what, errno: Errno(libc::EINVAL) })?;
        self.add(what, Act::Mount { from: text(from)?, to: text(to)?, kind, flags, data }, otherwise);
        Ok(())
    }

    /// A file system in memory.
    pub(super) fn memory(&mut self, path: &Path, options: &CStr) -> Result<(), StartError> {
        let flags = libc::MS_NOSUID | libc::MS_NODEV;
        self.mount("mount a file system in memory", "weft", path, c"tmpfs", flags, options.to_bytes(), Otherwise::Fail)
    }

    pub(super) fn folder(&mut self, path: &Path, mode: libc::mode_t) -> Result<(), StartError> {
        self.add("make a folder", Act::Folder { path: text(path)?, mode }, Otherwise::Fail);
        Ok(())
    }

    pub(super) fn file(&mut self, path: &Path, contents: Arc<[u8]>, mode: libc::mode_t) -> Result<(), StartError> {
        self.add("write a file of the node's", Act::File { path: text(path)?, contents, mode }, Otherwise::Fail);
        Ok(())
    }

    /// `lower`: the uppermost first.
    pub(super) fn overlay(
        &mut self,
        lower: &[PathBuf],
        upper: &Path,
        work: &Path,
        to: &Path,
        otherwise: Otherwise,
    ) -> Result<(), StartError> {
        let lower = lower.iter().map(|folder| escaped(folder)).collect::<Vec<_>>().join(&b':');
        let options = [&b"lowerdir="[..], &lower, b",upperdir=", &escaped(upper), b",workdir=", &escaped(work), b",userxattr"].concat();
        self.mount("lay the node's files over the host's", "weft", to, c"overlay", libc::MS_NOSUID, &options, otherwise)
    }

    /// Those of the host's folders over which these steps lay nothing, though that could be done.
    pub fn unlaid(&self) -> &Unlaid {
        &self.unlaid
    }

    /// The list as the process that performs it reads it ([`abi::Step`]).
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; abi::steps_at(self.steps.len())];
        bytes[..4].copy_from_slice(&(self.steps.len() as u32).to_ne_bytes());
        bytes[4..8].copy_from_slice(&NOT_BEGUN.to_ne_bytes());
        self.steps.iter().for_each(|step| step.encode(&mut bytes));
        bytes
    }

    /// The results that a list has got: the number of steps, that of the namespaces, then one for each step.
    fn results(&self, list: &OwnedFd) -> Result<Vec<i32>, Undone> {
        let mut bytes = vec![0; 4 * (self.steps.len() + 2)];
        // SAFETY: a buffer of ours.
        let read = unsafe { libc::pread(list.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), 0) };
        if read != bytes.len() as isize {
            return Err(("read what became of a node's files".to_owned(), libc::EIO));
        }
        Ok(bytes.chunks_exact(4).map(|word| i32::from_ne_bytes([word[0], word[1], word[2], word[3]])).collect())
    }

    /// The folders over which the kernel has laid nothing, with why.
    fn refused(&self, results: &[i32]) -> Vec<(OsString, Errno)> {
        let of = |step: &usize| results.get(2 + step).copied().unwrap_or(libc::EIO);
        self.layers.iter().filter(|(step, _)| of(step) != 0).map(|(step, name)| (name.clone(), Errno(of(step)))).collect()
    }

    /// Looks at the results that a list has got: remembers what the kernel has refused, for the nodes that follow. On failure: the step and errno.
    pub fn learn(&self, list: &OwnedFd, layout: &Layout) -> Result<(), Undone> {
        let results = self.results(list)?;
        let refused = self.refused(&results);
        if !refused.is_empty() {
            layout.refused.lock().unwrap_or_else(PoisonError::into_inner).extend(refused.into_iter().map(|(name, _)| name));
        }
        // Why nobody has begun, whoever asked is told.
        if results[1] == NOT_BEGUN { Ok(()) } else { self.judged(&results) }
    }

    fn judged(&self, results: &[i32]) -> Result<(), Undone> {
        if results[1] != 0 {
            return Err(("make the namespaces of a node".to_owned(), results[1]));
        }
        let failed = self.steps.iter().zip(&results[2..]).find(|(step, result)| step.otherwise == Otherwise::Fail && **result != 0);
        failed.map_or(Ok(()), |(step, errno)| Err((step.tried(), *errno)))
    }

    /// What became of [`Steps::layers`]: the folders that have none, with why. On failure: the step and errno.
    pub fn laid(&self, list: &OwnedFd) -> Result<Vec<(OsString, Errno)>, Undone> {
        let results = self.results(list)?;
        self.judged(&results).map(|()| self.refused(&results))
    }
}

impl Step {
    /// What it is for, with the path in the node where that is somebody's own.
    fn tried(&self) -> String {
        let (Act::File { path, .. } | Act::Folder { path, .. } | Act::Link { path, .. }) = &self.act else { return self.what.to_owned() };
        let path = path.to_string_lossy();
        let places = [format!("{NODE}/upper"), format!("{NODE}/root"), TREE.to_owned(), COMMON.to_owned()];
        let own = places.iter().find_map(|place| path.strip_prefix(place.as_str())).unwrap_or(&path);
        format!("{} ({own})", self.what)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let (kind, number, texts): (u32, u64, [&[u8]; 4]) = match &self.act {
            Act::Folder { path, mode } => (abi::STEP_FOLDER, (*mode).into(), [path.as_bytes_with_nul(), b"", b"", b""]),
            Act::File { path, contents, mode } => (abi::STEP_FILE, (*mode).into(), [path.as_bytes_with_nul(), contents, b"", b""]),
            Act::Link { to, path } => (abi::STEP_LINK, 0, [to.as_bytes_with_nul(), path.as_bytes_with_nul(), b"", b""]),
            Act::Mount { from, to, kind, flags, data } => (
                abi::STEP_MOUNT,
                *flags,
                [from.as_bytes_with_nul(), to.as_bytes_with_nul(), kind.to_bytes_with_nul(), data.as_bytes_with_nul()],
            ),
            Act::ReadOnly { path } => (abi::STEP_READ_ONLY, 0, [path.as_bytes_with_nul(), b"", b"", b""]),
            Act::Enter { path } => (abi::STEP_ENTER, 0, [path.as_bytes_with_nul(), b"", b"", b""]),
            Act::Unmount { path } => (abi::STEP_UNMOUNT, 0, [path.as_bytes_with_nul(), b"", b"", b""]),
            Act::Cover { path } => (abi::STEP_COVER, 0, [path.as_bytes_with_nul(), b"", b"", b""]),
            Act::Attach { path } => (abi::STEP_ATTACH, 0, [path.as_bytes_with_nul(), b"", b"", b""]),
            Act::Opaque { path } => (abi::STEP_OPAQUE, 0, [path.as_bytes_with_nul(), b"", b"", b""]),
            Act::Keep { path } => (abi::STEP_KEEP, 0, [path.as_bytes_with_nul(), b"", b"", b""]),
        };
        let otherwise = match self.otherwise {
            Otherwise::Fail => abi::OTHERWISE_FAIL,
            Otherwise::GoOn => abi::OTHERWISE_GO_ON,
            Otherwise::Instead(steps) => abi::OTHERWISE_INSTEAD + steps as u32,
        };
        let bytes = (size_of::<abi::Step>() + texts.iter().map(|text| text.len()).sum::<usize>()).next_multiple_of(8);
        let end = out.len() + bytes;
        for word in [bytes as u32, kind, otherwise, 0] {
            out.extend_from_slice(&word.to_ne_bytes());
        }
        out.extend_from_slice(&number.to_ne_bytes());
        texts.iter().for_each(|text| out.extend_from_slice(&(text.len() as u32).to_ne_bytes()));
        texts.iter().for_each(|text| out.extend_from_slice(text));
        out.resize(end, 0);
    }
}
