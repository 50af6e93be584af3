//! Blocks as native objects: trusted code in weft's own process, through the C interface of include/weft-block.h.
//!
//! Nothing isolates it: what it breaks is broken for weft, too. What it gives back is checked all the same, as any block's. An object is never unloaded: code
//! may still run in threads and handlers of its own. It is loaded from a copy, so that a file that is built anew neither changes what runs nor is taken for what
//! was loaded before.
//!
//! Loading it runs its constructors. So the file is read first, and nothing of an object runs that is no block, or one of another interface.

use crate::INTERFACE_VERSION;
use crate::exchange::{self, Record, Said};
use crate::guest::{Effects, Frames, Given, Guest, GuestBlock, STATE_BYTES_MAX};
use crate::manifest::{self, BYTES_MAX, MANIFEST_BYTES_MAX, Manifest, Runs};
use crate::question::{Asked, Raw, Subflow};
use libloading::Library;
use object::{Object as _, ObjectSection as _, ObjectSymbol as _};
use std::cell::Cell;
use std::ffi::{c_char, c_void};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use weft_core::schedule::Question;
use weft_core::{Duration, InPort, Loaded};

/// `weft_frame`
#[repr(C)]
struct NativeFrame {
    data: *mut u8,
    record: Record,
}

/// `weft_value`
#[repr(C)]
struct NativeValue {
    text: *const c_char,
    length: u32,
    family: u32,
    number: u64,
    real: f64,
    address: [u8; 16],
}

/// `weft_host`
#[repr(C)]
struct NativeHost {
    interface: u32,
    reserved: u32,
    now: extern "C" fn() -> u64,
    random: extern "C" fn() -> u64,
    set_timer: extern "C" fn(u64, u64),
    cancel_timer: extern "C" fn(u64),
    count: extern "C" fn(u32, u64),
    emit: unsafe extern "C" fn(u32, *const NativeFrame),
    say: unsafe extern "C" fn(*const c_char, u32),
}

type Interface = unsafe extern "C" fn() -> u32;
type Host = unsafe extern "C" fn(*const NativeHost);
type Text = unsafe extern "C" fn() -> *const c_char;
type New = unsafe extern "C" fn() -> *mut c_void;
type Process = unsafe extern "C" fn(*mut c_void, u32, *mut NativeFrame, u32);
type Plain = unsafe extern "C" fn(*mut c_void);
type Timer = unsafe extern "C" fn(*mut c_void, u64);
type Check = unsafe extern "C" fn(*mut c_void, u32, *const NativeValue) -> i32;
type Set = unsafe extern "C" fn(*mut c_void, u32, *const NativeValue);
type Export = unsafe extern "C" fn(*mut c_void, *mut u8, u32) -> u32;
type Import = unsafe extern "C" fn(*mut c_void, u32, *const u8, u32) -> i32;
type Schedule = unsafe extern "C" fn(*mut c_void, *mut Asked, *const Subflow, u32) -> i32;

/// The functions of an object.
#[derive(Clone, Copy)]
struct Functions {
    new: New,
    process: Option<Process>,
    free: Option<Plain>,
    started: Option<Plain>,
    timer: Option<Timer>,
    check: Option<Check>,
    set: Option<Set>,
    export: Option<Export>,
    import: Option<Import>,
    schedule: Option<Schedule>,
}

/// What the functions that an object may call work on, while it is called.
struct Call<'a> {
    fx: &'a mut Effects,
    manifest: &'a Manifest,
    refused: Option<String>,
}

thread_local! {
    static CALL: Cell<*mut Call<'static>> = const { Cell::new(ptr::null_mut()) };
}

