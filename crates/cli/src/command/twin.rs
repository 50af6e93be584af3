//! `weft twin`

use super::scenario::{Over, Source};
use super::sim::folder;
use super::sim::interrupt::Interrupt;
use crate::complete;
use crate::output::{self, Wide};
use anyhow::Context as _;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use weft_core::Instant;
use weft_core::parameter::parse_duration;
use weft_sim::scenario::Twin;
use weft_sim::sweep::{in_parallel, mean};
use weft_sim::twin::{self, Difference, FRAMES_MAX, Flow, Name, Tolerance, VariantResult};
use weft_sim::{Scenario, World};

/// Run a scenario with weft's stack and with Linux kernels, and show both side by side. Exit status 1: something is not as expected
///
/// What is shown is measured where frames leave and arrive at interfaces, so that it means the same for every stack. Of each direction of a connection: goodput, the
/// bytes that were acknowledged over the time from the first byte to the last acknowledgment; segments with data that were sent again; round trips of segments that
/// were sent once (Karn's rule). Of each direction of a wire: frames, bytes, and frames that were lost on it or in its queue. Congestion windows alone are what stacks
/// say of themselves, at the scenario's `sample`. A flow that carries less than a hundredth of the largest one is not drawn. Then both runs are compared frame by frame
/// at each interface: conversations by their order, sequence numbers by their distance from the first, times by --tolerance.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Scenarios (TOML). All their hosts have weft's stack in variant weft and are Linux kernels in variant linux; [[twins]] in a scenario names more
    #[arg(required = true, value_name = "FILE", add = complete::of_toml_files())]
    files: Vec<PathBuf>,
    /// Only these variants; each is compared with the last one
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    variants: Vec<String>,
    #[command(flatten)]
    over: Over,
    /// Run each variant once for each seed from A to B, and print ratios of goodput with 95 % intervals instead
    #[arg(long, value_name = "A..B", conflicts_with = "seed")]
    seeds: Option<String>,
    /// Frames may be so far apart in time before they count as different
    #[arg(long, value_name = "TIME", default_value = "1ms")]
    tolerance: String,
    /// Compare the receive windows of all segments, and not only of those with SYN
    #[arg(long)]
    windows: bool,
    /// Write table, plot and the results of each variant into this folder; of several scenarios, into one of its folders each [default: twin-SCENARIO]
    #[arg(long, value_name = "DIR", conflicts_with = "seeds")]
    out: Option<PathBuf>,
    /// Variants and seeds that run at a time [default: as many as there are cores]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Print JSON, a line each scenario
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    wide: Wide,
}

/// How often connections are looked at where the scenario does not say.
const SAMPLE_DEFAULT: Duration = Duration::from_millis(50);

/// What came of a variant with a seed.
struct Run {
    variant: usize,
    seed: u64,
    outcome: Result<VariantResult, String>,
}

pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let time = parse_duration(&args.tolerance).map_err(|why| anyhow::anyhow!("--tolerance: {why}\nhelp: write it as 1ms or 250us"))?;
    let tolerance = Tolerance { time, windows: args.windows };
    let seeds = args.seeds.as_deref().map(super::sim::sweep::seeds).transpose()?;
    let folders = folders(args)?;
    let interrupt = Interrupt::catch(false)?;
    let mut status = ExitCode::SUCCESS;
    for (file, out) in args.files.iter().zip(folders) {
        let variants = variants(args, file, &interrupt)?;
        let runs = run_all(args, &variants, seeds.as_deref(), out.as_deref(), &interrupt)?;
        if interrupt.is_set() {
            interrupt.cut();
            return Ok(interrupt.status().unwrap_or(ExitCode::from(1)));
        }
        let mut outcomes = Vec::new();
        for Run { variant, seed, outcome } in runs {
            let name = &variants[variant].0.name;
            let outcome = outcome.map_err(|why| anyhow::anyhow!("{}: variant {name}: {why}", file.display()))?;
            for failure in &outcome.failures {
                tell!("weft: {}: variant {name}, seed {seed}: not as expected: {failure}", file.display());
                status = ExitCode::from(1);
            }
            outcomes.push((name.clone(), seed, outcome));
        }
        match seeds.is_some() {
            true => show_ratios(args, file, &outcomes),
            false => {
                let outcomes = outcomes.into_iter().map(|(name, _, outcome)| (name, outcome)).collect::<Vec<_>>();
                show_one(args, file, &outcomes, tolerance, out.as_deref())?;
            }
        }
    }
    Ok(status)
}

