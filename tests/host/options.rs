//! The options of a host: defaults, ranges, and what is said of a wrong one.

use core::time::Duration;
use std::fs;

use zhost::{
    ApplicationJobQueueProfile, ByteCount, ChannelServer, ClientServer, ConfigErrors,
    HighWaterMark, Host, HostBuilder, MeshPeer, RouteMesh, StartError,
};

use crate::world::{CHANNEL, MESH, run};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/golden/config_errors.txt");

fn refused(tune: impl Fn(HostBuilder) -> HostBuilder) -> ConfigErrors {
    match tune(Host::builder("wrong")).start() {
        Err(StartError::Config(errors)) => errors,
        Err(other) => panic!("not about the configuration: {other}"),
        Ok(_) => panic!("it starts"),
    }
}

/// The only option that is wrong, and all that is said.
fn wrong_option(tune: impl Fn(HostBuilder) -> HostBuilder) -> (String, String) {
    let errors = refused(tune);
    let mut options = errors.iter().map(|error| error.option().to_owned());
    let option = options.next().unwrap_or_default();
    assert_eq!(options.next(), None, "only one is wrong: {errors}");
    (option, errors.to_string())
}

fn job_limit(tune: impl Fn(HostBuilder) -> HostBuilder) -> u32 {
    let host = tune(Host::builder("right")).start().unwrap();
    host.status().application_job_queue.limit
}

#[test]
fn b_096_a_limit_that_is_none_stops_the_start_and_is_named() {
    // A `Duration` cannot be negative, and the longest stands for an infinite one.
    for timeout in [Duration::ZERO, Duration::MAX, Duration::from_millis(1 << 31)] {
        let (option, text) = wrong_option(|host| host.default_socket_send_timeout(timeout));
        assert_eq!(option, "default_socket_send_timeout", "{text}");
        assert!(text.contains("1..=2147483647"), "it says what is valid: {text}");
        let (option, text) = wrong_option(|host| host.default_request_timeout(timeout));
        assert_eq!(option, "default_request_timeout", "{text}");
    }
}

#[test]
fn bu_005_the_longest_send_timeout_is_int_max_milliseconds() {
    run(async {
        let longest = Duration::from_millis(2_147_483_647);
        let host = Host::builder("right").default_socket_send_timeout(longest).start().unwrap();
        drop(host);
        let above = longest + Duration::from_nanos(1);
        let (option, _) = wrong_option(|host| host.default_socket_send_timeout(above));
        assert_eq!(option, "default_socket_send_timeout", "it rounds up to one too many");
    });
}

#[test]
fn b_118_the_job_limit_is_used_exactly() {
    run(async {
        for limit in [1, 2, 1_000, 2_147_483_647] {
            assert_eq!(job_limit(|host| host.max_queued_application_jobs(limit)), limit, "exactly");
        }
    });
}

#[test]
fn b_119_no_jobs_is_an_error_that_says_what_to_do_instead() {
    for limit in [0, 2_147_483_648, u32::MAX] {
        let (option, text) = wrong_option(|host| host.max_queued_application_jobs(limit));
        assert_eq!(option, "max_queued_application_jobs", "{text}");
        assert!(text.contains("2147483647"), "{limit}: it says what is valid: {text}");
        if limit == 0 {
            assert!(text.contains("unset"), "it says how to leave it to the host: {text}");
        }
    }
}

#[test]
fn b_120_the_automatic_limit_is_computed_once() {
    run(async {
        // Affinity is each thread's own: that of the other tests stays.
        let before = rustix::thread::sched_getaffinity(None).unwrap();
        let processors = before.count();
        let host = Host::builder("right").start().unwrap();
        let limit = || host.status().application_job_queue.limit;
        let at_start = limit();
        let first = (0..1_024).find(|cpu| before.is_set(*cpu)).unwrap();
        let mut one = rustix::thread::CpuSet::new();
        one.set(first);
        rustix::thread::sched_setaffinity(None, &one).unwrap();
        assert_eq!(limit(), at_start, "a host that runs keeps its limit");
        let fewer = job_limit(|host| host);
        rustix::thread::sched_setaffinity(None, &before).unwrap();
        assert_eq!(limit(), at_start, "a host that runs keeps its limit");
        assert_eq!(fewer, 128, "one processor, Balanced");
        if processors == 1 {
            ztests::skip(&["B-120"], "one processor: there is no other number to change to");
        }
    });
}

