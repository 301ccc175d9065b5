//! Ways from the file to memory.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crate::options::Options;
use crate::pool::Pool;
use crate::table::{Place, Table};

/// How rows are read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Through the mapping.
    Mapped,
    /// Through the mapping, after the system was told which.
    Advised,
    /// By system calls, after the system was told which.
    AdvisedReads,
    /// By system calls, while another thread tells the system which, in the order of the file.
    AdvisedBeside,
    /// By system calls.
    Reads,
    /// By system calls past the system's cache.
    Direct,
}

impl Kind {
    pub(crate) fn ask(self, table: &Table, places: &[Place]) {
        if matches!(self, Self::Advised | Self::AdvisedReads) {
            places.iter().for_each(|&place| table.advise(place));
        }
    }

    pub(crate) fn take(self, table: &Table, places: &[Place], out: &mut [u8]) -> io::Result<()> {
        let mut rows = out.chunks_exact_mut(table.row).zip(places);
        match self {
            Self::Mapped | Self::Advised => {
                rows.for_each(|(to, &place)| to.copy_from_slice(table.mapped(place)))
            }
            Self::Reads | Self::AdvisedReads | Self::AdvisedBeside => {
                return rows.try_for_each(|(to, &place)| table.read(place, to));
            }
            Self::Direct => {
                let mut pages = table.pages();
                return rows.try_for_each(|(to, &place)| table.read_direct(place, &mut pages, to));
            }
        }
        Ok(())
    }
}

/// A kind of reading, by so many threads; 0: by whoever wants the rows.
#[derive(Clone, Copy)]
pub(crate) struct Way(pub(crate) Kind, pub(crate) usize);

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Kind::Mapped => "mapping",
            Kind::Advised => "madvise, mapping",
            Kind::AdvisedReads => "madvise, pread",
            Kind::AdvisedBeside => "madvise beside pread",
            Kind::Reads => "pread",
            Kind::Direct => "direct pread",
        })?;
        match self.1 {
            0 => Ok(()),
            1 => f.write_str(", 1 thread"),
            count => write!(f, ", {count} threads"),
        }
    }
}

/// A cold table, and who reads it.
pub(crate) struct Reader {
    pub(crate) table: Arc<Table>,
    kind: Kind,
    pool: Option<Pool>,
    beside: Option<JoinHandle<()>>,
}

impl Reader {
    pub(crate) fn new(options: &Options, Way(kind, threads): Way) -> Result<Self, Box<dyn Error>> {
        let table = Arc::new(Table::cold(options)?);
        let pool = (threads > 0).then(|| Pool::new(&table, kind, threads));
        Ok(Self { table, kind, pool, beside: None })
    }

    /// Has rows read, as far as that can be done without waiting for them.
    pub(crate) fn ask(&mut self, places: &[Place]) {
        if self.kind == Kind::AdvisedBeside {
            let (table, mut places) = (self.table.clone(), places.to_vec());
            self.beside = Some(thread::spawn(move || {
                places.sort_unstable();
                places.iter().for_each(|&place| table.advise(place));
            }));
        }
        match &mut self.pool {
            Some(pool) => pool.ask(places),
            None => self.kind.ask(&self.table, places),
        }
    }

    /// Waits for them.
    pub(crate) fn take(&mut self, places: &[Place], out: &mut [u8]) -> io::Result<()> {
        match &mut self.pool {
            Some(pool) => pool.take(out),
            None => self.kind.take(&self.table, places, out),
        }
    }

    /// Waits for who is still at it although all rows are there.
    pub(crate) fn settle(&mut self) {
        if let Some(beside) = self.beside.take() {
            drop(beside.join());
        }
    }
}
