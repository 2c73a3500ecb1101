//! The yardsticks: one loopback connection between two threads, without frames or handlers.
//!
//! One-way messages are copied into batches of 64 KiB, one write for each; the reader counts bytes
//! and acknowledges the last of them. The kernel's buffers are the default ones.

use core::net::Ipv4Addr;
use core::time::Duration;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

use crate::load::{Load, Way};

const BATCH: usize = 64 * 1_024;

/// How many bytes `messages` of a load are.
fn total(load: Load, messages: u32) -> usize {
    load.size * usize::try_from(messages).unwrap()
}

pub(crate) fn blocking(load: Load) -> Duration {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        socket.set_nodelay(true).unwrap();
        for messages in [load.warm_up, load.messages] {
            blocking_server(&mut socket, load, messages);
        }
    });
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_nodelay(true).unwrap();
    blocking_client(&mut socket, load, load.warm_up);
    let begun = Instant::now();
    blocking_client(&mut socket, load, load.messages);
    let elapsed = begun.elapsed();
    server.join().unwrap();
    elapsed
}

fn blocking_server(socket: &mut TcpStream, load: Load, messages: u32) {
    match load.way {
        Way::Echo { .. } => {
            let mut message = vec![0; load.size];
            for _ in 0..messages {
                socket.read_exact(&mut message).unwrap();
                socket.write_all(&message).unwrap();
            }
        }
        Way::OneWay => {
            let mut buffer = vec![0; BATCH];
            let mut left = total(load, messages);
            while left > 0 {
                let most = left.min(BATCH);
                left -= socket.read(&mut buffer[..most]).unwrap();
            }
            socket.write_all(&[1]).unwrap();
        }
    }
}

fn blocking_client(socket: &mut TcpStream, load: Load, messages: u32) {
    let mut message = vec![1; load.size];
    match load.way {
        Way::Echo { .. } => {
            for _ in 0..messages {
                socket.write_all(&message).unwrap();
                socket.read_exact(&mut message).unwrap();
            }
        }
        Way::OneWay => {
            let mut batch = Vec::with_capacity(BATCH);
            for _ in 0..messages {
                batch.extend_from_slice(&message);
                if batch.len() + load.size > BATCH {
                    socket.write_all(&batch).unwrap();
                    batch.clear();
                }
            }
            socket.write_all(&batch).unwrap();
            socket.read_exact(&mut [0]).unwrap();
        }
    }
}

/// A runtime of one thread for each side.
pub(crate) fn tokio(load: Load) -> Duration {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    let server = thread::spawn(move || {
        on_this_thread(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            let (mut socket, _) = listener.accept().await.unwrap();
            socket.set_nodelay(true).unwrap();
            for messages in [load.warm_up, load.messages] {
                tokio_server(&mut socket, load, messages).await;
            }
        });
    });
    let elapsed = on_this_thread(async move {
        let mut socket = tokio::net::TcpStream::connect(address).await.unwrap();
        socket.set_nodelay(true).unwrap();
        tokio_client(&mut socket, load, load.warm_up).await;
        let begun = Instant::now();
        tokio_client(&mut socket, load, load.messages).await;
        begun.elapsed()
    });
    server.join().unwrap();
    elapsed
}

fn on_this_thread<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap().block_on(work)
}

async fn tokio_server(socket: &mut tokio::net::TcpStream, load: Load, messages: u32) {
    match load.way {
        Way::Echo { .. } => {
            let mut message = vec![0; load.size];
            for _ in 0..messages {
                socket.read_exact(&mut message).await.unwrap();
                socket.write_all(&message).await.unwrap();
            }
        }
        Way::OneWay => {
            let mut buffer = vec![0; BATCH];
            let mut left = total(load, messages);
            while left > 0 {
                let most = left.min(BATCH);
                left -= socket.read(&mut buffer[..most]).await.unwrap();
            }
            socket.write_all(&[1]).await.unwrap();
        }
    }
}

async fn tokio_client(socket: &mut tokio::net::TcpStream, load: Load, messages: u32) {
    let mut message = vec![1; load.size];
    match load.way {
        Way::Echo { .. } => {
            for _ in 0..messages {
                socket.write_all(&message).await.unwrap();
                socket.read_exact(&mut message).await.unwrap();
            }
        }
        Way::OneWay => {
            let mut batch = Vec::with_capacity(BATCH);
            for _ in 0..messages {
                batch.extend_from_slice(&message);
                if batch.len() + load.size > BATCH {
                    socket.write_all(&batch).await.unwrap();
                    batch.clear();
                }
            }
            socket.write_all(&batch).await.unwrap();
            socket.read_exact(&mut [0]).await.unwrap();
        }
    }
}