/// What is asked outside of a call has no answer.
fn with_call<R>(otherwise: R, f: impl FnOnce(&mut Call<'static>) -> R) -> R {
    let call = CALL.get();
    // SAFETY: it is set only by `Native::call`, for as long as the call that it points to lives, and nobody else has it on this thread meanwhile: `Native::call`
    // does not touch it while the object runs, and none of the functions below calls back into the object.
    if call.is_null() { otherwise } else { f(unsafe { &mut *call }) }
}

fn noted(result: impl FnOnce(&mut Effects, &Manifest) -> Result<(), String>) {
    with_call((), |call| {
        if let Err(why) = result(call.fx, call.manifest) {
            call.refused.get_or_insert(why);
        }
    });
}

extern "C" fn now() -> u64 {
    with_call(0, |call| call.fx.now.as_nanos())
}
extern "C" fn random() -> u64 {
    with_call(0, |call| call.fx.rng.u64())
}
extern "C" fn set_timer(token: u64, delay_ns: u64) {
    noted(|fx, _| fx.timer(token, Some(Duration::from_nanos(delay_ns))));
}
extern "C" fn cancel_timer(token: u64) {
    noted(|fx, _| fx.timer(token, None));
}
extern "C" fn count(counter: u32, by: u64) {
    noted(|fx, manifest| fx.count(manifest, counter, by));
}
unsafe extern "C" fn emit(port: u32, frame: *const NativeFrame) {
    noted(|fx, manifest| {
        if frame.is_null() {
            return Err("gave out a frame that is none".to_owned());
        }
        // SAFETY: weft-block.h asks for a frame with `length` bytes at `data`, and a native object is trusted to keep to it.
        let (data, record) = unsafe { ((*frame).data, (*frame).record) };
        if record.length > BYTES_MAX || (data.is_null() && record.length > 0) {
            return Err(format!("gave out a frame of {} bytes, at most {BYTES_MAX}", record.length));
        }
        let bytes = match record.length {
            0 => &[][..],
            // SAFETY: as above.
            length => unsafe { std::slice::from_raw_parts(data, length as usize) },
        };
        fx.emit(manifest, port, record.made(bytes)?)
    });
}
unsafe extern "C" fn say(text: *const c_char, length: u32) {
    if !text.is_null() {
        // SAFETY: weft-block.h asks for `length` bytes at `text`.
        let text = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), length as usize) };
        with_call((), |call| call.fx.say(text));
    }
}

static HOST: NativeHost = NativeHost { interface: INTERFACE_VERSION, reserved: 0, now, random, set_timer, cancel_timer, count, emit, say };

/// A block of an object.
struct Native {
    /// The object's own pointer to its state.
    this: *mut c_void,
    functions: Functions,
    manifest: Manifest,
    frames: Vec<NativeFrame>,
}

// SAFETY: weft makes one call at a time into a block, from whatever thread; weft-block.h says so to those who write them.
unsafe impl Send for Native {}

/// The bytes as a file that nobody else has, in memory as an object.
fn open(content: &[u8]) -> Result<&'static Library, String> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let write = || -> std::io::Result<PathBuf> {
        loop {
            let name = format!("weft-block-{}-{}.so", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
            let path = std::env::temp_dir().join(name);
            match std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
                Ok(mut file) => return file.write_all(content).map(|()| path),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    };
    let path = write().map_err(|error| format!("no copy of it could be made in {}: {error}", std::env::temp_dir().display()))?;
    // SAFETY: constructors of the object run here, of a block of this interface. Whoever loads one trusts it: docs/plugins.md.
    let library = unsafe { Library::new(&path) };
    let _ = std::fs::remove_file(&path);
    let library = library
        .map_err(|error| format!("it is no object that runs here: {}", plainly(&error).replace(&path.display().to_string(), "it")))?;
    Ok(Box::leak(Box::new(library)))
}

/// The data that tells an object's version of the interface.
const INTERFACE_NUMBER: &str = "weft_block_interface_number";
/// Functions that every block has.
const NEEDED: [&str; 4] = ["weft_block_interface", "weft_block_host", "weft_block_manifest", "weft_block_new"];
/// Functions of which every block has one: the first, if it has inputs.
const PROCESS: &str = "weft_block_process";
const SCHEDULE: &str = "weft_block_schedule";

