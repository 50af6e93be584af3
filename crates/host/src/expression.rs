//! Packet filter expressions (pcap-filter(7)) to programs, by tcpdump: it is installed where people look at packets, and asks libpcap.

use std::process::{Command, Stdio};

/// Longest expression, bytes.
const EXPRESSION_BYTES_MAX: usize = 4096;

/// Compiles an expression for frames that begin with an Ethernet header (`link` "ethernet") or an IP header ("ip") to the text that the filter
/// block takes.
///
/// # Errors
/// What is wrong with the expression in libpcap's words, or that tcpdump is missing.
pub fn compile(expression: &str, link: &str) -> Result<String, String> {
    if expression.len() > EXPRESSION_BYTES_MAX {
        return Err(format!("an expression of {} bytes is too long: at most {EXPRESSION_BYTES_MAX}", expression.len()));
    }
    let framing = if link == "ip" { "RAW" } else { "EN10MB" };
    // "-d" and an expression alone: tcpdump opens no device and needs no rights.
    let run = Command::new("tcpdump").args(["-y", framing, "-ddd", "--", expression]).stdin(Stdio::null()).output();
    let output = run.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            "tcpdump, which compiles expressions, is not installed (Debian: apt install tcpdump); give program = \"…\" instead".to_owned()
        }
        _ => format!("cannot start tcpdump: {error}"),
    })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let why = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it failed").trim();
        return Err(why.strip_prefix("tcpdump: ").unwrap_or(why).to_owned());
    }
    let program = weft_core::bpf::Program::parse(&String::from_utf8_lossy(&output.stdout)).map_err(|error| error.to_string())?;
    Ok(program.to_text())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_become_programs_for_the_framing() {
        let (ethernet, ip) = (compile("tcp port 80", "ethernet").unwrap(), compile("tcp port 80", "ip").unwrap());
        assert_ne!(ethernet, ip);
        assert!(weft_core::bpf::Program::parse(&ip).is_ok());
        let wrong = compile("tcp prot 80", "ethernet").unwrap_err();
        assert!(wrong.contains("syntax error") || wrong.contains("unknown"), "{wrong}");
        assert!(compile("-w /tmp/file", "ip").is_err(), "an expression is never an option");
        assert!(compile(&"x".repeat(5000), "ip").unwrap_err().contains("too long"));
    }
}
