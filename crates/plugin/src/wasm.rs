//! Blocks as WebAssembly: isolated, with fuel and memory for so much and no more, and the same results everywhere.
//!
//! An interpreter (wasmi) and no compiler: fuel, traps and results are the same on every kind of processor, and for blocks that look at headers what it
//! costs to get into and out of a module matters more than what it computes there. See docs/plugins.md for the interface.

use crate::INTERFACE_VERSION;
use crate::exchange::{self, RECORD_BYTES, Record, Said};
use crate::guest::{Effects, Frames, Given, Guest, GuestBlock, STATE_BYTES_MAX};
use crate::manifest::{self, FUEL_MAX, MANIFEST_BYTES_MAX, MEMORY_MAX_BYTES, Manifest, Runs};
use crate::question::{Asked, QUESTION_BYTES, Raw, Subflow};
use std::sync::{Arc, OnceLock};
use wasmi::errors::ErrorKind;
use wasmi::{
    Caller, CompilationMode, Config, EnforcedLimits, Engine, Error, Instance, Linker, Memory, Module, Store, StoreLimits,
    StoreLimitsBuilder, TrapCode, TypedFunc, WasmParams, WasmResults,
};
use weft_core::schedule::Question;
use weft_core::{Duration, InPort, Loaded, Rng};

/// Largest module, bytes.
pub const MODULE_BYTES_MAX: usize = 16 << 20;
/// Bytes of a module's memory.
const PAGE_BYTES: usize = 65_536;
/// Memory through which frames come and go: weft adds it to the module's. A frame of [`manifest::BYTES_MAX`] fits.
const AREA_PAGES: u64 = 4;
const AREA_BYTES: usize = AREA_PAGES as usize * PAGE_BYTES;
/// Bytes of a `weft_frame`: a pointer of 4 bytes, and the record.
const FRAME_BYTES: usize = 4 + RECORD_BYTES;
/// What a frame may grow by.
const ROOM_BYTES: usize = 64;
/// Most names that a module imports or exports: each costs something whenever a block is made of it.
const NAMES_MAX: usize = 10_000;
/// What a block may use before it has parameters.
const FUEL_FIRST: u64 = 20_000_000;
const MEMORY_FIRST: usize = 64 << 20;

/// What the functions that a module may call work on.
struct Host {
    manifest: Option<Manifest>,
    fx: Effects,
    limits: StoreLimits,
    /// Why one of those functions ended the call.
    refused: Option<String>,
}

/// A module that runs.
struct Wasm {
    store: Store<Host>,
    memory: Memory,
    memory_max: usize,
    /// Where the area begins.
    area: usize,
    /// The module's own pointer to its state.
    this: i32,
    fuel: u64,
    manifest: Manifest,
    process: Option<TypedFunc<(i32, i32, i32, i32), ()>>,
    timer: Option<TypedFunc<(i32, i64), ()>>,
    started: Option<TypedFunc<i32, ()>>,
    check: Option<TypedFunc<(i32, i32, i32), i32>>,
    set: Option<TypedFunc<(i32, i32, i32), ()>>,
    export: Option<TypedFunc<(i32, i32, i32), i32>>,
    import: Option<TypedFunc<(i32, i32, i32, i32), i32>>,
    schedule: Option<TypedFunc<(i32, i32, i32, i32), i32>>,
    bytes: Vec<u8>,
}

fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| {
        let mut config = Config::default();
        config.consume_fuel(true).compilation_mode(CompilationMode::Eager).wasm_multi_memory(false);
        // 10,000 functions of 40 bytes or more on average, 1,000 globals and segments: a module costs what its bytes cost, to read and each time
        // that a block is made of it.
        config.enforced_limits(EnforcedLimits::strict());
        Engine::new(&config)
    })
}

fn host_error(caller: &mut Caller<'_, Host>, why: String) -> Error {
    caller.data_mut().refused = Some(why);
    Error::from(TrapCode::UnreachableCodeReached)
}

