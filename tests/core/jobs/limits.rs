//! How many permits there are.

use zcore::limits::PERMIT_LIMIT_MAX;
use zcore::{ApplicationJobQueueProfile, JobQueue, PermitLimit, Request, SourceSlot, Thresholds};

#[test]
fn b_118_every_limit_in_range_is_used_exactly() {
    for permits in [1, 2, 63, 64, 65, 4_096, PERMIT_LIMIT_MAX - 1, PERMIT_LIMIT_MAX] {
        let limit = PermitLimit::new(permits).unwrap();
        assert_eq!(limit.get(), permits);
        let jobs = JobQueue::new([SourceSlot::EMPTY], limit, Thresholds::DEFAULT).unwrap();
        assert_eq!(jobs.counts().limit, permits);
    }
}

#[test]
fn b_118_exactly_as_many_permits_as_the_limit_says_can_be_taken() {
    for permits in [1, 2, 3, 65, 130] {
        let limit = PermitLimit::new(permits).unwrap();
        let slots = [SourceSlot::EMPTY; 4];
        let mut jobs = JobQueue::new(slots, limit, Thresholds::DEFAULT).unwrap();
        let mut taken = 0;
        while let Ok(source) = jobs.register() {
            match jobs.request(source, u32::MAX, zcore::Instant::EPOCH) {
                Request::Taken(some) => taken += some,
                Request::Waiting => break,
                Request::Ignored => panic!("a new source with records is served"),
            }
        }
        assert_eq!(taken, permits);
    }
}

#[test]
fn b_119_zero_and_too_many_are_errors_that_name_option_range_and_the_automatic_limit() {
    for permits in [0, PERMIT_LIMIT_MAX + 1, u32::MAX] {
        let error = PermitLimit::new(permits).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "`max_queued_application_jobs` is {permits}; valid is 1..=2147483647; \
                 leave it unset for an automatic limit"
            )
        );
    }
}

#[test]
fn b_121_the_automatic_limit_is_processors_times_the_jobs_of_the_profile() {
    let table = [
        (ApplicationJobQueueProfile::Compact, 32),
        (ApplicationJobQueueProfile::LowLatency, 64),
        (ApplicationJobQueueProfile::Balanced, 128),
        (ApplicationJobQueueProfile::Throughput, 256),
    ];
    assert!(table.iter().map(|(profile, _)| *profile).eq(ApplicationJobQueueProfile::ALL));
    for (profile, jobs) in table {
        for processors in [1, 2, 3, 8, 128] {
            assert_eq!(PermitLimit::automatic(processors, profile).get(), processors * jobs);
        }
    }
    assert_eq!(ApplicationJobQueueProfile::default(), ApplicationJobQueueProfile::Balanced);
}

#[test]
fn b_121_the_automatic_limit_is_in_range_for_any_number_of_processors() {
    for profile in ApplicationJobQueueProfile::ALL {
        let one = PermitLimit::automatic(1, profile);
        assert_eq!(PermitLimit::automatic(0, profile), one, "a host has a processor");
        for processors in [PERMIT_LIMIT_MAX / profile.jobs_per_processor() + 1, u32::MAX] {
            assert_eq!(PermitLimit::automatic(processors, profile).get(), PERMIT_LIMIT_MAX);
        }
    }
}