/// Where the results of each scenario go; ratios leave none.
fn folders(args: &Args) -> anyhow::Result<Vec<Option<PathBuf>>> {
    let mut begun: BTreeMap<PathBuf, &Path> = BTreeMap::new();
    let mut folders = Vec::new();
    for file in &args.files {
        let stem = file.file_stem().unwrap_or_default();
        let folder = match (&args.out, args.files.len()) {
            _ if args.seeds.is_some() => None,
            (Some(out), 1) => Some(out.clone()),
            (Some(out), _) => Some(out.join(stem)),
            (None, _) => Some(PathBuf::from(format!("twin-{}", stem.to_string_lossy()))),
        };
        if let Some(other) = folder.as_ref().and_then(|folder| begun.insert(folder.clone(), file)) {
            let (one, other, folder) = (file.display(), other.display(), folder.unwrap_or_default());
            anyhow::bail!(
                "{other} and {one} would write their results into the same folder, {}\nhelp: run them by themselves, each with an --out",
                folder.display()
            );
        }
        folders.push(folder);
    }
    Ok(folders)
}

/// The variants of a scenario, in the order in which they are shown, ready to run.
fn variants(args: &Args, file: &Path, interrupt: &Interrupt) -> anyhow::Result<Vec<(Twin, Scenario)>> {
    let source = Source::read(file, &args.over)?;
    let [weft, linux] = Twin::usual();
    let as_written = source.parse(Some(&weft))?;
    for remark in &as_written.remarks {
        tell!("weft: {remark}");
    }
    let all: Vec<Twin> = [weft].into_iter().chain(as_written.twins).chain([linux]).collect();
    if let Some(name) = args.variants.iter().find(|name| all.iter().all(|twin| twin.name != **name)) {
        let known: Vec<&str> = all.iter().map(|twin| twin.name.as_str()).collect();
        anyhow::bail!("--variants: {} has no variant '{name}'\nhelp: it has: {}", source.shown, known.join(", "));
    }
    let place = |twin: &Twin| args.variants.iter().position(|name| *name == twin.name);
    let mut chosen: Vec<Twin> = all.into_iter().filter(|twin| args.variants.is_empty() || place(twin).is_some()).collect();
    chosen.sort_by_key(|twin| place(twin));
    let kernels = Arc::new(weft_kernel::Kernels::new());
    let ready = |twin: Twin| {
        let mut scenario = source.parse(Some(&twin))?;
        scenario.plan.boot = Some(Arc::clone(&kernels) as Arc<dyn weft_sim::Boot>);
        scenario.plan.interrupt = Some(Arc::clone(&interrupt.flag));
        scenario.plan.sample.get_or_insert(SAMPLE_DEFAULT);
        // Before any of them runs: built-in programs, for one, have nobody who plays them on Linux.
        World::check(&scenario.plan).map_err(|why| anyhow::anyhow!("{}: variant {}: {why}", source.shown, twin.name))?;
        Ok((twin, scenario))
    };
    chosen.into_iter().map(ready).collect()
}

/// Every variant with every seed (without any, with the seed that it has), several at a time; in the order of the variants.
fn run_all(
    args: &Args,
    variants: &[(Twin, Scenario)],
    seeds: Option<&[u64]>,
    out: Option<&Path>,
    interrupt: &Interrupt,
) -> anyhow::Result<Vec<Run>> {
    let folders: Vec<Option<PathBuf>> = variants.iter().map(|(twin, _)| out.map(|out| out.join(&twin.name))).collect();
    for (folder, (_, scenario)) in folders.iter().zip(variants) {
        folder.as_ref().map_or(Ok(()), |folder| folder::begin(folder, &scenario.file))?;
    }
    let threads = args.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let count = variants.len() * seeds.map_or(1, <[u64]>::len);
    let job = |number: usize| {
        let variant = number % variants.len();
        let mut scenario = variants[variant].1.clone();
        scenario.plan.seed = seeds.map_or(scenario.plan.seed, |seeds| seeds[number / variants.len()]);
        let mut outcome = twin::run(&scenario, folders[variant].as_deref()).map_err(|error| error.to_string());
        if let (Some(_), Ok(outcome)) = (seeds, &mut outcome) {
            outcome.forget_frames();
        }
        Some((Run { variant, seed: scenario.plan.seed, outcome }, !interrupt.is_set()))
    };
    let mut runs: Vec<Run> = in_parallel(count, threads, &job).into_values().collect();
    runs.sort_by_key(|run| run.variant);
    Ok(runs)
}

