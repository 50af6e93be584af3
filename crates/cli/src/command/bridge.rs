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
    /// Seed of the losses
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The two interfaces, for example packet:veth1 packet:veth2
    #[arg(num_args = 2, required = true)]
    interfaces: Vec<String>,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let impairment = Impairment { rate: args.rate, queue_bytes: args.queue_bytes, delay: args.delay, loss: args.loss, seed: args.seed };
    let mut bridge = Bridge::open([&args.interfaces[0], &args.interfaces[1]], &impairment)?;
    let signals = signals::Termination::catch()?;
    bridge.wake_on(&signals)?;
    output::line("ready");
    bridge.run()?;
    Ok(ExitCode::SUCCESS)
}