/// What a module may call.
fn linker(engine: &Engine) -> Result<Linker<Host>, Error> {
    let mut linker = Linker::new(engine);
    let module = "weft";
    linker.func_wrap(module, "now", |caller: Caller<'_, Host>| caller.data().fx.now.as_nanos() as i64)?;
    linker.func_wrap(module, "random", |mut caller: Caller<'_, Host>| caller.data_mut().fx.rng.u64() as i64)?;
    linker.func_wrap(module, "set_timer", |mut caller: Caller<'_, Host>, token: i64, delay: i64| {
        let after = Duration::from_nanos(delay as u64);
        caller.data_mut().fx.timer(token as u64, Some(after)).map_err(|why| host_error(&mut caller, why))
    })?;
    linker.func_wrap(module, "cancel_timer", |mut caller: Caller<'_, Host>, token: i64| {
        caller.data_mut().fx.timer(token as u64, None).map_err(|why| host_error(&mut caller, why))
    })?;
    linker.func_wrap(module, "count", |mut caller: Caller<'_, Host>, counter: i32, by: i64| {
        let Host { manifest, fx, .. } = caller.data_mut();
        let Some(manifest) = manifest else { return Ok(()) };
        fx.count(manifest, counter as u32, by as u64).map_err(|why| host_error(&mut caller, why))
    })?;
    linker.func_wrap(module, "emit", |mut caller: Caller<'_, Host>, port: i32, frame: i32| {
        emit(&mut caller, port, frame).map_err(|why| host_error(&mut caller, why))
    })?;
    linker.func_wrap(module, "say", |mut caller: Caller<'_, Host>, text: i32, length: i32| {
        let Some(memory) = caller.get_export("memory").and_then(|export| export.into_memory()) else { return };
        let (bytes, host) = memory.data_and_store_mut(&mut caller);
        let (at, length) = (text as u32 as usize, length as u32 as usize);
        if let Some(text) = at.checked_add(length).and_then(|end| bytes.get(at..end)) {
            host.fx.say(text);
        }
    })?;
    Ok(linker)
}

fn emit(caller: &mut Caller<'_, Host>, port: i32, frame: i32) -> Result<(), String> {
    let memory = caller.get_export("memory").and_then(|export| export.into_memory()).ok_or("it exports no memory")?;
    let (bytes, host) = memory.data_and_store_mut(caller);
    let (data, record) = record_at(bytes, frame as u32 as usize).ok_or("gave out a frame that is not in its memory")?;
    let end = data.checked_add(record.length as usize);
    let content = end.and_then(|end| bytes.get(data..end)).filter(|content| content.len() <= manifest::BYTES_MAX as usize);
    let content = content.ok_or("gave out a frame whose bytes are not in its memory, or are more than 65536")?;
    let Some(manifest) = host.manifest else { return Ok(()) };
    host.fx.emit(&manifest, port as u32, record.made(content)?)
}

/// A `weft_frame` in memory: its pointer and its record.
fn record_at(memory: &[u8], at: usize) -> Option<(usize, Record)> {
    let (data, rest) = memory.get(at..at.checked_add(FRAME_BYTES)?)?.split_first_chunk::<4>()?;
    Some((u32::from_le_bytes(*data) as usize, Record::from_bytes(rest.first_chunk()?)))
}

/// Where the text of an error of the interpreter begins that says more than "error".
fn plainly(error: &Error, fuel: u64, memory: Option<String>) -> String {
    match error.kind() {
        ErrorKind::TrapCode(TrapCode::OutOfFuel) => format!("it used up its fuel of {fuel} in one call: does it loop for ever? (fuel_max)"),
        ErrorKind::TrapCode(TrapCode::GrowthOperationLimited) => {
            memory.unwrap_or_else(|| "it wanted more memory than it may have".to_owned())
        }
        ErrorKind::TrapCode(code) => format!("it trapped: {code}"),
        _ => format!("it trapped: {error}"),
    }
}

