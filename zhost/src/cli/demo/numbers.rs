//! The numbers of one run: the JSON object, field by field, in its order.

use core::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// How a run ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    Pass,
    Fail,
    Inconclusive,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Inconclusive => "inconclusive",
        })
    }
}

/// What one run counted. `None` is printed as `null`: that number could not be had, because a
/// process ended early or nothing was measured.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Numbers {
    /// The driver that moved the bytes of the sending host.
    pub(super) driver: String,
    /// Why it was that one.
    pub(super) driver_reason: String,
    /// One-way sends that returned `Ok`, from the sender's ledger.
    pub(super) sends_accepted: u64,
    /// One-way messages whose handler ran to its end, as the receiver counted them.
    pub(super) sends_handled: u64,
    /// Accepted, but never handled.
    pub(super) lost: Option<u64>,
    /// Handled more than once; sends and requests.
    pub(super) duplicated: Option<u64>,
    /// Handled after a later message of the same producer; sends and requests.
    pub(super) out_of_order: Option<u64>,
    /// Sends that were not accepted on the spot, seen from the calling task.
    pub(super) sends_waited: u64,
    /// Sends and requests that ended at their deadline.
    pub(super) deadline_exceeded: u64,
    /// Sends and requests that ended in another error, and messages that arrived damaged.
    pub(super) other_errors: u64,
    /// Requests that were answered.
    pub(super) requests_ok: u64,
    /// Those of them that were answered while the receiver had no permit left.
    pub(super) requests_ok_while_full: u64,
    /// Requests that ended in an error, also if it is counted above.
    pub(super) requests_failed: u64,
    pub(super) request_p50_ms: Option<f64>,
    pub(super) request_p99_ms: Option<f64>,
    pub(super) send_queue_peak_bytes: u64,
    /// The high-water mark in force and the allowance for control records.
    pub(super) send_queue_bound_bytes: u64,
    pub(super) receive_queue_peak_bytes: u64,
    /// The high-water mark in force and the allowance for control records.
    pub(super) receive_queue_bound_bytes: u64,
    pub(super) permits_peak: u64,
    pub(super) permit_limit: u64,
    /// Largest resident memory minus that at the end of the warm-up.
    pub(super) sender_rss_growth_bytes: u64,
    /// Largest resident memory minus that at the end of the warm-up.
    pub(super) receiver_rss_growth_bytes: u64,
}

impl Numbers {
    /// The one JSON object of this run, on one line.
    ///
    /// # Errors
    ///
    /// As of `serde_json`; these fields cannot cause one.
    pub(super) fn to_json(&self, verdict: Verdict) -> serde_json::Result<String> {
        #[derive(Serialize)]
        struct Line<'a> {
            verdict: Verdict,
            #[serde(flatten)]
            numbers: &'a Numbers,
        }
        serde_json::to_string(&Line { verdict, numbers: self })
    }

    /// Names and values in the order of the JSON object, for a table.
    pub(super) fn rows(&self) -> Vec<(String, String)> {
        // The derived serializer is the one list of names, so that no table can forget a field.
        let object = serde_json::to_string(self).unwrap_or_default();
        serde_json::from_str::<Rows>(&object).map(|rows| rows.0).unwrap_or_default()
    }
}

/// The members of a flat JSON object in their order; `serde_json::Value` would sort them.
struct Rows(Vec<(String, String)>);

impl<'de> Deserialize<'de> for Rows {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(RowsVisitor)
    }
}

struct RowsVisitor;

impl<'de> Visitor<'de> for RowsVisitor {
    type Value = Rows;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a flat object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Rows, A::Error> {
        let mut rows = Vec::new();
        while let Some((name, value)) = map.next_entry::<String, serde_json::Value>()? {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            rows.push((name, text));
        }
        Ok(Rows(rows))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A run that keeps every rule.
    pub(in super::super) fn sound() -> Numbers {
        Numbers {
            driver: "uring".to_owned(),
            driver_reason: "it works here".to_owned(),
            sends_accepted: 50_000,
            sends_handled: 50_000,
            lost: Some(0),
            duplicated: Some(0),
            out_of_order: Some(0),
            sends_waited: 1_000,
            deadline_exceeded: 0,
            other_errors: 0,
            requests_ok: 900,
            requests_ok_while_full: 1,
            requests_failed: 0,
            request_p50_ms: Some(250.25),
            request_p99_ms: Some(800.0),
            send_queue_peak_bytes: 90,
            send_queue_bound_bytes: 100,
            receive_queue_peak_bytes: 100,
            receive_queue_bound_bytes: 100,
            permits_peak: 64,
            permit_limit: 64,
            sender_rss_growth_bytes: 200 + (8 << 20),
            receiver_rss_growth_bytes: 0,
        }
    }

    #[test]
    fn the_json_object_is_one_line_with_these_keys_in_this_order() {
        let numbers = Numbers { lost: None, ..sound() };
        assert_eq!(
            numbers.to_json(Verdict::Pass).unwrap(),
            "{\"verdict\":\"pass\",\"driver\":\"uring\",\
             \"driver_reason\":\"it works here\",\"sends_accepted\":50000,\
             \"sends_handled\":50000,\"lost\":null,\"duplicated\":0,\"out_of_order\":0,\
             \"sends_waited\":1000,\"deadline_exceeded\":0,\"other_errors\":0,\
             \"requests_ok\":900,\"requests_ok_while_full\":1,\"requests_failed\":0,\
             \"request_p50_ms\":250.25,\"request_p99_ms\":800.0,\
             \"send_queue_peak_bytes\":90,\"send_queue_bound_bytes\":100,\
             \"receive_queue_peak_bytes\":100,\"receive_queue_bound_bytes\":100,\
             \"permits_peak\":64,\"permit_limit\":64,\
             \"sender_rss_growth_bytes\":8388808,\"receiver_rss_growth_bytes\":0}"
        );
    }

    #[test]
    fn the_table_has_a_row_for_every_number() {
        let rows = sound().rows();
        assert_eq!(rows.len(), 23);
        assert_eq!(rows[0], ("driver".to_owned(), "uring".to_owned()));
        assert_eq!(rows[22], ("receiver_rss_growth_bytes".to_owned(), "0".to_owned()));
    }
}
