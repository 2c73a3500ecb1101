//! Which scripts there are, by file, and what is made of each.

/// Calls `$then` with the scripts that need nothing but a driver.
macro_rules! on_any_network {
    ($then:ident, $stands:tt) => {
        $then! { $stands,
            closing {
                half_close_still_sends_at_the_end_of_the_stream
                half_close_is_told_once
                linger_delivers_everything_although_input_is_unread
                closing_while_a_receive_is_in_flight_sends_a_fin
                closing_while_a_send_is_in_flight_brings_the_batch_back_first
                a_batch_for_a_socket_that_is_closing_comes_back
                closing_a_listener_ends_its_accept_and_is_not_told_as_a_failure
                closing_a_listener_resets_who_waits_in_its_backlog
                closing_with_input_unread_resets_the_peer
                closing_twice_is_told_once
                fd_reuse_never_gives_a_socket_what_was_meant_for_the_one_before
                sockets_that_come_and_go_in_one_place_never_see_each_others_bytes
            }
            connecting {
                connecting_to_a_port_that_nobody_listens_on_is_refused
                connecting_to_a_path_that_does_not_exist_says_so
                connecting_to_a_path_that_is_too_long_is_an_outcome_and_no_panic
                connecting_where_a_listener_was_is_refused
                one_accept_takes_many_connections
                connections_that_came_before_the_accept_are_taken
                accepting_on_what_does_not_listen_stops
                a_full_table_gives_the_socket_back
                a_connection_that_finds_a_full_table_is_closed_and_a_later_one_is_taken
            }
            crowds {
                many_sockets_are_served_at_once_and_each_gets_its_own
                many_sockets_are_closed_at_once_and_each_peer_reads_to_the_end
                many_sockets_are_paused_at_once_and_armed_again
                many_sockets_that_share_two_buffers_all_get_everything
                a_flood_on_one_socket_does_not_keep_another_from_being_heard
            }
            moving {
                a_released_socket_brings_the_bytes_that_wait_in_it
                a_socket_with_something_in_flight_is_not_released
                the_name_of_a_released_socket_is_dead
                a_listener_moves_with_the_connections_that_wait_for_it
            }
            pausing {
                recv_cancel_loss_does_not_happen_bytes_come_before_the_pause_is_told
                cancel_race_loses_nothing_while_bytes_stream_in
                a_paused_socket_stays_silent
                pausing_what_does_not_receive_says_nothing
                pausing_twice_is_told_once
                the_end_of_the_stream_is_told_although_a_pause_is_under_way
                the_end_of_the_stream_waits_behind_a_pause
            }
            sending {
                short_send_goes_on_where_it_stopped
                short_send_goes_on_over_a_unix_socket
                short_send_tells_what_was_taken_and_brings_the_batch_back_as_it_was
                a_batch_with_more_segments_than_one_send_takes_arrives_whole
                send_order_is_kept_both_ways_at_once
                a_megabyte_each_way_at_once_does_not_jam_small_buffers
                backpressure_a_peer_that_does_not_read_is_sent_what_both_buffers_hold
                sending_to_a_peer_that_is_gone_fails_soon
                nothing_is_sent_after_shutting_down_but_what_was_in_flight
                shutting_down_waits_for_a_send_that_waits_for_room
                a_batch_of_nothing_comes_back
            }
            waking {
                a_wake_before_a_park_ends_it
                a_wake_by_another_thread_ends_a_park
                many_wakes_end_one_park_and_not_two
                min_wait_is_one_the_first_completion_ends_a_park
                a_park_does_not_sleep_on_what_is_there_already
                time_that_is_up_is_no_error
                a_waker_may_outlive_its_driver
            }
        }
    };
}

/// Calls `$then` with the scripts that hold one end of a connection themselves.
macro_rules! on_real_sockets {
    ($then:ident, $stands:tt) => {
        $then! { $stands,
            accepting {
                an_accepted_connection_is_set_up_as_was_asked_and_ends_with_an_exec
                accepting_stops_without_descriptors_and_goes_on_when_there_are_some
                connect_timeout_is_the_callers_and_closing_ends_the_attempt
                a_connect_waits_for_room_in_the_backlog_of_a_unix_listener
                a_connect_that_waits_for_a_unix_listener_can_be_given_up
                a_peer_that_is_accepted_and_closed_reads_to_the_end
            }
            dropping {
                a_dropped_driver_frees_what_was_in_flight_and_closes_its_sockets
                a_driver_can_be_dropped_before_its_operations_were_handed_over
                connections_that_nobody_took_are_closed_with_the_driver
                a_dropped_driver_gives_all_descriptors_back
            }
            peers {
                a_reset_ends_the_receive_and_every_send_after_it
                everything_a_peer_wrote_before_it_closed_is_received
                recv_cancel_loss_does_not_happen_whatever_a_peer_writes_meanwhile
            }
            sigpipe {
                sigpipe_is_not_raised_by_sending_to_a_peer_that_is_gone
            }
            threads {
                a_wake_that_a_poll_has_taken_in_still_ends_the_next_park
                another_thread_ends_a_park_again_and_again
                bytes_end_a_park
                a_connection_ends_a_park
            }
        }
    };
}

/// A script for one stand, with the name of the test that plays it.
macro_rules! script {
    ($stand:ty, $file:ident, $script:ident) => {
        $crate::stand::Script::<$stand> {
            test: concat!(module_path!(), "::", stringify!($script)),
            play: $crate::scripts::$file::$script,
        }
    };
}

/// One test for each script, on one stand.
macro_rules! play_on {
    ([$stand:ty], $($file:ident { $($script:ident)* })*) => {
        $($(
            #[test]
            fn $script() {
                $crate::stand::run(&script!($stand, $file, $script));
            }
        )*)*
    };
}

/// One test for each script, on several stands.
macro_rules! compare_on {
    ($stands:tt, $($file:ident { $($script:ident)* })*) => {
        $($(
            #[test]
            fn $script() {
                compare_one!($stands, $file, $script);
            }
        )*)*
    };
}

macro_rules! compare_one {
    ([$($stand:ty),+], $file:ident, $script:ident) => {
        let test = concat!(module_path!(), "::", stringify!($script));
        $crate::alike::compare(test, &[$($crate::alike::told(&script!($stand, $file, $script))),+]);
    };
}