/// Reads a module: its manifest, and how to make blocks of it.
///
/// # Errors
/// Why it is no block.
pub fn load(content: &[u8], build: &str) -> Result<Loaded, String> {
    if content.len() > MODULE_BYTES_MAX {
        return Err(format!("it has {} bytes, at most {MODULE_BYTES_MAX}", content.len()));
    }
    let module = Module::new(engine(), content).map_err(|error| format!("it is no WebAssembly that runs here: {error}"))?;
    for (names, what) in [(module.imports().len(), "imports"), (module.exports().count(), "exports")] {
        if names > NAMES_MAX {
            return Err(format!("it has {names} {what}, at most {NAMES_MAX}"));
        }
    }
    let mut begun = begin(&module, MEMORY_FIRST)?;
    let text = begun.manifest()?;
    let manifest = manifest::read(&text, build, Runs::Wasm)?;
    begun.complete(manifest, Rng::for_name(0, "load"), FUEL_FIRST)?;
    let module = Arc::new(module);
    let make = move |config: &mut weft_core::Config| {
        let memory = config.u64(MEMORY_MAX_BYTES) as usize;
        let fuel = config.u64(FUEL_MAX);
        let guest = begin(&module, memory).and_then(|begun| begun.complete(manifest, config.rng.clone(), fuel));
        let guest = guest.map_err(|why| weft_core::ControlError::World {
            why: format!("a block of kind '{}' does not start: {why}", manifest.kind.name).into(),
        })?;
        let block: Box<dyn weft_core::Block> = Box::new(GuestBlock::new(manifest, Box::new(guest), config)?);
        Ok(block)
    };
    Ok(Loaded { kind: manifest.kind, make: Arc::new(make) })
}

/// A module with memory, before anybody knows what it is.
struct Begun {
    store: Store<Host>,
    instance: Instance,
    memory: Memory,
    memory_max: usize,
}

fn begin(module: &Module, memory_max: usize) -> Result<Begun, String> {
    // The area is weft's: it does not count.
    let limits = StoreLimitsBuilder::new().memory_size(memory_max + AREA_BYTES).table_elements(65_536).trap_on_grow_failure(true).build();
    let host = Host { manifest: None, fx: Effects::none(), limits, refused: None };
    let mut store = Store::new(engine(), host);
    store.limiter(|host| &mut host.limits);
    let failed = |error: Error| match error.kind() {
        ErrorKind::Linker(_) => format!("it wants what weft does not have: {error}"),
        _ => plainly(&error, FUEL_FIRST, Some(too_much(memory_max))),
    };
    store.set_fuel(FUEL_FIRST).map_err(|error| error.to_string())?;
    let linker = linker(engine()).map_err(|error| error.to_string())?;
    let instance = linker.instantiate_and_start(&mut store, module).map_err(failed)?;
    let memory = instance.get_memory(&store, "memory").ok_or("it exports no memory called 'memory'")?;
    // What modules of the reactor's shape call to run constructors.
    if let Ok(initialize) = instance.get_typed_func::<(), ()>(&store, "_initialize") {
        initialize.call(&mut store, ()).map_err(failed)?;
    }
    let found = instance.get_typed_func::<(), i32>(&store, "weft_block_interface");
    let found = found.map_err(|_| "it is WebAssembly, but no block: it exports no weft_block_interface() -> i32".to_owned())?;
    let version = found.call(&mut store, ()).map_err(failed)? as u32;
    if version != INTERFACE_VERSION {
        return Err(crate::wrong_interface(version));
    }
    Ok(Begun { store, instance, memory, memory_max })
}

fn too_much(memory_max: usize) -> String {
    format!("it wanted more than {memory_max} bytes of memory (memory_max_bytes)")
}

