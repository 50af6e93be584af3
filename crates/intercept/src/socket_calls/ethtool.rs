//! SIOCETHTOOL (include/uapi/linux/ethtool.h, net/ethtool/ioctl.c): what a device tells ethtool(8) of itself. Nothing of it can be set: offloads are parameters of
//! the stack.

use crate::memory::Memory;
use crate::sys::Errno;
use crate::tables::InterfaceRow;
use weft_core::table::LinkType;

pub(super) const SIOCETHTOOL: u32 = 0x8946;

const GSET: u32 = 0x01;
const GDRVINFO: u32 = 0x03;
const GLINK: u32 = 0x0a;
const GRXCSUM: u32 = 0x14;
const GTXCSUM: u32 = 0x16;
const GSG: u32 = 0x18;
const GSTRINGS: u32 = 0x1b;
const GTSO: u32 = 0x1e;
const GPERMADDR: u32 = 0x20;
const GGSO: u32 = 0x23;
const GFLAGS: u32 = 0x25;
const GGRO: u32 = 0x2b;
const GSSET_INFO: u32 = 0x37;
const GFEATURES: u32 = 0x3a;
const GET_TS_INFO: u32 = 0x41;
const GLINKSETTINGS: u32 = 0x4c;
/// What changes something: SSET, SWOL … SFEATURES, SLINKSETTINGS.
const CHANGES: [u32; 22] =
    [0x02, 0x06, 0x08, 0x0c, 0x0f, 0x11, 0x13, 0x15, 0x17, 0x19, 0x1f, 0x22, 0x24, 0x26, 0x28, 0x2a, 0x2c, 0x32, 0x3b, 0x3d, 0x47, 0x4d];

/// ETH_SS_FEATURES
const SET_OF_FEATURES: u32 = 4;
const STRING_BYTES: usize = 32;
/// Most blocks of features that are told.
const FEATURE_BLOCKS_MAX: usize = 8;
/// Features of interfaces of weft's, by their names in Linux (netdev_features_strings).
const FEATURES: [&str; 8] = [
    "tx-scatter-gather",
    "tx-checksum-ip-generic",
    "tx-generic-segmentation",
    "tx-tcp-segmentation",
    "tx-tcp6-segmentation",
    "tx-udp-segmentation",
    "rx-checksum",
    "rx-gro",
];
/// SPEED_10000, DUPLEX_FULL, as of a veth; how fast a wire is, the interface does not know.
const SPEED_MBIT: u32 = 10_000;
const DUPLEX_FULL: u8 = 1;
/// __ETHTOOL_LINK_MODE_MASK_NBITS in words.
const LINK_MODE_WORDS: i8 = 4;
/// Bytes of `struct ethtool_link_settings` without its masks.
const LINK_SETTINGS_BYTES: usize = 48;
const WORDS_AT: usize = 15;
/// Of the kernel's own (include/linux/errno.h).
const ETOOSMALL: i32 = 525;

/// Bits of [`FEATURES`] that an interface has.
fn features(interface: &InterfaceRow) -> u32 {
    let (checksums, large) = (interface.checksum_offload, interface.gso_max_bytes != 0);
    let has = [true, checksums, true, large, large, large, checksums, true];
    has.iter().enumerate().fold(0, |bits, (bit, has)| bits | u32::from(*has) << bit)
}

/// Answers what the word behind `pointer` asks of an interface. `manages`: may it change the network?
pub(super) fn answer(memory: &impl Memory, interface: &InterfaceRow, pointer: u64, manages: bool) -> Result<(), Errno> {
    let mut word = [0; 4];
    memory.read(pointer, &mut word)?;
    let command = u32::from_ne_bytes(word);
    let unknown = Err(Errno(libc::EOPNOTSUPP));
    if CHANGES.contains(&command) {
        return if manages { unknown } else { Err(Errno(libc::EPERM)) };
    }
    let is_loopback = interface.link == LinkType::Loopback;
    // loopback_ethtool_ops has neither a driver nor a link's settings.
    if is_loopback && matches!(command, GSET | GDRVINFO | GLINKSETTINGS) {
        return unknown;
    }
    let value = |value: u32| memory.write(pointer + 4, &value.to_ne_bytes());
    let has = |name: &str| FEATURES.iter().position(|one| *one == name).map_or(0, |bit| features(interface) >> bit & 1);
    match command {
        GLINK => value((interface.up && interface.carrier).into()),
        GDRVINFO => memory.write(pointer, &driver(command)),
        GSET => memory.write(pointer, &old_settings(command)),
        GLINKSETTINGS => link_settings(memory, pointer),
        GPERMADDR => permanent_address(memory, pointer),
        GRXCSUM => value(has("rx-checksum")),
        GTXCSUM => value(has("tx-checksum-ip-generic")),
        GSG => value(has("tx-scatter-gather")),
        GTSO => value(has("tx-tcp-segmentation")),
        GGSO => value(has("tx-generic-segmentation")),
        GGRO => value(has("rx-gro")),
        GFLAGS => value(0),
        GSSET_INFO => sets(memory, pointer),
        GSTRINGS => strings(memory, pointer),
        GFEATURES => told_features(memory, pointer, features(interface)),
        GET_TS_INFO => {
            // SOF_TIMESTAMPING_TX_SOFTWARE, RX_SOFTWARE, SOFTWARE; no clock of a device's.
            const SOFTWARE: u32 = 0x2 | 0x8 | 0x10;
            let words = [command, SOFTWARE, u32::MAX, 0, 0, 0, 0, 0, 0, 0, 0];
            memory.write(pointer, &words.map(u32::to_ne_bytes).concat())
        }
        _ => unknown,
    }
}

