//! Version 1 of the interface between weft and a loadable block (weft-block.h), for Rust as WebAssembly. Tests run natively: what a block may call does little there.
#![allow(dead_code)]

/// Version of the interface.
pub const INTERFACE: u32 = 1;
/// Verdict: onward through the first output; the number of another one is added.
pub const FORWARD: u32 = 0;
/// Verdict: it ends here.
pub const CONSUMED: u32 = 0x100;
/// Verdict: dropped for the first reason of the manifest; the number of another one is added.
pub const DROP: u32 = 0x200;

const EDITED_BYTES: u8 = 1;
const EDITED_META: u8 = 2;

/// A frame. What is public may be changed, after [`Frame::edit_meta`], where it says so.
#[repr(C)]
pub struct Frame {
    data: *mut u8,
    length: u32,
    room: u32,
    /// Bytes of the whole frame: more than `bytes()` has if the manifest's bytes_max is less.
    pub total: u32,
    /// To be set, by [`Frame::forward`] and the like.
    pub verdict: u32,
    /// Where it came in; of egress frames, where it goes out (may be changed).
    pub interface: u32,
    /// Firewall mark (may be changed).
    pub mark: u32,
    pub ether_type: u16,
    pub src_port: u16,
    pub dst_port: u16,
    reserved: u16,
    /// 1: from programs to interfaces.
    pub egress: u8,
    edited: u8,
    pub protocol: u8,
    pub ttl: u8,
    /// DSCP and ECN (may be changed).
    pub tos: u8,
    /// Of `src` and `dst`: 4, 6, or 0.
    pub family: u8,
    /// 4, 6, or 0: none yet (may be changed).
    pub next_hop_family: u8,
    reserved_too: u8,
    pub src_mac: [u8; 6],
    /// May be changed.
    pub dst_mac: [u8; 6],
    pub src: [u8; 16],
    pub dst: [u8; 16],
    /// The neighbour that it goes to (may be changed).
    pub next_hop: [u8; 16],
}

impl Default for Frame {
    /// An empty one, for tests and to be given out.
    fn default() -> Frame {
        // SAFETY: zero is a value of every field, and no byte is at `data` as long as `length` is 0.
        unsafe { std::mem::zeroed() }
    }
}

impl Frame {
    /// Its first bytes.
    pub fn bytes(&self) -> &[u8] {
        match self.length {
            0 => &[],
            // SAFETY: weft has `length` bytes there for as long as the block is called.
            length => unsafe { std::slice::from_raw_parts(self.data, length as usize) },
        }
    }
    /// The same, to be changed.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.edited |= EDITED_BYTES;
        match self.length {
            0 => &mut [],
            // SAFETY: as above, and nobody else looks at them meanwhile.
            length => unsafe { std::slice::from_raw_parts_mut(self.data, length as usize) },
        }
    }
    /// Says that fields are changed.
    pub fn edit_meta(&mut self) -> &mut Frame {
        self.edited |= EDITED_META;
        self
    }
    /// Onward through an output, by its place in the manifest.
    pub fn forward(&mut self, port: u32) {
        self.verdict = FORWARD + port;
    }
    /// It ends here.
    pub fn consume(&mut self) {
        self.verdict = CONSUMED;
    }
    /// Dropped, for a reason by its place in the manifest.
    pub fn drop(&mut self, reason: u32) {
        self.verdict = DROP + reason;
    }
}

/// A subflow of a connection over several paths, as a scheduler sees it: `weft_subflow` of weft-block.h, which says what each field is.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct Subflow {
    pub rtt_ns: u64,
    pub rtt_variation_ns: u64,
    pub queued_bytes: u64,
    pub credit_bytes: u64,
    pub room_bytes: u64,
    pub next: u64,
    pub sent_bytes: u64,
    pub index: u32,
    pub cwnd_bytes: u32,
    pub free_bytes: u32,
    pub mss_bytes: u32,
    pub mapping_bytes: u32,
    pub interface: u32,
    pub backup: u32,
    reserved: u32,
}