impl Begun {
    fn export<P: WasmParams, R: WasmResults>(&self, name: &str) -> Result<Option<TypedFunc<P, R>>, String> {
        match self.instance.get_func(&self.store, name) {
            None => Ok(None),
            Some(func) => func.typed(&self.store).map(Some).map_err(|_| format!("its {name} has other parameters than weft-block.h says")),
        }
    }

    fn needed<P: WasmParams, R: WasmResults>(&self, name: &str) -> Result<TypedFunc<P, R>, String> {
        self.export(name)?.ok_or_else(|| format!("it exports no {name}"))
    }

    fn manifest(&mut self) -> Result<String, String> {
        let manifest = self.needed::<(), i32>("weft_block_manifest")?;
        let at = manifest.call(&mut self.store, ()).map_err(|error| plainly(&error, FUEL_FIRST, None))? as u32 as usize;
        let bytes = self.memory.data(&self.store).get(at..).unwrap_or_default();
        let bytes = &bytes[..bytes.len().min(MANIFEST_BYTES_MAX + 1)];
        let end = bytes
            .iter()
            .position(|byte| *byte == 0)
            .ok_or("its manifest does not end: weft_block_manifest() points at text that ends with a zero")?;
        std::str::from_utf8(&bytes[..end]).map(str::to_owned).map_err(|_| "its manifest is no UTF-8".to_owned())
    }

    fn complete(mut self, manifest: Manifest, rng: Rng, fuel: u64) -> Result<Wasm, String> {
        let pages = self.memory.grow(&mut self.store, AREA_PAGES);
        let area = pages.map_err(|_| format!("its memory cannot grow by the {AREA_PAGES} pages through which frames come and go"))?
            as usize
            * PAGE_BYTES;
        let new = self.needed::<(), i32>("weft_block_new")?;
        // One that only schedules has nothing to do with frames.
        let has_inputs = !manifest.kind.inputs.is_empty() || manifest.scheduler.is_none();
        let mut wasm = Wasm {
            process: if has_inputs { Some(self.needed("weft_block_process")?) } else { None },
            timer: self.export("weft_block_timer")?,
            started: self.export("weft_block_started")?,
            check: self.export("weft_block_check")?,
            set: self.export("weft_block_set")?,
            export: self.export("weft_block_export")?,
            import: self.export("weft_block_import")?,
            schedule: self.export("weft_block_schedule")?,
            store: self.store,
            memory: self.memory,
            memory_max: self.memory_max,
            area,
            this: 0,
            fuel,
            manifest,
            bytes: Vec::new(),
        };
        if manifest.kind.state_version > 0 && (wasm.export.is_none() || wasm.import.is_none()) {
            return Err("its manifest has a state_version, and it exports no weft_block_export or weft_block_import".to_owned());
        }
        if manifest.scheduler.is_some() && wasm.schedule.is_none() {
            return Err("its manifest has [scheduler], and it exports no weft_block_schedule".to_owned());
        }
        wasm.store.data_mut().manifest = Some(manifest);
        wasm.this = wasm.call(&new, (), &mut Effects::of(rng))?;
        Ok(wasm)
    }
}

impl Wasm {
    /// Calls into the module, with fuel for one call.
    fn call<P: WasmParams, R: WasmResults>(&mut self, func: &TypedFunc<P, R>, params: P, fx: &mut Effects) -> Result<R, String> {
        self.store.set_fuel(self.fuel).map_err(|error| error.to_string())?;
        std::mem::swap(&mut self.store.data_mut().fx, fx);
        let result = func.call(&mut self.store, params);
        std::mem::swap(&mut self.store.data_mut().fx, fx);
        result.map_err(|error| match self.store.data_mut().refused.take() {
            Some(why) => format!("it {why}"),
            None => plainly(&error, self.fuel, Some(too_much(self.memory_max))),
        })
    }

    fn area(&mut self) -> Result<&mut [u8], String> {
        self.memory.data_mut(&mut self.store).get_mut(self.area..self.area + AREA_BYTES).ok_or_else(|| "its memory is gone".to_owned())
    }

