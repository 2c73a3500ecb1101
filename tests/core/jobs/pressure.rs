//! When a job queue pauses and resumes.

use zcore::limits::PERMIT_LIMIT_MAX;
use zcore::{
    Instant, JobQueue, PermitLimit, Pressure, Request, SourceSlot, Thresholds, ThresholdsError,
};

const T0: Instant = Instant::EPOCH;

fn jobs(limit: u32) -> JobQueue<[SourceSlot; 4]> {
    let limit = PermitLimit::new(limit).unwrap();
    JobQueue::new([SourceSlot::EMPTY; 4], limit, Thresholds::DEFAULT).unwrap()
}

#[test]
fn b_123_pauses_at_eighty_percent_and_runs_again_at_sixty() {
    let mut jobs = jobs(10);
    let source = jobs.register().unwrap();
    assert_eq!(jobs.request(source, 7, T0), Request::Taken(7));
    assert_eq!(jobs.pressure(), Pressure::Running);
    for _ in 0..7 {
        assert!(jobs.claim(source));
    }
    assert_eq!(jobs.request(source, 1, T0), Request::Taken(1));
    assert_eq!(jobs.pressure(), Pressure::Paused, "8 of 10");
    assert_eq!(jobs.take_pressure_change(), Some(Pressure::Paused));
    assert_eq!(jobs.take_pressure_change(), None, "told once");

    assert_eq!(jobs.start(T0), None);
    assert_eq!(jobs.pressure(), Pressure::Paused, "7 of 10");
    assert_eq!(jobs.start(T0), None);
    assert_eq!(jobs.pressure(), Pressure::Running, "6 of 10, a reserved one among them");
    assert_eq!(jobs.take_pressure_change(), Some(Pressure::Running));
}

#[test]
fn b_123_a_permit_that_is_returned_and_handed_on_does_not_change_the_pressure() {
    let mut jobs = jobs(1);
    let (first, second) = (jobs.register().unwrap(), jobs.register().unwrap());
    assert_eq!(jobs.request(first, 1, T0), Request::Taken(1));
    assert_eq!(jobs.take_pressure_change(), Some(Pressure::Paused));
    assert_eq!(jobs.request(second, 1, T0), Request::Waiting);
    // Every way in which a permit comes back while somebody waits.
    assert!(jobs.cancel(first, T0).eq([second]));
    assert_eq!(jobs.take_pressure_change(), None);
    assert_eq!(jobs.request(first, 1, T0), Request::Waiting);
    assert!(jobs.claim(second));
    assert_eq!(jobs.start(T0), Some(first));
    assert_eq!(jobs.take_pressure_change(), None);
    let later = T0.saturating_add(zcore::limits::GRANT_TTL);
    assert!(jobs.expire_grants(later).eq([first]));
    assert_eq!(jobs.take_pressure_change(), None);
    drop(jobs.cancel(first, later));
    assert_eq!(jobs.take_pressure_change(), Some(Pressure::Running));
}

#[test]
fn b_123_a_change_that_is_undone_within_a_turn_is_not_told() {
    let mut jobs = jobs(1);
    let source = jobs.register().unwrap();
    assert_eq!(jobs.request(source, 1, T0), Request::Taken(1));
    assert_eq!(jobs.pressure(), Pressure::Paused);
    assert_eq!(jobs.cancel(source, T0).next(), None);
    assert_eq!(jobs.take_pressure_change(), None);
}

#[test]
fn b_124_the_pause_count_rounds_up_and_the_resume_count_rounds_down() {
    let table = [
        (1, 1, 0),
        (2, 2, 1),
        (3, 3, 1),
        (5, 4, 3),
        (7, 6, 4),
        (2_147_483_647, 1_717_986_918, 1_288_490_188),
    ];
    for (limit, pause, resume) in table {
        let marks = Thresholds::DEFAULT.marks(PermitLimit::new(limit).unwrap());
        assert_eq!((marks.pause(), marks.resume()), (pause, resume), "limit {limit}");
        assert_eq!(jobs(limit).pressure_marks(), marks);
    }
}

#[test]
fn b_125_percents_out_of_range_are_errors_that_name_option_and_range() {
    let table = [
        (0, 60, "`job_queue_pause_percent` is 0 %; valid is 1..=100 %"),
        (101, 60, "`job_queue_pause_percent` is 101 %; valid is 1..=100 %"),
        (u32::MAX, 0, "`job_queue_pause_percent` is 4294967295 %; valid is 1..=100 %"),
        (100, 100, "`job_queue_resume_percent` is 100 %; valid is 0..=99 %"),
        (80, u32::MAX, "`job_queue_resume_percent` is 4294967295 %; valid is 0..=99 %"),
        (
            80,
            80,
            "`job_queue_resume_percent` is 80 % and must be below `job_queue_pause_percent`, \
             which is 80 %",
        ),
        (
            60,
            80,
            "`job_queue_resume_percent` is 80 % and must be below `job_queue_pause_percent`, \
             which is 60 %",
        ),
    ];
    for (pause, resume, text) in table {
        assert_eq!(Thresholds::new(pause, resume).unwrap_err().to_string(), text);
    }
    assert_eq!(Thresholds::new(80, 60), Ok(Thresholds::default()));
}

#[test]
fn b_125_each_pair_is_judged_by_the_three_rules_alone() {
    for pause_percent in 0..=102 {
        for resume_percent in 0..=102 {
            let wanted = if !(1..=100).contains(&pause_percent) {
                Some(ThresholdsError::PauseOutOfRange { pause_percent })
            } else if resume_percent > 99 {
                Some(ThresholdsError::ResumeOutOfRange { resume_percent })
            } else if resume_percent >= pause_percent {
                Some(ThresholdsError::ResumeNotBelowPause { pause_percent, resume_percent })
            } else {
                None
            };
            assert_eq!(Thresholds::new(pause_percent, resume_percent).err(), wanted);
        }
    }
}

#[test]
fn b_126_the_resume_count_is_below_the_pause_count_for_every_pair_and_limit() {
    let limits = (1..=130).chain([199, 200, 201, 4_096, 65_535, 65_536, 1_000_003]).chain([
        PERMIT_LIMIT_MAX / 2,
        PERMIT_LIMIT_MAX - 1,
        PERMIT_LIMIT_MAX,
    ]);
    for limit in limits {
        let permits = PermitLimit::new(limit).unwrap();
        for pause in 1..=100 {
            for resume in 0..pause {
                let marks = Thresholds::new(pause, resume).unwrap().marks(permits);
                assert!(marks.resume() < marks.pause(), "{pause} {resume} {limit}");
                assert!((1..=limit).contains(&marks.pause()), "{pause} {resume} {limit}");
            }
        }
    }
}