/// `struct ethtool_drvinfo`
fn driver(command: u32) -> [u8; 196] {
    let mut info = [0; 196];
    info[..4].copy_from_slice(&command.to_ne_bytes());
    for (at, text) in [(4, "weft"), (36, env!("CARGO_PKG_VERSION"))] {
        let length = text.len().min(STRING_BYTES - 1);
        info[at..at + length].copy_from_slice(&text.as_bytes()[..length]);
    }
    info
}

/// `struct ethtool_cmd`
fn old_settings(command: u32) -> [u8; 44] {
    let mut settings = [0; 44];
    settings[..4].copy_from_slice(&command.to_ne_bytes());
    // speed and speed_hi stand apart.
    settings[12..14].copy_from_slice(&(SPEED_MBIT as u16).to_ne_bytes());
    settings[14] = DUPLEX_FULL;
    settings
}

/// Who does not know how long the masks are is told how long, as a number below zero.
fn link_settings(memory: &impl Memory, pointer: u64) -> Result<(), Errno> {
    let mut settings = [0; LINK_SETTINGS_BYTES];
    memory.read(pointer, &mut settings)?;
    let asked = settings[WORDS_AT] as i8;
    settings[4..].fill(0);
    if asked != LINK_MODE_WORDS {
        settings[WORDS_AT] = (-LINK_MODE_WORDS) as u8;
        return memory.write(pointer, &settings);
    }
    settings[4..8].copy_from_slice(&SPEED_MBIT.to_ne_bytes());
    settings[8] = DUPLEX_FULL;
    settings[WORDS_AT] = LINK_MODE_WORDS as u8;
    // No mode is supported, advertised, or advertised by the other side.
    let masks = [0; 3 * 4 * LINK_MODE_WORDS as usize];
    memory.write(pointer, &[&settings[..], &masks].concat())
}

/// None was ever set: all zero.
fn permanent_address(memory: &impl Memory, pointer: u64) -> Result<(), Errno> {
    const ADDRESS_BYTES: u32 = 6;
    let mut size = [0; 4];
    memory.read(pointer + 4, &mut size)?;
    if u32::from_ne_bytes(size) < ADDRESS_BYTES {
        return Err(Errno(ETOOSMALL));
    }
    memory.write(pointer + 4, &[&ADDRESS_BYTES.to_ne_bytes()[..], &[0; ADDRESS_BYTES as usize]].concat())
}

/// How many strings there are in sets: `sset_mask` (64 bits), then a count for each of them that there is.
fn sets(memory: &impl Memory, pointer: u64) -> Result<(), Errno> {
    let mut mask = [0; 8];
    memory.read(pointer + 8, &mut mask)?;
    let there = u64::from_ne_bytes(mask) & (1 << SET_OF_FEATURES);
    memory.write(pointer + 8, &there.to_ne_bytes())?;
    if there == 0 { Ok(()) } else { memory.write(pointer + 16, &(FEATURES.len() as u32).to_ne_bytes()) }
}

/// `struct ethtool_gstrings`
fn strings(memory: &impl Memory, pointer: u64) -> Result<(), Errno> {
    let mut set = [0; 4];
    memory.read(pointer + 4, &mut set)?;
    if u32::from_ne_bytes(set) != SET_OF_FEATURES {
        return Err(Errno(libc::EOPNOTSUPP));
    }
    let mut text = vec![0; FEATURES.len() * STRING_BYTES];
    for (place, name) in text.chunks_mut(STRING_BYTES).zip(FEATURES) {
        place[..name.len()].copy_from_slice(name.as_bytes());
    }
    memory.write(pointer + 8, &[&(FEATURES.len() as u32).to_ne_bytes()[..], &text].concat())
}

/// `struct ethtool_gfeatures`: of each block what is available, requested and active, and what never changes.
fn told_features(memory: &impl Memory, pointer: u64, has: u32) -> Result<(), Errno> {
    let mut size = [0; 4];
    memory.read(pointer + 4, &mut size)?;
    let room = (u32::from_ne_bytes(size) as usize).min(FEATURE_BLOCKS_MAX);
    let all = (1_u32 << FEATURES.len()) - 1;
    let mut words = vec![1_u32];
    if room > 0 {
        words.extend([has, has, has, all]);
    }
    memory.write(pointer + 4, &words.into_iter().flat_map(u32::to_ne_bytes).collect::<Vec<u8>>())
}