    /// Writes a `weft_value` to the area.
    fn write_value(&mut self, value: &Given) -> Result<i32, String> {
        const VALUE_BYTES: usize = 48;
        let at = self.area;
        let text = value.text.as_bytes();
        let text = &text[..text.len().min(AREA_BYTES - VALUE_BYTES)];
        let area = self.area()?;
        area[0..4].copy_from_slice(&((at + VALUE_BYTES) as u32).to_le_bytes());
        area[4..8].copy_from_slice(&(text.len() as u32).to_le_bytes());
        area[8..12].copy_from_slice(&value.address.1.to_le_bytes());
        area[12..16].fill(0);
        area[16..24].copy_from_slice(&value.number.to_le_bytes());
        area[24..32].copy_from_slice(&value.real.to_le_bytes());
        area[32..48].copy_from_slice(&value.address.0);
        area[VALUE_BYTES..VALUE_BYTES + text.len()].copy_from_slice(text);
        Ok(at as i32)
    }

    /// Writes as many of the frames to the area as fit; how many.
    fn write_frames(&mut self, frames: &[&mut weft_core::Frame]) -> Result<usize, String> {
        let (base, bytes_max) = (self.area, self.manifest.bytes_max);
        let needs = |frame: &weft_core::Frame| FRAME_BYTES + (exchange::visible(frame, bytes_max) + ROOM_BYTES).next_multiple_of(4);
        let mut sum = 0;
        let count = frames.iter().take_while(|frame| (sum += needs(frame), sum <= AREA_BYTES).1).count();
        let area = self.area()?;
        let mut data = count * FRAME_BYTES;
        for (index, frame) in frames[..count].iter().enumerate() {
            let visible = exchange::visible(frame, bytes_max);
            let record = Record::of(frame, visible, visible + ROOM_BYTES);
            let at = index * FRAME_BYTES;
            area[at..at + 4].copy_from_slice(&((base + data) as u32).to_le_bytes());
            area[at + 4..at + FRAME_BYTES].copy_from_slice(&record.to_bytes());
            exchange::copy_out(frame, &mut area[data..data + visible]);
            data += (visible + ROOM_BYTES).next_multiple_of(4);
        }
        Ok(count)
    }

