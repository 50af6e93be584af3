//! Reading and writing big-endian fields. The readers take arrays, so that an
//! offset past the end is visible where it is written and costs no check.

#[inline(always)]
pub(crate) const fn u16_at<const N: usize>(bytes: &[u8; N], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

#[inline(always)]
pub(crate) const fn u32_at<const N: usize>(bytes: &[u8; N], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// `COUNT` bytes at a fixed offset of an array.
#[inline(always)]
pub(crate) fn array_at<const COUNT: usize, const N: usize>(bytes: &[u8; N], at: usize) -> [u8; COUNT] {
    let mut out = [0; COUNT];
    out.copy_from_slice(&bytes[at..at + COUNT]);
    out
}

#[inline(always)]
pub(crate) fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

#[inline(always)]
pub(crate) fn put_u16(bytes: &mut [u8], at: usize, value: u16) {
    put(bytes, at, &value.to_be_bytes());
}

#[inline(always)]
pub(crate) fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    put(bytes, at, &value.to_be_bytes());
}
