//! What the controller orders of the nursery, and the steps that the nursery and process 1 of a node do: mounts, folders, files.

/// Descriptors that come with an [`Order`]: arena, control socket, command socket, list of steps, a mount (or anything), and one more, so that the number is even.
pub const ORDER_DESCRIPTORS: usize = 6;

/// What the nursery is told for each node, with [`ORDER_DESCRIPTORS`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Order {
    /// [`ORDER_BEAR`] or [`ORDER_PREPARE`].
    pub what: u32,
    /// Keeps `steps_bytes` aligned.
    pub reserved: u32,
    /// CLONE_NEW*: those that are made before the steps, but for that of process numbers.
    pub namespaces: u32,
    /// Processor that process 1 stays on; `u32::MAX`: any.
    pub cpu: u32,
    /// Bytes of the list of steps: their number, then results (errno; of the namespaces, then of each step), then a [`Step`] each.
    pub steps_bytes: u64,
    /// RLIMIT_NOFILE of programs, soft and hard.
    pub descriptors: [u64; 2],
    /// RLIMIT_DATA of programs, bytes; `u64::MAX`: as it is.
    pub memory: u64,
}

/// `Order::what`: make process 1 of a node, which does the steps.
pub const ORDER_BEAR: u32 = 1;
/// `Order::what`: do the steps yourself, for all nodes; of the descriptors, only list and mount are looked at.
pub const ORDER_PREPARE: u32 = 2;

/// Something that process 1 does before it is init: up to four texts follow, paths with a zero at the end.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Step {
    /// Of the record, texts included; a multiple of eight.
    pub bytes: u32,
    /// [`STEP_FOLDER`] and others.
    pub kind: u32,
    /// [`OTHERWISE_FAIL`], [`OTHERWISE_GO_ON`], or [`OTHERWISE_INSTEAD`] and how many of the next steps are left out when this one succeeds.
    pub otherwise: u32,
    /// Keeps `number` aligned.
    pub reserved: u32,
    /// Mode or flags.
    pub number: u64,
    /// Bytes of the texts.
    pub lengths: [u32; 4],
}

/// mkdir: path; mode. One that is there is no failure.
pub const STEP_FOLDER: u32 = 1;
/// A new file: path, contents; mode.
pub const STEP_FILE: u32 = 2;
/// symlink: target, path.
pub const STEP_LINK: u32 = 3;
/// mount(2): from, to, kind, data; flags.
pub const STEP_MOUNT: u32 = 4;
/// A mount that can only be read from now on: path.
pub const STEP_READ_ONLY: u32 = 5;
/// This folder becomes `/`, and nothing of what was `/` is left: path. Takes time for each process of the host.
pub const STEP_ENTER: u32 = 6;
/// umount(2), whatever still uses it: path.
pub const STEP_UNMOUNT: u32 = 7;
/// This mount goes over `/`, and the process into it: path.
pub const STEP_COVER: u32 = 8;
/// The mount that came with the order goes here: path.
pub const STEP_ATTACH: u32 = 9;
/// A copy of this mount is sent to the controller before anything else: path.
pub const STEP_KEEP: u32 = 10;
/// A folder in which overlays show nothing of what is below: path.
pub const STEP_OPAQUE: u32 = 11;
/// `Step::otherwise`: nothing goes on.
pub const OTHERWISE_FAIL: u32 = 0;
/// `Step::otherwise`: never mind.
pub const OTHERWISE_GO_ON: u32 = 1;
/// `Step::otherwise`: the next steps are for that case.
pub const OTHERWISE_INSTEAD: u32 = 2;

/// Where the first step of a list begins that has so many.
pub const fn steps_at(count: usize) -> usize {
    (4 * (count + 2)).next_multiple_of(8)
}