/// What a scheduler is to decide, and its answer: `weft_question` of weft-block.h.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct Question {
    pub una: u64,
    pub next: u64,
    pub end: u64,
    pub edge: u64,
    /// The scheduler's own of this connection; may be changed.
    pub memory: [u64; 4],
    /// To be set, where it is not new data.
    pub from: u64,
    /// To be set.
    pub bytes: u64,
    pub more: u32,
    pub again: u32,
}

/// A parameter's value in all its forms.
#[repr(C)]
pub struct Value {
    text: *const u8,
    length: u32,
    /// Of type address: 4, 6, or 0.
    pub family: u32,
    /// A number; true is 1; nanoseconds; bits per second; a word's place; an interface's number.
    pub number: u64,
    /// A number with fractions.
    pub real: f64,
    /// Of type address.
    pub address: [u8; 16],
}

impl Default for Value {
    fn default() -> Value {
        Value { text: std::ptr::null(), length: 0, family: 0, number: 0, real: 0.0, address: [0; 16] }
    }
}

impl Value {
    /// As text.
    pub fn text(&self) -> &str {
        match self.length {
            0 => "",
            // SAFETY: weft has `length` bytes there, which are UTF-8 or else not taken for it.
            length => unsafe { std::str::from_utf8(std::slice::from_raw_parts(self.text, length as usize)).unwrap_or("") },
        }
    }
}

/// What a block does. Only [`Block::process`] is needed, or [`Block::schedule`] if its manifest has [scheduler].
pub trait Block: Default {
    /// Takes up to 64 frames that came in through an input, and gives each a verdict.
    fn process(&mut self, input: u32, frames: &mut [Frame]) {
        let _ = (input, frames);
    }
    /// Which of the subflows gets the next data, by its place, and in `question.bytes` how much; none: none now.
    fn schedule(&self, question: &mut Question, subflows: &[Subflow]) -> Option<usize> {
        let _ = (question, subflows);
        None
    }
    /// It stands in the graph, or edges around it have changed.
    fn started(&mut self) {}
    /// A timer is due.
    fn timer(&mut self, token: u64) {
        let _ = token;
    }
    /// Would this value do for the parameter?
    fn check(&self, parameter: u32, value: &Value) -> bool {
        let _ = (parameter, value);
        true
    }
    /// The parameter has this value now.
    fn set(&mut self, parameter: u32, value: &Value) {
        let _ = (parameter, value);
    }
    /// Its state.
    fn export(&self) -> Vec<u8> {
        Vec::new()
    }
    /// Takes over state of this state_version; false: it does not.
    fn import(&mut self, version: u32, bytes: &[u8]) -> bool {
        let _ = (version, bytes);
        false
    }
}

#[cfg(target_arch = "wasm32")]
mod host {
    #[link(wasm_import_module = "weft")]
    extern "C" {
        pub fn now() -> u64;
        pub fn random() -> u64;
        pub fn set_timer(token: u64, delay_ns: u64);
        pub fn cancel_timer(token: u64);
        pub fn count(counter: u32, by: u64);
        pub fn emit(port: u32, frame: *const super::Frame);
        pub fn say(text: *const u8, length: u32);
    }
}

#[cfg(not(target_arch = "wasm32"))]
mod host {
    use std::cell::RefCell;
    thread_local! { pub static COUNTED: RefCell<[u64; 64]> = const { RefCell::new([0; 64]) }; }
    pub unsafe fn now() -> u64 {
        0
    }
    pub unsafe fn random() -> u64 {
        4
    }
    pub unsafe fn set_timer(_token: u64, _delay_ns: u64) {}
    pub unsafe fn cancel_timer(_token: u64) {}
    pub unsafe fn count(counter: u32, by: u64) {
        COUNTED.with(|counted| counted.borrow_mut()[counter as usize] += by);
    }
    pub unsafe fn emit(_port: u32, _frame: *const super::Frame) {}
    pub unsafe fn say(_text: *const u8, _length: u32) {}
}

/// In tests: what a counter has been counted up to on this thread.
#[cfg(not(target_arch = "wasm32"))]
pub fn counted(counter: usize) -> u64 {
    host::COUNTED.with(|counted| counted.borrow()[counter])
}

