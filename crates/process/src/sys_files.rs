//! /sys/class/net: folders and links of the node's interfaces, made when a program asks for them first and kept up to date whenever one asks.
//!
//! /sys/class and /sys/devices are links to a folder of the node's in memory, in which the files of each interface lie as Linux has them, empty: what one
//! shows is made when it is opened ([`weft_intercept::sys_net`]).

use super::files::{OF_SYS, SYS_DEVICES};
use super::ids::ThreadId;
use super::object::{Body, Written};
use super::outcome::Outcome;
use super::outside::Outside;
use super::tree::Tree;
use weft_intercept::sys::Errno;
use weft_intercept::sys_net;

/// Interface and file of a path that was opened.
pub(super) fn file_of(path: &str) -> Option<(&str, &str)> {
    path.strip_prefix(OF_SYS)?.strip_prefix('/')?.strip_prefix(SYS_DEVICES)?.strip_prefix('/')?.split_once('/')
}

/// Is it a path below what is kept up to date?
pub(super) fn is_asked(path: &str) -> bool {
    path.starts_with("/sys/")
}

impl Tree {
    /// A program asks for something below /sys: it finds the interfaces that there are now.
    pub(super) fn look_at_sys(&mut self, outside: &mut dyn Outside) {
        let names = sys_net::names(outside.stack());
        if self.sys_names.as_ref() == Some(&names) {
            return;
        }
        if let Err((what, errno)) = self.init.lay_sys(&names, self.sys_names.is_some(), &self.arena) {
            tracing::warn!(node = %self.config.name, "/sys/class/net is not there: cannot {what}: {errno:?}");
            self.calls.unsupported("/sys/class/net".to_owned(), errno);
        }
        self.sys_names = Some(names);
    }

    /// A file of an interface was opened. `writes`: for writing, perhaps with reading.
    ///
    /// # Errors
    /// EACCES: nobody writes there, or not this user; ENOENT: there is no such file.
    pub(super) fn open_sys_file(
        &mut self,
        thread: ThreadId,
        (interface, file): (&str, &str),
        (writes, reads, close_on_exec): (bool, bool, bool),
        outside: &mut dyn Outside,
    ) -> Result<Opened, Errno> {
        let writable = sys_net::is_writable(file).ok_or(Errno(libc::ENOENT))?;
        let of = Written::Interface(interface.to_owned(), file.to_owned());
        if writes {
            if !writable || !self.manages_network(thread) {
                return Err(Errno(libc::EACCES));
            }
            return self.new_object(thread, Body::Setting { of, position: 0, reads }, false, close_on_exec).map(Opened::Is);
        }
        match sys_net::read(interface, file, outside.stack()) {
            Ok(text) => Ok(Opened::Shows(text)),
            // It can be opened, and not be read.
            Err(_) => self.new_object(thread, Body::Setting { of, position: 0, reads }, false, close_on_exec).map(Opened::Is),
        }
    }
}

/// What a program gets that opens a file.
pub(super) enum Opened {
    /// A file with this text.
    Shows(String),
    Is(Outcome),
}