#[test]
fn b_121_each_profile_has_its_number_of_jobs_for_a_processor() {
    run(async {
        let processors = std::thread::available_parallelism().unwrap().get();
        let processors = u32::try_from(processors).unwrap();
        for (profile, jobs) in [
            (ApplicationJobQueueProfile::Compact, 32),
            (ApplicationJobQueueProfile::LowLatency, 64),
            (ApplicationJobQueueProfile::Balanced, 128),
            (ApplicationJobQueueProfile::Throughput, 256),
        ] {
            let limit = job_limit(|host| host.application_job_queue_profile(profile));
            assert_eq!(limit, jobs * processors, "{profile:?} on {processors} processors");
        }
        assert_eq!(job_limit(|host| host), 128 * processors, "Balanced is the default");
    });
}

#[test]
fn b_125_each_percentage_outside_its_range_is_an_error() {
    let percents = |pause: u32, resume: u32| {
        move |host: HostBuilder| {
            host.job_queue_pause_percent(pause).job_queue_resume_percent(resume)
        }
    };
    let (pause_percent, resume_percent) = ("job_queue_pause_percent", "job_queue_resume_percent");
    for (pause, resume, option) in [
        (101, 60, pause_percent),
        (u32::MAX, 60, pause_percent),
        (0, 100, pause_percent),
        (101, 100, resume_percent),
        (80, 80, resume_percent),
        (60, 80, resume_percent),
        (1, 1, resume_percent),
    ] {
        let errors = refused(percents(pause, resume));
        let is_named = errors.iter().any(|error| error.option() == option);
        assert!(is_named, "{pause} and {resume}: {errors}");
    }
    run(async move {
        for (pause, resume) in [(1, 0), (100, 99), (100, 0), (80, 60)] {
            drop(percents(pause, resume)(Host::builder("right")).start().unwrap());
        }
    });
}

/// Wrong wherever it can be.
fn all_wrong() -> HostBuilder {
    let anywhere = || "127.0.0.1:0".parse().unwrap();
    let tiny = HighWaterMark::Limit(ByteCount::new(1));
    let nameless = MeshPeer::new("a peer", anywhere()).serves_with_weight(CHANNEL, 10_001);
    Host::builder("a host")
        .send_high_water_mark(tiny)
        .receive_high_water_mark(tiny)
        .max_message_size(ByteCount::new(0))
        .default_socket_send_timeout(Duration::ZERO)
        .default_request_timeout(Duration::MAX)
        .max_queued_application_jobs(0)
        .job_queue_pause_percent(101)
        .job_queue_resume_percent(100)
        .max_waiting_operations(65_537)
        .max_peers(0)
        .mesh(RouteMesh::new(MESH).listen(anywhere()).peer(nameless))
        .mesh(RouteMesh::new(MESH))
        .client_server(
            ClientServer::server(ChannelServer::new("server"), anywhere()).connect(anywhere()),
        )
}

#[test]
fn two_handlers_of_one_name_are_an_error() {
    let twice = || {
        ChannelServer::new(CHANNEL)
            .on_send("same", async |_: bytes::Bytes| {})
            .on_request("same", async |payload: bytes::Bytes| Ok(payload))
    };
    let (option, text) = wrong_option(|host| host.mesh(RouteMesh::new(MESH).channel(twice())));
    assert_eq!(option, "orders/same", "{text}");
}

#[test]
fn two_meshes_of_one_name_are_an_error() {
    let (option, text) =
        wrong_option(|host| host.mesh(RouteMesh::new(MESH)).mesh(RouteMesh::new(MESH)));
    assert_eq!(option, "mesh", "{text}");
    assert!(text.contains(MESH), "{text}");
}

#[test]
fn every_violation_is_said_at_once_as_the_golden_file_has_it() {
    let Err(StartError::Config(errors)) = all_wrong().start() else { panic!("it starts") };
    let text = format!("{errors}\n");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(GOLDEN, &text).unwrap();
    }
    let golden = fs::read_to_string(GOLDEN).unwrap();
    let (said, expected): (Vec<_>, Vec<_>) = (text.lines().collect(), golden.lines().collect());
    assert_eq!(said, expected, "UPDATE_GOLDEN=1 writes {GOLDEN}");
}