    /// Reads what the module said of the first frames, all of it before any of it is carried out.
    fn read_frames(&mut self, frames: &mut [&mut weft_core::Frame], said: &mut Vec<Said>) -> Result<(), String> {
        let (manifest, base) = (self.manifest, self.area);
        let mut bytes = std::mem::take(&mut self.bytes);
        let area = self.area()?;
        let begin = said.len();
        let mut data = frames.len() * FRAME_BYTES;
        for (index, frame) in frames.iter().enumerate() {
            let (visible, total) = (exchange::visible(frame, manifest.bytes_max), frame.len());
            let (pointer, record) = record_at(area, index * FRAME_BYTES).ok_or("its memory is gone")?;
            let verdict =
                record.verdict(&manifest, visible, visible + ROOM_BYTES, total).and_then(|verdict| match pointer == base + data {
                    true => Ok(verdict),
                    false => Err("moved the pointer to its bytes".to_owned()),
                });
            data += (visible + ROOM_BYTES).next_multiple_of(4);
            match verdict {
                Ok(verdict) => said.push(verdict),
                Err(why) => {
                    said.truncate(begin);
                    return Err(format!("it {why} (frame {index} of {})", frames.len()));
                }
            }
        }
        let mut data = frames.len() * FRAME_BYTES;
        for (index, frame) in frames.iter_mut().enumerate() {
            let visible = exchange::visible(frame, manifest.bytes_max);
            let Some((_, record)) = record_at(area, index * FRAME_BYTES) else { break };
            if record.edited != 0 {
                bytes.clear();
                bytes.extend_from_slice(&area[data..data + (record.length as usize).min(visible + ROOM_BYTES)]);
                record.apply(frame, visible, Some(&bytes));
            }
            data += (visible + ROOM_BYTES).next_multiple_of(4);
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl Guest for Wasm {
    fn process(&mut self, port: InPort, frames: &mut Frames<'_>, said: &mut Vec<Said>, fx: &mut Effects) -> Result<(), String> {
        let Some(process) = self.process else { return Err("it has no inputs".to_owned()) };
        let mut done = 0;
        while done < frames.len() {
            let count = self.write_frames(&frames[done..])?;
            let params = (self.this, i32::from(port.0), self.area as i32, count as i32);
            self.call(&process, params, fx)?;
            self.read_frames(&mut frames[done..done + count], said)?;
            done += count;
        }
        Ok(())
    }

    fn timer(&mut self, token: u64, fx: &mut Effects) -> Result<(), String> {
        self.timer.map_or(Ok(()), |timer| self.call(&timer, (self.this, token as i64), fx))
    }

    fn started(&mut self, fx: &mut Effects) -> Result<(), String> {
        self.started.map_or(Ok(()), |started| self.call(&started, self.this, fx))
    }

    fn check(&mut self, index: usize, value: &Given, fx: &mut Effects) -> Result<Result<(), String>, String> {
        let Some(check) = self.check else { return Ok(Ok(())) };
        let at = self.write_value(value)?;
        let refused = self.call(&check, (self.this, index as i32, at), fx)?;
        Ok(if refused == 0 { Ok(()) } else { Err(format!("the block does not take '{}' ({refused})", value.text)) })
    }

    fn set(&mut self, index: usize, value: &Given, fx: &mut Effects) -> Result<(), String> {
        let Some(set) = self.set else { return Ok(()) };
        let at = self.write_value(value)?;
        self.call(&set, (self.this, index as i32, at), fx)
    }

    fn export(&mut self, fx: &mut Effects) -> Result<Vec<u8>, String> {
        let Some(export) = self.export else { return Ok(Vec::new()) };
        let length = self.call(&export, (self.this, self.area as i32, STATE_BYTES_MAX as i32), fx)? as u32 as usize;
        match length > STATE_BYTES_MAX {
            true => Err(format!("it exported {length} bytes of state, at most {STATE_BYTES_MAX}")),
            false => Ok(self.area()?[..length].to_vec()),
        }
    }

    fn import(&mut self, version: u32, bytes: &[u8], fx: &mut Effects) -> Result<Result<(), String>, String> {
        let Some(import) = self.import else { return Ok(Err("it takes over no state".to_owned())) };
        let Some(place) = self.area()?.get_mut(..bytes.len()) else { return Ok(Err("the state is too large".to_owned())) };
        place.copy_from_slice(bytes);
        let refused = self.call(&import, (self.this, version as i32, self.area as i32, bytes.len() as i32), fx)?;
        Ok(if refused == 0 { Ok(()) } else { Err(format!("the block does not take it ({refused})")) })
    }

    fn schedule(&mut self, question: &Question, fx: &mut Effects) -> Result<Raw, String> {
        let Some(schedule) = self.schedule else { return Err("it is no scheduler".to_owned()) };
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        Asked::of(question).write(&mut bytes);
        question.subflows.iter().for_each(|subflow| Subflow::of(subflow).write(&mut bytes));
        let at = self.area as i32;
        self.area()?.get_mut(..bytes.len()).ok_or("the question is too large")?.copy_from_slice(&bytes);
        self.bytes = bytes;
        let params = (self.this, at, at + QUESTION_BYTES as i32, question.subflows.len() as i32);
        let place = self.call(&schedule, params, fx)?;
        let asked = self.area()?.first_chunk().map(Asked::read).ok_or("its memory is gone")?;
        Ok(asked.raw(place))
    }

    fn limit(&mut self, name: &str, value: u64) {
        if name == FUEL_MAX {
            self.fuel = value;
        }
    }
}
