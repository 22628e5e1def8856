//! Who is not of the job: wrong secrets, noise, cut and replayed handshakes, and very many connections. Threads stand for processes.

mod common;

use common::{LIMIT, Random};
use shmem_bootstrap::{Bootstrap, BootstrapError, Refusal, RootAddress, Secret, Settings};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

type Joined = JoinHandle<Result<(), BootstrapError>>;

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn settings(rank: u32, size: u32, port: u16, secret: &str) -> Settings {
    let root = RootAddress::parse(&format!("127.0.0.1:{port}")).unwrap();
    Settings::new(rank, size, root)
        .secret(Secret::new(secret).unwrap())
        .limit(3 * LIMIT)
}

const SECRET: &str = "the secret of this job";

/// Joins and makes a few calls.
fn good(rank: u32, size: u32, port: u16) -> Joined {
    let settings = settings(rank, size, port, SECRET);
    std::thread::spawn(move || {
        let job = Bootstrap::join(&settings)?;
        for _ in 0..10 {
            assert_eq!(
                job.allgather(&[rank as u8], LIMIT)?,
                (0..size).map(|r| vec![r as u8]).collect::<Vec<_>>()
            );
        }
        job.finish(LIMIT)
    })
}

/// A connection once rank 0 listens.
fn connect(port: u16) -> TcpStream {
    let begun = Instant::now();
    loop {
        // A full queue drops the first packet; the system would try again after a second.
        match TcpStream::connect_timeout(&([127, 0, 0, 1], port).into(), Duration::from_millis(50)) {
            Ok(stream) => {
                stream.set_read_timeout(Some(LIMIT)).unwrap();
                return stream;
            }
            Err(e) => assert!(begun.elapsed() < LIMIT, "{e}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn frame(stream: &mut TcpStream) -> Vec<u8> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut all = length.to_vec();
    all.resize(4 + u32::from_le_bytes(length) as usize, 0);
    stream.read_exact(&mut all[4..]).unwrap();
    all
}

/// The other side has closed the connection, and said no more than a refusal before.
fn closed(mut stream: TcpStream) {
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) => {}
        Err(e) => assert_eq!(e.kind(), std::io::ErrorKind::ConnectionReset),
    }
    assert!(rest.len() < 200);
}

fn all_good(joined: Vec<Joined>) {
    for j in joined {
        j.join().unwrap().unwrap();
    }
}

#[test]
fn a_wrong_secret_is_refused_and_the_job_goes_on() {
    let port = free_port();
    let root = good(0, 2, port);
    let wrong = Bootstrap::join(&settings(1, 2, port, "the secret of that job")).unwrap_err();
    let BootstrapError::Refused {
        rank: 1,
        refusal: Refusal::WrongSecret,
        ..
    } = wrong
    else {
        panic!("{wrong}")
    };
    all_good(vec![root, good(1, 2, port)]);
}

#[test]
fn sizes_and_ranks_are_compared() {
    let port = free_port();
    let root = good(0, 3, port);
    let other = Bootstrap::join(&settings(1, 4, port, SECRET)).unwrap_err();
    assert!(
        matches!(
            other,
            BootstrapError::Refused {
                refusal: Refusal::Size { root: 3, peer: 4 },
                ..
            }
        ),
        "{other}"
    );
    let one = good(1, 3, port);
    // Of two that come for rank 1 the first is taken.
    std::thread::sleep(Duration::from_millis(300));
    let twice = Bootstrap::join(&settings(1, 3, port, SECRET)).unwrap_err();
    assert!(
        matches!(
            twice,
            BootstrapError::Refused {
                refusal: Refusal::RankTaken { rank: 1 },
                ..
            }
        ),
        "{twice}"
    );
    all_good(vec![root, one, good(2, 3, port)]);
}

#[test]
fn an_impostor_root_is_noticed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let impostor = std::thread::spawn(move || {
        // Rank 0's first words, of another job, and a proof that is none.
        let (mut stream, _) = listener.accept().unwrap();
        let mut challenge = vec![43, 0, 0, 0, 1];
        challenge.extend(b"shmem\0bs");
        challenge.extend([2, 0]);
        challenge.extend([7; 32]);
        stream.write_all(&challenge).unwrap();
        let hello = frame(&mut stream);
        assert!(
            !hello.windows(SECRET.len()).any(|w| w == SECRET.as_bytes()),
            "the secret was sent"
        );
        stream.write_all(&[33, 0, 0, 0, 4]).unwrap();
        stream.write_all(&[9; 32]).unwrap();
        // And one that speaks something else.
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    });
    for _ in 0..2 {
        let error = Bootstrap::join(&settings(1, 2, port, SECRET)).unwrap_err();
        assert!(matches!(error, BootstrapError::NotOurRoot { .. }), "{error}");
    }
    impostor.join().unwrap();
}

/// What went over a good handshake, recorded by a proxy, is worth nothing on the next connection.
#[test]
fn a_replayed_handshake_is_refused() {
    let port = free_port();
    let root = good(0, 3, port);
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy_port = proxy.local_addr().unwrap().port();
    let one = good(1, 3, proxy_port);
    let (mut inner, _) = proxy.accept().unwrap();
    let mut outer = connect(port);
    inner.write_all(&frame(&mut outer)).unwrap();
    let hello = frame(&mut inner);
    // Not passed on: rank 1 is still free, and the proof was never used. But it is for another connection's random number.
    let mut again = connect(port);
    frame(&mut again);
    again.write_all(&hello).unwrap();
    let answer = frame(&mut again);
    assert_eq!(answer[4..], [3, 0], "refused: wrong secret");
    closed(again);
    drop((inner, outer, proxy));
    // Its connection was cut, and nobody is at its address any more.
    let settings = settings(1, 3, port, SECRET);
    let direct = std::thread::spawn(move || {
        let job = Bootstrap::join(&settings)?;
        for _ in 0..10 {
            job.allgather(&[1], LIMIT)?;
        }
        job.finish(LIMIT)
    });
    all_good(vec![root, direct, good(2, 3, port)]);
    drop(one);
}

/// Rank 0 drops each, and the job is made as if they had not been there.
#[test]
fn noise_and_cut_handshakes_are_dropped() {
    let port = free_port();
    let root = good(0, 2, port);
    let mut random = Random(1);
    for round in 0..300 {
        let mut stream = connect(port);
        let challenge = frame(&mut stream);
        assert_eq!(challenge.len(), 47);
        let length = random.below(600) as usize;
        let mut noise: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
        if round % 2 == 0 && length > 5 {
            // A frame of the right length: the noise gets as far as the fields.
            noise[..4].copy_from_slice(&(length as u32 - 4).to_le_bytes());
            noise[4] = random.below(16) as u8;
        }
        // It may be closed already.
        let _ = stream.write_all(&noise);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        closed(stream);
    }
    all_good(vec![root, good(1, 2, port)]);
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

/// 10^4 connections that say nothing, some held open: no thread each, no end of descriptors, and the others still get in.
#[test]
fn ten_thousand_connections_do_no_harm() {
    let port = free_port();
    let root = good(0, 3, port);
    drop(connect(port));
    let before = threads();
    let mut held = std::collections::VecDeque::new();
    let mut joined = Vec::new();
    for number in 0..10_000 {
        held.push_back(connect(port));
        // More than rank 0 lets wait at a time.
        if held.len() > 200 {
            held.pop_front();
        }
        if number == 5_000 {
            joined.push(good(1, 3, port));
        }
    }
    assert!(threads() <= before + 40, "{before} threads have become {}", threads());
    joined.push(good(2, 3, port));
    joined.push(root);
    all_good(joined);
}
