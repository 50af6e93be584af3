//! Keys, and what follows from them: tokens, first data sequence numbers, and the HMACs that prove that one knows both.

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::net::IpAddr;

/// A key of one side (RFC 8684 §3.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Key(pub u64);

impl Key {
    fn digest(self) -> [u8; 32] {
        Sha256::digest(self.0.to_be_bytes()).into()
    }

    /// What MP_JOIN names the connection by: "the most significant 32 bits of the SHA-256 hash of the key" (RFC 8684 §3.2).
    pub fn token(self) -> u32 {
        let [a, b, c, d, ..] = self.digest();
        u32::from_be_bytes([a, b, c, d])
    }

    /// The data sequence number of the side's first byte. IDSN is "the least significant 64 bits of the SHA-256 hash of the key" (§3.1), and MP_CAPABLE
    /// takes it: "the SYN with MP_CAPABLE occupies the first octet of data sequence space".
    pub fn first(self) -> u64 {
        let digest = self.digest();
        let idsn = digest[24..].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        idsn.wrapping_add(1)
    }
}

/// HMAC-SHA256 of a message with both keys, the sender's first.
fn hmac(sender: Key, receiver: Key, message: &[&[u8]]) -> [u8; 32] {
    let mut keys = [0; 16];
    keys[..8].copy_from_slice(&sender.0.to_be_bytes());
    keys[8..].copy_from_slice(&receiver.0.to_be_bytes());
    let mut mac = Hmac::<Sha256>::new_from_slice(&keys).unwrap_or_else(|_| unreachable!("HMAC takes keys of any length"));
    message.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

/// What MP_JOIN's SYN|ACK and ACK prove themselves by (RFC 8684 §3.2): HMAC(sender's key, receiver's key; sender's nonce, receiver's nonce).
pub fn join_hmac(sender: Key, receiver: Key, sender_nonce: u32, receiver_nonce: u32) -> [u8; 32] {
    hmac(sender, receiver, &[&sender_nonce.to_be_bytes(), &receiver_nonce.to_be_bytes()])
}

/// The leftmost 64 bits: those of SYN|ACK.
pub fn leftmost_64(hmac: &[u8; 32]) -> u64 {
    hmac[..8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The leftmost 160 bits: those of ACK.
pub fn leftmost_160(hmac: &[u8; 32]) -> [u8; 20] {
    let mut out = [0; 20];
    out.copy_from_slice(&hmac[..20]);
    out
}

/// ADD_ADDR's proof (RFC 8684 §3.4.1): the rightmost 64 bits of the HMAC of "the Address ID, IP address, and port"; without a port it is zero.
pub fn address_hmac(sender: Key, receiver: Key, id: u8, address: IpAddr, port: Option<u16>) -> u64 {
    let port = port.unwrap_or(0).to_be_bytes();
    let digest = match address {
        IpAddr::V4(address) => hmac(sender, receiver, &[&[id], &address.octets(), &port]),
        IpAddr::V6(address) => hmac(sender, receiver, &[&[id], &address.octets(), &port]),
    };
    digest[24..].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    // The self-tests of Linux (net/mptcp/crypto_test.c, net/mptcp/token_test.c) have such vectors; these come from Python's hashlib and hmac.
    #[test]
    fn token_and_first_number_are_the_two_ends_of_the_hash() {
        let key = Key(0x0102_0304_0506_0708);
        assert_eq!(key.token(), 0x6684_0dda);
        assert_eq!(key.first(), 0xf5a1_01d3_d29d_6f72 + 1);
    }

    #[test]
    fn hmacs_have_both_keys_and_both_nonces() {
        let (a, b) = (Key(0x0102_0304_0506_0708), Key(0x1112_1314_1516_1718));
        let hmac = join_hmac(a, b, 0x2122_2324, 0x3132_3334);
        assert_eq!(leftmost_64(&hmac), 0xe19a_d4ac_22d5_1c2f);
        assert_eq!(leftmost_160(&hmac)[..8], hmac[..8]);
        assert_eq!(address_hmac(a, b, 9, [10, 0, 2, 12].into(), Some(6000)), 0x5aba_3deb_8a27_b4b3);
    }
}
