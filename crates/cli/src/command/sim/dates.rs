//! A certificate that is not valid is mostly one for another time than the world's: whoever meets that is told what its clock says.

use chrono::{DateTime, SecondsFormat};
use regex::bytes::Regex;
use std::sync::LazyLock;
use std::time::Duration;
use weft_sim::{Status, World};

/// What TLS libraries say of a certificate at the wrong time: OpenSSL, GnuTLS, Go, Java, node, rustls.
static WORDS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i)certificate (has expired|is not yet valid|expired)|expired certificate|not yet (valid|activated)|CERT_(HAS_EXPIRED|NOT_YET_VALID)|CertificateExpired|CertificateNotYetValid|certificate.{0,40}(notafter|notbefore)").ok()
});

/// Does it speak of a certificate at the wrong time?
fn speaks(output: &[u8]) -> bool {
    WORDS.as_ref().is_some_and(|words| words.is_match(output))
}

/// Since 1970, as a scenario writes it.
fn date(since: Duration) -> String {
    let date = i64::try_from(since.as_secs()).ok().and_then(|seconds| DateTime::from_timestamp(seconds, 0));
    date.map_or(String::new(), |date| date.to_rfc3339_opts(SecondsFormat::Secs, true))
}

/// Tells of the programs that failed and said so.
pub(super) fn tell(world: &World) {
    let failed = |status: Status| status != Status::Exited(0);
    let of = |number: &usize| world.program(*number).filter(|state| state.ended.is_some_and(|(_, status)| failed(status)));
    let found =
        (0..world.plan().programs.len()).find(|number| of(number).is_some_and(|state| speaks(&state.error) || speaks(&state.output)));
    if let Some(program) = found.and_then(|number| world.plan().programs.get(number)) {
        let (name, start) = (&program.name, date(world.plan().start));
        tell!(
            "weft: {name} found a certificate not valid: the clock of this world began at {start} (start = 2026-11-30T00:00:00Z in the scenario sets it)"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_written_as_scenarios_have_it() {
        assert_eq!(date(Duration::from_secs(1_893_456_000)), "2030-01-01T00:00:00Z");
    }

    #[test]
    fn what_libraries_say_of_a_date_is_known_from_other_failures() {
        for text in [
            "curl: (60) SSL certificate problem: certificate has expired",
            "SSL certificate problem: certificate is not yet valid",
            "x509: certificate has expired or is not yet valid: current time 2030-01-01T00:00:00Z is after",
            "Error: certificate has expired\n code: 'CERT_HAS_EXPIRED'",
            "java.security.cert.CertificateExpiredException: NotAfter: Fri",
            "The certificate is NOT trusted. The certificate chain uses expired certificate.",
        ] {
            assert!(speaks(text.as_bytes()), "{text}");
        }
        for text in ["self-signed certificate", "the lease has expired", "unable to get local issuer certificate"] {
            assert!(!speaks(text.as_bytes()), "{text}");
        }
    }
}