fn missing(name: &str) -> String {
    format!("it has no {name}: is it a block, and does its source say WEFT_BLOCK(…)?")
}

/// Looks at an object as at any file: is it a block of this interface?
///
/// # Errors
/// Why it is none.
fn look(content: &[u8]) -> Result<(), String> {
    let none = |error: object::Error| format!("it is no object that runs here: {error}");
    let file = object::File::parse(content).map_err(none)?;
    let find = |name: &str| file.dynamic_symbols().find(|symbol| symbol.is_definition() && symbol.name() == Ok(name));
    let does_nothing = find(PROCESS).is_none() && find(SCHEDULE).is_none();
    let absent = NEEDED.into_iter().filter(|name| find(name).is_none());
    let functions = absent.chain(does_nothing.then_some(PROCESS)).collect::<Vec<_>>();
    // Who has the function and not the number was built before there was one.
    let number = match (find(INTERFACE_NUMBER), functions.as_slice()) {
        (Some(number), _) => number,
        (None, []) => return Err(format!("it has no {INTERFACE_NUMBER}: build it anew with this weft's weft-block.h")),
        (None, [first, ..]) => return Err(missing(first)),
    };
    let section = number.section_index().and_then(|index| file.section_by_index(index).ok());
    let bytes = section.and_then(|section| section.data_range(number.address(), 4).ok().flatten());
    let bytes = bytes.and_then(|bytes| bytes.try_into().ok()).ok_or_else(|| format!("its {INTERFACE_NUMBER} is not in the file"))?;
    let version = if file.is_little_endian() { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) };
    if version != INTERFACE_VERSION {
        return Err(crate::wrong_interface(version));
    }
    functions.first().map_or(Ok(()), |first| Err(missing(first)))
}

/// What the system says, which is behind what libloading says.
fn plainly(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), |source| source.to_string())
}

fn function<F: Copy>(library: &'static Library, name: &str) -> Option<F> {
    // SAFETY: the types of all functions are those of weft-block.h; an object that declares others under these names is broken, and trusted.
    unsafe { library.get::<F>(name).ok().map(|symbol| *symbol) }
}

/// Reads an object: its manifest, and how to make blocks of it.
///
/// # Errors
/// Why it is no block.
pub fn load(content: &[u8], build: &str) -> Result<Loaded, String> {
    look(content)?;
    let library = open(content)?;
    let interface: Interface = function(library, "weft_block_interface").ok_or_else(|| missing("weft_block_interface"))?;
    // SAFETY: it takes nothing and returns a number, in every version of the interface.
    let version = unsafe { interface() };
    if version != INTERFACE_VERSION {
        return Err(crate::wrong_interface(version));
    }
    let host: Host = function(library, "weft_block_host").ok_or_else(|| missing("weft_block_host"))?;
    let text: Text = function(library, "weft_block_manifest").ok_or_else(|| missing("weft_block_manifest"))?;
    let functions = Functions {
        new: function(library, "weft_block_new").ok_or_else(|| missing("weft_block_new"))?,
        process: function(library, PROCESS),
        free: function(library, "weft_block_free"),
        started: function(library, "weft_block_started"),
        timer: function(library, "weft_block_timer"),
        check: function(library, "weft_block_check"),
        set: function(library, "weft_block_set"),
        export: function(library, "weft_block_export"),
        import: function(library, "weft_block_import"),
        schedule: function(library, SCHEDULE),
    };
    // SAFETY: the object keeps the pointer for as long as it is there; what it points to is static.
    unsafe { host(&raw const HOST) };
    let manifest = manifest::read(&manifest_text(text)?, build, Runs::Native)?;
    if manifest.kind.state_version > 0 && (functions.export.is_none() || functions.import.is_none()) {
        return Err("its manifest has a state_version, and it has no weft_block_export or weft_block_import".to_owned());
    }
    if manifest.scheduler.is_some() && functions.schedule.is_none() {
        return Err(format!("its manifest has [scheduler], and it has no {SCHEDULE}"));
    }
    // One that only schedules has nothing to do with frames.
    if functions.process.is_none() && (!manifest.kind.inputs.is_empty() || manifest.scheduler.is_none()) {
        return Err(missing(PROCESS));
    }
    let make = move |config: &mut weft_core::Config| {
        let failed = |why: &str| weft_core::ControlError::World {
            why: format!("a block of kind '{}' does not start: {why}", manifest.kind.name).into(),
        };
        let mut native = Native { this: ptr::null_mut(), functions, manifest, frames: Vec::new() };
        let mut fx = Effects::of(config.rng.clone());
        // SAFETY: it takes nothing.
        native.this = native.call(&mut fx, |_| unsafe { (functions.new)() }).map_err(|why| failed(&why))?;
        if native.this.is_null() {
            return Err(failed("weft_block_new() returned nothing"));
        }
        let block: Box<dyn weft_core::Block> = Box::new(GuestBlock::new(manifest, Box::new(native), config)?);
        Ok(block)
    };
    Ok(Loaded { kind: manifest.kind, make: Arc::new(make) })
}

