//! Each script on every driver of this machine: what they tell is the same.

use crate::replay::{CALM, Outcome, listed};
use crate::stand::{EpollStand, Scale, Script, SimStand, Stand, UringStand, play};
use crate::trace::Trace;

on_any_network!(compare_on, [UringStand, EpollStand, SimStand]);
on_real_sockets!(compare_on, [UringStand, EpollStand]);

/// What one driver told, or why it is not here.
pub(crate) fn told<S: Stand>(script: &Script<S>) -> Told<Trace> {
    (S::NAME, S::missing().map_or_else(|| Ok(play(script, CALM, Scale::SMALL)), Err))
}

/// Who told something, and what; or why not.
pub(crate) type Told<T> = (&'static str, Result<T, String>);

pub(crate) fn compare<T: Outcome>(test: &'static str, told: &[Told<T>]) {
    let mut present = told.iter().filter_map(|(name, told)| Some((*name, told.as_ref().ok()?)));
    let Some((first, expected)) = present.next() else { return };
    let mut others = 0;
    for (other, told) in present {
        expected.assert_same(told, first, other);
        others += 1;
    }
    if others == 0 {
        let missing: Vec<_> =
            told.iter().filter_map(|(_, told)| told.as_ref().err()).map(String::as_str).collect();
        let reason = format!("only {first} is here: {}", missing.join("; "));
        ztests::skip(&[listed(test)], &reason);
    }
}
