//! The files that a node's programs see: the host's (or a folder's) below a layer of the node's own, and what differs from node to node.
//!
//! An overlay over `/` as a whole is refused to users without privilege (mounts below it are locked), so each folder of the top level gets
//! one. `/dev`, `/proc`, `/run`, `/sys`, `/tmp` and `/root` are the node's own from the beginning; nothing of the host's that is alive (sockets of
//! its services, devices) is there. All is gone with process 1.
//!
//! The steps are prepared here and performed by the process that becomes process 1 (`guest/steps.rs` of the loader).

mod layers;
mod layout;
mod lists;
mod mounts;
mod places;
mod skeleton;
mod steps;
mod sys;
mod top;
mod unlaid;
mod wanted;

pub(super) use layout::Layout;
pub(crate) use places::OF_SYS;
pub use places::OWN_FOLDERS;
pub(super) use places::is_new;
pub(super) use skeleton::secrets;
pub(super) use steps::Steps;
pub(super) use sys::DEVICES as SYS_DEVICES;
pub(super) use unlaid::{Next, Unlaid};
pub(super) use wanted::OwnDisk;
pub use wanted::{Files, Mount, OwnFile};