fn manifest_text(text: Text) -> Result<String, String> {
    // SAFETY: it takes nothing and returns text that ends with a zero, or null.
    let text = unsafe { text() };
    if text.is_null() {
        return Err("it has no manifest".to_owned());
    }
    // SAFETY: as above; it lives as long as the object, which is for good.
    let text = unsafe { std::ffi::CStr::from_ptr(text) }.to_bytes();
    if text.len() > MANIFEST_BYTES_MAX {
        return Err(format!("its manifest has {} bytes, at most {MANIFEST_BYTES_MAX}", text.len()));
    }
    std::str::from_utf8(text).map(str::to_owned).map_err(|_| "its manifest is no UTF-8".to_owned())
}

impl Native {
    /// Calls into the object, which may call weft meanwhile.
    fn call<R>(&mut self, fx: &mut Effects, f: impl FnOnce(&mut Native) -> R) -> Result<R, String> {
        let manifest = self.manifest;
        let mut call = Call { fx, manifest: &manifest, refused: None };
        let before = CALL.replace((&raw mut call).cast());
        let result = f(self);
        CALL.set(before);
        call.refused.map_or(Ok(result), |why| Err(format!("it {why}")))
    }
}

fn value(given: &Given) -> NativeValue {
    NativeValue {
        text: given.text.as_ptr().cast(),
        length: given.text.len() as u32,
        family: given.address.1,
        number: given.number,
        real: given.real,
        address: given.address.0,
    }
}

impl Guest for Native {
    fn process(&mut self, port: InPort, frames: &mut Frames<'_>, said: &mut Vec<Said>, fx: &mut Effects) -> Result<(), String> {
        let Some(process) = self.functions.process else { return Err("it has no inputs".to_owned()) };
        let bytes_max = self.manifest.bytes_max;
        self.frames.clear();
        for frame in frames.iter_mut() {
            let visible = exchange::visible(frame, bytes_max);
            // The block edits the frame's own bytes.
            let _ = frame.pull_up(visible);
            let record = Record::of(frame, visible, visible);
            self.frames.push(NativeFrame { data: frame.head_mut().as_mut_ptr(), record });
        }
        let count = self.frames.len() as u32;
        self.call(fx, |native| {
            let Native { this, frames, .. } = native;
            // SAFETY: `count` frames with `length` bytes at `data` each, which nobody else looks at until it returns.
            unsafe { process(*this, u32::from(port.0), frames.as_mut_ptr(), count) };
        })?;
        for (index, (native, frame)) in self.frames.iter().zip(frames.iter()).enumerate() {
            let visible = exchange::visible(frame, bytes_max);
            match native.record.verdict(&self.manifest, visible, visible, frame.len()) {
                Ok(verdict) => said.push(verdict),
                Err(why) => {
                    said.clear();
                    return Err(format!("it {why} (frame {index} of {count})"));
                }
            }
        }
        for (native, frame) in self.frames.iter().zip(frames.iter_mut()) {
            let record = &native.record;
            if record.edited != 0 {
                record.apply(frame, exchange::visible(frame, bytes_max), None);
                if record.edited & exchange::EDITED_BYTES != 0 && (record.length as usize) < exchange::visible(frame, bytes_max) {
                    frame.truncate(record.length as usize);
                }
            }
        }
        Ok(())
    }

