//! Each script on every driver of this machine: what they tell is the same.

use crate::stand::{CALM, EpollStand, Scale, Script, SimStand, Stand, UringStand, play};
use crate::trace::Trace;

on_any_network!(compare_on, [UringStand, EpollStand, SimStand]);
on_real_sockets!(compare_on, [UringStand, EpollStand]);

/// What one driver told, or why it is not here.
pub(crate) struct Told {
    driver: &'static str,
    trace: Result<Trace, String>,
}

pub(crate) fn told<S: Stand>(script: &Script<S>) -> Told {
    let trace = match S::missing() {
        Some(reason) => Err(reason),
        None => Ok(play(script, CALM, Scale::SMALL)),
    };
    Told { driver: S::NAME, trace }
}

pub(crate) fn compare(test: &str, told: &[Told]) {
    let mut present = told.iter().filter_map(|told| Some((told.driver, told.trace.as_ref().ok()?)));
    let Some((driver, trace)) = present.next() else { return };
    let mut others = 0;
    for (other, told) in present {
        trace.assert_same(told, driver, other);
        others += 1;
    }
    if others == 0 {
        let missing: Vec<_> =
            told.iter().filter_map(|told| told.trace.as_ref().err()).map(String::as_str).collect();
        ztests::skip(&[test], &format!("only {driver} is here: {}", missing.join("; ")));
    }
}
