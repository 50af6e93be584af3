//! Opening: what both sides agreed on.

/// What the handshake agreed on.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Agreed {
    pub sack: bool,
    pub timestamps: bool,
    pub scaling: bool,
    pub ecn: bool,
}
weft_core::fields!(struct Agreed { sack, timestamps, scaling, ecn });