    fn timer(&mut self, token: u64, fx: &mut Effects) -> Result<(), String> {
        let Some(timer) = self.functions.timer else { return Ok(()) };
        // SAFETY: the pointer is what the object returned for this block.
        self.call(fx, |native| unsafe { timer(native.this, token) })
    }

    fn started(&mut self, fx: &mut Effects) -> Result<(), String> {
        let Some(started) = self.functions.started else { return Ok(()) };
        // SAFETY: as above.
        self.call(fx, |native| unsafe { started(native.this) })
    }

    fn check(&mut self, index: usize, given: &Given, fx: &mut Effects) -> Result<Result<(), String>, String> {
        let Some(check) = self.functions.check else { return Ok(Ok(())) };
        let value = value(given);
        // SAFETY: as above; the value lives until it returns.
        let refused = self.call(fx, |native| unsafe { check(native.this, index as u32, &raw const value) })?;
        Ok(if refused == 0 { Ok(()) } else { Err(format!("the block does not take '{}' ({refused})", given.text)) })
    }

    fn set(&mut self, index: usize, given: &Given, fx: &mut Effects) -> Result<(), String> {
        let Some(set) = self.functions.set else { return Ok(()) };
        let value = value(given);
        // SAFETY: as above.
        self.call(fx, |native| unsafe { set(native.this, index as u32, &raw const value) })
    }

    fn export(&mut self, fx: &mut Effects) -> Result<Vec<u8>, String> {
        let Some(export) = self.functions.export else { return Ok(Vec::new()) };
        let mut bytes = vec![0; STATE_BYTES_MAX];
        // SAFETY: there is room for as much as it is told.
        let length = self.call(fx, |native| unsafe { export(native.this, bytes.as_mut_ptr(), STATE_BYTES_MAX as u32) })? as usize;
        if length > STATE_BYTES_MAX {
            return Err(format!("it exported {length} bytes of state, at most {STATE_BYTES_MAX}"));
        }
        bytes.truncate(length);
        Ok(bytes)
    }

    fn import(&mut self, version: u32, bytes: &[u8], fx: &mut Effects) -> Result<Result<(), String>, String> {
        let Some(import) = self.functions.import else { return Ok(Err("it takes over no state".to_owned())) };
        // SAFETY: the bytes live until it returns.
        let refused = self.call(fx, |native| unsafe { import(native.this, version, bytes.as_ptr(), bytes.len() as u32) })?;
        Ok(if refused == 0 { Ok(()) } else { Err(format!("the block does not take it ({refused})")) })
    }

    fn schedule(&mut self, question: &Question, fx: &mut Effects) -> Result<Raw, String> {
        let Some(schedule) = self.functions.schedule else { return Err("it is no scheduler".to_owned()) };
        let subflows: Vec<Subflow> = question.subflows.iter().map(Subflow::of).collect();
        let mut asked = Asked::of(question);
        let count = subflows.len() as u32;
        // SAFETY: as above; the question and `count` subflows live until it returns, and nobody else looks at them.
        let place = self.call(fx, |native| unsafe { schedule(native.this, &raw mut asked, subflows.as_ptr(), count) })?;
        Ok(asked.raw(place))
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        if let Some(free) = self.functions.free
            && !self.this.is_null()
        {
            // SAFETY: nobody has the pointer any more.
            unsafe { free(self.this) };
        }
    }
}
