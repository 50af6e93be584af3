//! /sys/class/net: a file system in memory with the folders, links and files of a node's interfaces, in the place of the one before.
//!
//! The files are empty: what one shows is made when it is opened ([`weft_intercept::sys_net`]).

use super::super::error::StartError;
use super::places::{OF_SYS, text};
use super::steps::{Act, Otherwise, Steps};
use std::path::Path;
use std::sync::Arc;
use weft_intercept::sys_net;

/// Where the interfaces are.
pub(crate) const DEVICES: &str = "devices/virtual/net";
const CLASS: &str = "class/net";

impl Steps {
    /// What process 1 does in the node. `again`: there is one before.
    pub fn of_sys(names: &[String], again: bool) -> Result<Steps, StartError> {
        let mut steps = Steps::default();
        let root = Path::new(OF_SYS);
        match again {
            true => steps.add("take away what is below /sys", Act::Unmount { path: text(root)? }, Otherwise::Fail),
            false => steps.folder(root, 0o755)?,
        }
        steps.memory(root, c"mode=755")?;
        for folder in ["class", CLASS, "devices", "devices/virtual", DEVICES] {
            steps.folder(&root.join(folder), 0o755)?;
        }
        names.iter().try_for_each(|name| steps.interface(root, name))?;
        Ok(steps)
    }

    fn interface(&mut self, root: &Path, name: &str) -> Result<(), StartError> {
        let own = root.join(DEVICES).join(name);
        self.folder(&own, 0o755)?;
        for (file, writable) in sys_net::FILES {
            let path = own.join(file.trim_end_matches('/'));
            match file.ends_with('/') {
                true => self.folder(&path, 0o755)?,
                false => self.file(&path, Arc::from(&b""[..]), if *writable { 0o644 } else { 0o444 })?,
            }
        }
        let mut link = |to: &Path, path: &Path| -> Result<(), StartError> {
            self.add("make a link", Act::Link { to: text(to)?, path: text(path)? }, Otherwise::Fail);
            Ok(())
        };
        link(Path::new("../../../../class/net"), &own.join("subsystem"))?;
        link(&Path::new("../..").join(DEVICES).join(name), &root.join(CLASS).join(name))
    }
}
