//! What is timed, and the tables of it.

use std::error::Error;
use std::hint::black_box;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use crate::options::Options;
use crate::table::{Place, Random, Table, disk_bytes};
use crate::way::{Kind, Reader, Way};

/// What a step computes before it wants rows that it asked for.
const AHEAD: Duration = Duration::from_millis(5);

const WAYS: [Way; 18] = [
    Way(Kind::Mapped, 0),
    Way(Kind::Advised, 0),
    Way(Kind::AdvisedReads, 0),
    Way(Kind::Advised, 4),
    Way(Kind::AdvisedReads, 4),
    Way(Kind::Advised, 8),
    Way(Kind::AdvisedReads, 8),
    Way(Kind::AdvisedBeside, 8),
    Way(Kind::AdvisedBeside, 16),
    Way(Kind::Reads, 1),
    Way(Kind::Reads, 4),
    Way(Kind::Reads, 8),
    Way(Kind::Reads, 16),
    Way(Kind::Direct, 1),
    Way(Kind::Direct, 4),
    Way(Kind::Direct, 8),
    Way(Kind::Direct, 16),
    Way(Kind::Direct, 32),
];

/// Whether a prompt's rows, one after another, would take minutes.
fn is_slow(way: Way) -> bool {
    matches!(way, Way(Kind::Mapped, _) | Way(Kind::Reads | Kind::Direct, 1))
}

pub(crate) fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    Table::make(options)?;
    let mut out = io::stdout();
    let (rows, row, gib, tokens) = (options.rows, options.row, options.bytes >> 30, options.tokens);
    writeln!(
        out,
        "{rows} rows of {row} bytes a token, {gib} GiB, {tokens} tokens; microseconds: median (99th percentile)\n"
    )?;
    writeln!(
        out,
        "| rows of a token | cold | 5 ms ahead: ask | take | again | KiB read |\n|---|---:|---:|---:|---:|---:|"
    )?;
    let mut random = Random(2);
    for way in WAYS {
        let before = disk_bytes()?;
        let [cold, ask, take, again] = one_by_one(options, way, &mut random)?;
        // Every round has cold rows twice, and direct reads read them again.
        let rounds = options.tokens as u64 * if way.0 == Kind::Direct { 3 } else { 2 };
        let read = ((disk_bytes()? - before) / rounds) >> 10;
        writeln!(out, "| {way} | {cold} | {ask} | {take} | {again} | {read} |")?;
    }
    for &prompt in &options.prompts {
        writeln!(
            out,
            "\n| rows of {prompt} tokens, us a token | cold | cold, sorted | again, sorted |\n|---|---:|---:|---:|"
        )?;
        for way in WAYS {
            if prompt > 1024 && is_slow(way) {
                continue;
            }
            let [cold, sorted, again] = sweep(options, way, prompt, &mut random)?;
            writeln!(out, "| {way} | {cold:.1} | {sorted:.1} | {again:.1} |")?;
        }
    }
    Ok(())
}

/// Tokens one by one: cold, asked for before, what asking takes, and again.
fn one_by_one(options: &Options, way: Way, random: &mut Random) -> Result<[Times; 4], Box<dyn Error>> {
    let mut reader = Reader::new(options, way)?;
    let mut rows = vec![0; options.rows * options.row];
    let mut times = [(); 4].map(|()| Times(Vec::new()));
    let [cold, ask, take, again] = &mut times;
    for _ in 0..options.tokens {
        let places = reader.table.places(random, options.rows);
        cold.time(|| read(&mut reader, &places, &mut rows))?;
        reader.settle();
        again.time(|| read(&mut reader, &places, &mut rows))?;
        let places = reader.table.places(random, options.rows);
        ask.time(|| {
            reader.ask(&places);
            Ok(())
        })?;
        let start = Instant::now();
        while start.elapsed() < AHEAD {
            std::hint::spin_loop();
        }
        take.time(|| reader.take(&places, &mut rows))?;
    }
    Ok(times)
}

/// A prompt's rows in one go: microseconds of a token as they come, sorted, and again.
fn sweep(
    options: &Options,
    way: Way,
    prompt: usize,
    random: &mut Random,
) -> Result<[f64; 3], Box<dyn Error>> {
    let mut rows = vec![0; prompt * options.rows * options.row];
    let mut once = |reader: &mut Reader, places: &[Place]| {
        let start = Instant::now();
        read(reader, places, &mut rows)?;
        Ok::<_, io::Error>(start.elapsed().as_secs_f64() * 1e6 / prompt as f64)
    };
    let mut reader = Reader::new(options, way)?;
    let places = reader.table.places(random, prompt * options.rows);
    let cold = once(&mut reader, &places)?;
    drop(reader);
    let mut reader = Reader::new(options, way)?;
    let mut places = reader.table.places(random, prompt * options.rows);
    places.sort_unstable();
    let sorted = once(&mut reader, &places)?;
    reader.settle();
    Ok([cold, sorted, once(&mut reader, &places)?])
}

fn read(reader: &mut Reader, places: &[Place], rows: &mut [u8]) -> io::Result<()> {
    reader.ask(places);
    reader.take(places, rows)?;
    black_box(rows);
    Ok(())
}

/// In microseconds.
struct Times(Vec<f64>);

impl Times {
    fn time(&mut self, body: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let start = Instant::now();
        body()?;
        self.0.push(start.elapsed().as_secs_f64() * 1e6);
        Ok(())
    }
}

impl std::fmt::Display for Times {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let at = |share: f64| sorted[((sorted.len() - 1) as f64 * share) as usize];
        write!(f, "{:.0} ({:.0})", at(0.5), at(0.99))
    }
}
