//! Threads that read rows.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use crate::table::{Place, Table};
use crate::way::Kind;

/// Threads, each with a list of its own.
pub(crate) struct Pool {
    row: usize,
    asks: Vec<Sender<(usize, Vec<Place>)>>,
    answers: Receiver<io::Result<(usize, Vec<u8>)>>,
    under_way: usize,
    threads: Vec<JoinHandle<()>>,
}

impl Pool {
    pub(crate) fn new(table: &Arc<Table>, kind: Kind, count: usize) -> Self {
        let (done, answers) = channel();
        let (mut asks, mut threads) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let (ask, asked) = channel::<(usize, Vec<Place>)>();
            let (table, done) = (table.clone(), done.clone());
            threads.push(thread::spawn(move || {
                for (first, places) in asked {
                    kind.ask(&table, &places);
                    let mut rows = vec![0; places.len() * table.row];
                    let answer = kind.take(&table, &places, &mut rows).map(|()| (first, rows));
                    if done.send(answer).is_err() {
                        break;
                    }
                }
            }));
            asks.push(ask);
        }
        Self { row: table.row, asks, answers, under_way: 0, threads }
    }

    /// Has rows read, without waiting for them.
    pub(crate) fn ask(&mut self, places: &[Place]) {
        let each = places.len().div_ceil(self.asks.len()).max(1);
        for (part, (ask, places)) in self.asks.iter().zip(places.chunks(each)).enumerate() {
            if ask.send((part * each, places.to_vec())).is_ok() {
                self.under_way += 1;
            }
        }
    }

    /// Waits for them.
    pub(crate) fn take(&mut self, out: &mut [u8]) -> io::Result<()> {
        for _ in 0..std::mem::take(&mut self.under_way) {
            let (first, rows) = self.answers.recv().map_err(io::Error::other)??;
            out[first * self.row..][..rows.len()].copy_from_slice(&rows);
        }
        Ok(())
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.asks.clear();
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}
