//! `weft bridge`

use crate::output;
use std::process::ExitCode;
use weft_core::parameter::{parse_duration, parse_rate};
use weft_host::bridge::{Bridge, Impairment};
use weft_host::signals;

/// Join two interfaces by a wire that is slow, long or lossy, until interrupted. Needs CAP_NET_RAW in their namespace.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Rate of the wire, each direction: 100mbit, 1gbit
    #[arg(long, value_parser = parse_rate)]
    rate: Option<u64>,
    /// Bytes that may wait for the wire, each direction
    #[arg(long, default_value_t = 512 * 1024)]
    queue_bytes: u64,
    /// Delay one way: 20ms, 50us
    #[arg(long, value_parser = parse_duration, default_value = "0ns")]
    delay: std::time::Duration,
    /// Probability that a frame is lost, 0 to 1
    #[arg(long, default_value_t = 0.0)]
    loss: f64,
    /// Lose frames in bursts of this mean length (Gilbert-Elliott); --loss is then the share that is lost
    #[arg(long, value_name = "FRAMES")]
    loss_burst: Option<f64>,
    /// Probability that a frame comes twice
    #[arg(long, value_name = "PROBABILITY", default_value_t = 0.0)]
    duplicate: f64,
    /// Probability that a bit of a frame is flipped
    #[arg(long, value_name = "PROBABILITY", default_value_t = 0.0)]
    corrupt: f64,
    /// Probability that a frame is overtaken by the five next ones
    #[arg(long, value_name = "PROBABILITY", default_value_t = 0.0)]
    reorder: f64,
    /// Swallow longer IP packets without an ICMP error: a path-MTU black hole
    #[arg(long, value_name = "BYTES")]
    blackhole: Option<u32>,
    /// Seed of the losses
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The two interfaces, for example packet:veth1 packet:veth2
    #[arg(num_args = 2, required = true)]
    interfaces: Vec<String>,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    for (option, share) in [("loss", args.loss), ("duplicate", args.duplicate), ("corrupt", args.corrupt), ("reorder", args.reorder)] {
        anyhow::ensure!((0.0..=1.0).contains(&share), "--{option} {share} is no probability: give a number from 0 to 1");
    }
    anyhow::ensure!(args.loss_burst.is_none() || args.loss < 1.0, "--loss-burst needs --loss below 1: with 1 every frame is lost anyway");
    let impairment = Impairment {
        rate: args.rate,
        queue_bytes: args.queue_bytes,
        delay: args.delay,
        loss: args.loss,
        loss_burst_frames: args.loss_burst,
        duplicate: args.duplicate,
        corrupt: args.corrupt,
        reorder: args.reorder,
        blackhole_bytes: args.blackhole,
        seed: args.seed,
    };
    let mut bridge = Bridge::open([&args.interfaces[0], &args.interfaces[1]], &impairment)?;
    let signals = signals::Termination::catch()?;
    bridge.wake_on(&signals)?;
    output::line("ready");
    bridge.run()?;
    Ok(ExitCode::SUCCESS)
}