/// The node's time, ns.
pub fn now() -> u64 {
    // SAFETY: it takes nothing; so it is with the rest, which take numbers, or what lives until they return.
    unsafe { host::now() }
}
/// A random number from the block's own stream.
pub fn random() -> u64 {
    // SAFETY: see `now`.
    unsafe { host::random() }
}
/// Calls [`Block::timer`] after so long.
pub fn set_timer(token: u64, delay_ns: u64) {
    // SAFETY: see `now`.
    unsafe { host::set_timer(token, delay_ns) }
}
/// Takes a timer back.
pub fn cancel_timer(token: u64) {
    // SAFETY: see `now`.
    unsafe { host::cancel_timer(token) }
}
/// Adds to a counter, by its place in the manifest.
pub fn count(counter: u32, by: u64) {
    // SAFETY: see `now`.
    unsafe { host::count(counter, by) }
}
/// Gives out a frame with these bytes; what weft is to know of it stands in `frame`.
pub fn emit(port: u32, frame: &mut Frame, bytes: &mut [u8]) {
    (frame.data, frame.length) = (bytes.as_mut_ptr(), bytes.len() as u32);
    // SAFETY: see `now`.
    unsafe { host::emit(port, frame) }
    (frame.data, frame.length) = (std::ptr::null_mut(), 0);
}
/// Raises the alert `said`.
pub fn say(text: &str) {
    // SAFETY: see `now`.
    unsafe { host::say(text.as_ptr(), text.len() as u32) }
}

/// Exports a type that implements [`Block`], with its manifest. Once in a crate.
#[macro_export]
macro_rules! block_of {
    ($block:ident, $manifest:expr) => {
        mod exported {
            use super::weft::{Block, Frame, Question, Subflow, Value, INTERFACE};
            type Mine = super::$block;
            const MANIFEST: &str = concat!($manifest, "\0");

            // SAFETY (of all of them): weft gives back the pointer that weft_block_new returned, to one call at a time, and pointers to what their lengths say.
            #[no_mangle]
            extern "C" fn weft_block_interface() -> u32 {
                INTERFACE
            }
            #[no_mangle]
            extern "C" fn weft_block_manifest() -> *const u8 {
                MANIFEST.as_ptr()
            }
            #[no_mangle]
            extern "C" fn weft_block_new() -> *mut Mine {
                Box::into_raw(Box::default())
            }
            #[no_mangle]
            unsafe extern "C" fn weft_block_process(this: *mut Mine, input: u32, frames: *mut Frame, count: u32) {
                (*this).process(input, std::slice::from_raw_parts_mut(frames, count as usize));
            }
            #[no_mangle]
            unsafe extern "C" fn weft_block_schedule(this: *mut Mine, question: *mut Question, subflows: *const Subflow, count: u32) -> i32 {
                let place = (*this).schedule(&mut *question, std::slice::from_raw_parts(subflows, count as usize));
                place.map_or(-1, |place| place as i32)
            }
            #[no_mangle]
            unsafe extern "C" fn weft_block_started(this: *mut Mine) {
                (*this).started();
            }
            #[no_mangle]
            unsafe extern "C" fn weft_block_timer(this: *mut Mine, token: u64) {
                (*this).timer(token);
            }
            #[no_mangle]
            unsafe extern "C" fn weft_block_check(this: *mut Mine, parameter: u32, value: *const Value) -> i32 {
                i32::from(!(*this).check(parameter, &*value))
            }
            #[no_mangle]
            unsafe extern "C" fn weft_block_set(this: *mut Mine, parameter: u32, value: *const Value) {
                (*this).set(parameter, &*value);
            }
            #[no_mangle]
            unsafe extern "C" fn weft_block_export(this: *mut Mine, bytes: *mut u8, room: u32) -> u32 {
                let state = (*this).export();
                if state.len() <= room as usize {
                    std::ptr::copy_nonoverlapping(state.as_ptr(), bytes, state.len());
                }
                state.len() as u32
            }
            #[no_mangle]
            unsafe extern "C" fn weft_block_import(this: *mut Mine, version: u32, bytes: *const u8, length: u32) -> i32 {
                i32::from(!(*this).import(version, std::slice::from_raw_parts(bytes, length as usize)))
            }
        }
    };
}
pub use block_of as block;