/// What is shown of a flow: its name, and how it is got.
type Figure = (&'static str, fn(&Flow) -> Option<f64>);
const FIGURES: [Figure; 9] = [
    ("goodput_mbit_per_second", |flow| Some(flow.goodput_bits_per_second()? / 1e6)),
    ("acked_bytes", |flow| Some(flow.acked_bytes as f64)),
    ("segments", |flow| Some(flow.segments as f64)),
    ("retransmitted_segments", |flow| Some(flow.retransmitted_segments as f64)),
    ("rtt_mean_ms", |flow| Flow::mean(&flow.rtt)),
    ("rtt_95_percent_ms", |flow| Flow::quantile(&flow.rtt, 0.95)),
    ("cwnd_mean_segments", |flow| Flow::mean(&flow.cwnd)),
    ("cwnd_max_segments", |flow| Flow::quantile(&flow.cwnd, 1.0)),
    ("end_s", |flow| Some(flow.ended.as_nanos() as f64 / 1e9)),
];
const OF_WIRES: [&str; 3] = ["frames", "bytes", "lost_frames"];

/// Rows: what, its figure, and a column for each variant.
fn table(outcomes: &[(String, VariantResult)]) -> Vec<Value> {
    let mut rows = Vec::new();
    let mut row = |what: &str, figure: &str, values: Vec<Option<f64>>| {
        let mut row = json!({"of": what, "figure": figure});
        for ((name, _), value) in outcomes.iter().zip(values) {
            row[name.as_str()] = value.map_or(Value::Null, rounded);
        }
        rows.push(row);
    };
    let mut names: Vec<&Name> = outcomes.iter().flat_map(|(_, outcome)| outcome.flows.keys()).collect();
    names.sort();
    names.dedup();
    for name in names {
        for (figure, get) in FIGURES {
            row(&name.short(), figure, outcomes.iter().map(|(_, outcome)| get(outcome.flows.get(name)?)).collect());
        }
    }
    for (number, (wire, _)) in outcomes.first().into_iter().flat_map(|(_, outcome)| outcome.wires.iter().enumerate()) {
        for (place, figure) in OF_WIRES.iter().enumerate() {
            let of = |(_, outcome): &(String, VariantResult)| Some(outcome.wires.get(number)?.1[place] as f64);
            row(wire, figure, outcomes.iter().map(of).collect());
        }
    }
    rows
}

/// Four digits are enough to compare by; what is whole stays whole.
fn rounded(value: f64) -> Value {
    match value.fract() == 0.0 {
        true => json!(value as i64),
        false => {
            let digits = (3 - value.abs().log10().floor() as i32).clamp(0, 9);
            let scale = 10f64.powi(digits);
            json!((value * scale).round() / scale)
        }
    }
}

fn show_one(
    args: &Args,
    file: &Path,
    outcomes: &[(String, VariantResult)],
    tolerance: Tolerance,
    out: Option<&Path>,
) -> anyhow::Result<()> {
    let rows = table(outcomes);
    let Some(((last, base), others)) = outcomes.split_last() else { return Ok(()) };
    let differences: Vec<(&str, Option<Difference>)> =
        others.iter().map(|(name, outcome)| (name.as_str(), outcome.first_difference(base, tolerance))).collect();
    let hashes: serde_json::Map<String, Value> =
        outcomes.iter().map(|(name, outcome)| (name.clone(), format!("{:032x}", outcome.hash).into())).collect();
    let told: Vec<Value> = differences.iter().map(|(name, difference)| difference_json(name, last, difference.as_ref())).collect();
    let summary = json!({"scenario": file.display().to_string(), "hashes": hashes, "table": rows, "first_differences": told});
    if let Some(out) = out {
        let failed = || format!("cannot write into {}", out.display());
        std::fs::write(out.join("twin.json"), format!("{}\n", serde_json::to_string_pretty(&summary)?)).with_context(failed)?;
        if let Some(picture) = twin::picture(outcomes) {
            picture.write(out, "twin").with_context(failed)?;
        }
    }
    for (name, outcome) in outcomes.iter().filter(|(_, outcome)| outcome.left_out() > 0) {
        tell!(
            "weft: variant {name}: {} frames behind the first {FRAMES_MAX} of an interface are neither measured nor compared",
            outcome.left_out()
        );
    }
    if args.json {
        output::json(&summary);
        return Ok(());
    }
    output::line(&format!("{}", file.display()));
    output::table(&without_repeats(rows), args.wide);
    for (name, difference) in &differences {
        output::line(&difference_text(name, last, difference.as_ref()));
    }
    if let Some(out) = out {
        output::line(&format!("results and plot: {}", out.display()));
    }
    Ok(())
}

/// A name stands in front of its first row only.
fn without_repeats(rows: Vec<Value>) -> Vec<Value> {
    let mut before = Value::Null;
    let mut blank = |mut row: Value| {
        let of = row["of"].clone();
        if of == before {
            row["of"] = "".into();
        }
        before = of;
        row
    };
    rows.into_iter().map(&mut blank).collect()
}

fn difference_json(name: &str, base: &str, difference: Option<&Difference>) -> Value {
    let next =
        |next: &Option<(Instant, String)>| next.as_ref().map_or(Value::Null, |(at, frame)| json!({"at_ns": at.as_nanos(), "frame": frame}));
    let found = difference.map_or(Value::Null, |difference| {
        let Difference { node, interface, equal_before, next: [one, other] } = difference;
        json!({"node": node, "interface": interface, "equal_before": equal_before, name: next(one), base: next(other)})
    });
    json!({"variants": [name, base], "difference": found})
}

fn difference_text(name: &str, base: &str, difference: Option<&Difference>) -> String {
    let Some(Difference { node, interface, equal_before, next }) = difference else {
        return format!("{name} and {base}: no frame differs");
    };
    let tell =
        |next: &Option<(Instant, String)>| next.as_ref().map_or_else(|| "nothing more".to_owned(), |(at, frame)| format!("{at} {frame}"));
    format!(
        "{name} and {base}: first difference on node {node} {interface}, after {equal_before} equal frames\n  {name}: {}\n  {base}: {}",
        tell(&next[0]),
        tell(&next[1])
    )
}

/// Ratios of goodput to the last variant's, seed by seed.
fn show_ratios(args: &Args, file: &Path, outcomes: &[(String, u64, VariantResult)]) {
    let mut goodput: BTreeMap<(&Name, &str), BTreeMap<u64, f64>> = BTreeMap::new();
    for (variant, seed, outcome) in outcomes {
        for (name, flow) in &outcome.flows {
            if let Some(rate) = flow.goodput_bits_per_second() {
                goodput.entry((name, variant)).or_default().insert(*seed, rate);
            }
        }
    }
    let Some((base, ..)) = outcomes.last() else { return };
    let mut rows = Vec::new();
    for ((name, variant), rates) in &goodput {
        let (rate, _) = mean(&rates.values().copied().collect::<Vec<_>>());
        let mut row = json!({"of": name.short(), "variant": variant, "seeds": rates.len(), "goodput_mbit_per_second": rounded(rate / 1e6)});
        if variant != base
            && let Some(bases) = goodput.get(&(*name, base.as_str()))
        {
            let ratios: Vec<f64> = rates.iter().filter_map(|(seed, rate)| Some(rate / bases.get(seed)?)).collect();
            let (ratio, margin) = mean(&ratios);
            (row["ratio"], row["margin_of_error"]) = (rounded(ratio), rounded(margin));
        }
        rows.push(row);
    }
    match args.json {
        true => output::json(&json!({"scenario": file.display().to_string(), "base": base, "rows": rows})),
        false => {
            output::line(&format!("{}: ratios to {base}, with half of their 95 % interval", file.display()));
            output::table(&rows, args.wide);
        }
    }
}
