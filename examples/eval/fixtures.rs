//! Model files against reference logits, continuations and routes of independent engines.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bloomery_core::{Context, Engine, EngineError, LoadError, Logits, Numerics, PlanError, Turn};
use bloomery_examples::stats::{argmax, kl_divergence, log_softmax, max_abs, median};
use bloomery_examples::{Failure, Status};

use crate::golden::{Golden, read_folder};
use crate::routes::routes;

/// Check every model-*.gguf of some folders against its golden.json and print a table; exits 1 on a disagreement
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folders with golden.json, or folders of such folders
    #[arg(value_name = "DIR", required = true)]
    folders: Vec<PathBuf>,
}

/// Exact numerics differ from the reference by what reordered float32 sums do, times ten; every real mistake tried
/// moved a logit by 0.09 or more.
const EXACT_ABS: f32 = 1e-3;
const EXACT_KLD: f64 = 1e-7;
const CHUNKS: [usize; 3] = [1, 7, 16];

/// Medians over positions for rounded activations: twice what llama.cpp's own rounded kernels do.
struct Limits {
    abs: f64,
    kld: f64,
}

impl Limits {
    /// By the format that the file's name ends in.
    fn of(model: &Path) -> Self {
        let stem = model.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        match stem.rsplit_once('-').map_or(stem, |(_, format)| format) {
            // Activations stay f32 beside these weights: the f16 cache alone rounds.
            "bf16" | "f16" | "f32" => Self { abs: 0.05, kld: 2e-4 },
            "q8_0" | "mxfp4_moe" => Self { abs: 0.3, kld: 1.2e-3 },
            _ => Self { abs: 0.5, kld: 3e-3 },
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let folders = folders(&args.folders)?;
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "| model | exact: max abs | max KLD | routes | greedy | fast: median abs | median KLD | greedy | chunks | |"
    )?;
    writeln!(out, "|---|---:|---:|---|---:|---:|---:|---:|---|---|")?;
    let (mut checked, mut failed) = (0, 0);
    for folder in folders {
        for golden in read_folder(&folder)? {
            let name = shown(&golden.model);
            match check(&golden)? {
                None => writeln!(out, "| {name} | | | | | | | | | skipped: unknown architecture |")?,
                Some(row) => {
                    checked += 1;
                    failed += usize::from(!row.passed);
                    writeln!(
                        out,
                        "| {name} | {} | {} |",
                        row.cells.join(" | "),
                        if row.passed { "ok" } else { "FAILED" }
                    )?;
                }
            }
            out.flush()?;
        }
    }
    match (checked, failed) {
        (0, _) => Err(Failure::new(Status::NoInput, "no model with a reference was found")),
        (_, 0) => Ok(()),
        _ => Err(Failure::new(
            Status::Failed,
            format!("{failed} of {checked} models disagree with their references"),
        )),
    }
}

/// `arch/model-small-bf16`.
fn shown(model: &Path) -> String {
    let part = |path: Option<&std::ffi::OsStr>| {
        path.map(|part| part.to_string_lossy().into_owned()).unwrap_or_default()
    };
    format!("{}/{}", part(model.parent().and_then(Path::file_name)), part(model.file_stem()))
}

fn folders(given: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    for folder in given {
        if folder.join("golden.json").exists() {
            found.push(folder.clone());
            continue;
        }
        let entries = folder
            .read_dir()
            .map_err(|error| Failure::new(Status::NoInput, error).about(folder.display()))?;
        let mut inside: Vec<PathBuf> = entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
        inside.retain(|path| path.join("golden.json").exists() && path.join("tokens.json").exists());
        inside.sort();
        found.extend(inside);
    }
    Ok(found)
}

struct Row {
    cells: Vec<String>,
    passed: bool,
}

/// `None` if the architecture is not supported.
fn check(golden: &Golden) -> Result<Option<Row>, Failure> {
    let Some(exact) = engine(golden, Numerics::Exact)? else { return Ok(None) };
    let Some(fast) = engine(golden, Numerics::Fast)? else { return Ok(None) };
    let mut row = Row { cells: Vec::new(), passed: true };
    let mut cell = |text: String, passed: bool| {
        row.cells.push(if passed { text } else { format!("**{text}**") });
        row.passed &= passed;
    };

    let whole = all_logits(&exact, golden, usize::MAX)?;
    let distances = distances(golden, &whole);
    let abs = distances.iter().map(|(abs, _)| *abs).fold(0.0, f32::max);
    let kld = distances.iter().map(|(_, kld)| *kld).fold(0.0, f64::max);
    cell(format!("{abs:.1e}"), abs <= EXACT_ABS);
    cell(format!("{kld:.1e}"), kld <= EXACT_KLD);
    match same_routes(&exact, golden)? {
        None => cell("-".to_owned(), true),
        Some((same, all)) => cell(format!("{same}/{all}"), same == all),
    }
    let same = common(&greedy(&exact, golden)?, &golden.greedy);
    cell(format!("{same}/{}", golden.greedy.len()), same == golden.greedy.len());

    let rounded = all_logits(&fast, golden, usize::MAX)?;
    let (abs, kld): (Vec<f64>, Vec<f64>) =
        self::distances(golden, &rounded).into_iter().map(|(abs, kld)| (f64::from(abs), kld)).unzip();
    let limits = Limits::of(&golden.model);
    cell(format!("{:.1e}", median(&abs)), median(&abs) <= limits.abs);
    cell(format!("{:.1e}", median(&kld)), median(&kld) <= limits.kld);
    // Where the reference's best two are closer than the tolerance, either may be taken.
    let sure = golden.margins.iter().take_while(|margin| **margin > limits.abs).count();
    let same = common(&greedy(&fast, golden)?, &golden.greedy);
    cell(format!("{same}/{}", golden.greedy.len()), same >= sure);

    let mut uneven = Vec::new();
    for chunk in CHUNKS {
        if !same_bits(&all_logits(&exact, golden, chunk)?, &whole)
            || !same_bits(&all_logits(&fast, golden, chunk)?, &rounded)
        {
            uneven.push(chunk.to_string());
        }
    }
    match uneven.is_empty() {
        true => cell("equal".to_owned(), true),
        false => cell(format!("differ at {}", uneven.join(", ")), false),
    }
    Ok(Some(row))
}

fn engine(golden: &Golden, numerics: Numerics) -> Result<Option<Engine>, Failure> {
    let context = golden.ids.len() + golden.greedy.len();
    let plan =
        Engine::builder(golden.model.clone()).numerics(numerics).context(Context::Tokens(context)).plan();
    match plan {
        Err(PlanError::Load(LoadError::UnknownArchitecture { .. })) => Ok(None),
        Err(error) => Err(Failure::from(error).about(golden.model.display())),
        Ok(plan) => {
            Ok(Some(plan.load(|_| {}).map_err(|error| Failure::from(error).about(golden.model.display()))?))
        }
    }
}

/// Logits of every id, fed `chunk` ids at a time.
fn all_logits(engine: &Engine, golden: &Golden, chunk: usize) -> Result<Vec<f32>, EngineError> {
    let mut session = engine.session()?;
    let mut logits = Vec::with_capacity(golden.logits.len());
    for part in golden.ids.chunks(chunk) {
        let mut turn = [Turn::new(&mut session, part, Logits::All)];
        engine.step(&mut turn)?;
        logits.extend_from_slice(turn[0].logits());
    }
    Ok(logits)
}

/// Largest difference and divergence of every position from the reference.
fn distances(golden: &Golden, found: &[f32]) -> Vec<(f32, f64)> {
    let rows = golden.logits.chunks_exact(golden.vocab).zip(found.chunks_exact(golden.vocab));
    rows.map(|(a, b)| (max_abs(a, b), kl_divergence(&log_softmax(a), &log_softmax(b)))).collect()
}

/// Positions of all layers whose set of experts is the reference's, and positions in all.
fn same_routes(engine: &Engine, golden: &Golden) -> Result<Option<(usize, usize)>, EngineError> {
    if golden.routes.is_empty() {
        return Ok(None);
    }
    let found = routes(engine, &golden.ids)?;
    let (mut same, mut all) = (0, 0);
    for expected in &golden.routes {
        let found =
            found.iter().find(|found| found.layer == expected.layer).map_or(&[][..], |found| &found.rows);
        all += expected.rows.len();
        same += expected
            .rows
            .iter()
            .zip(found)
            .filter(|(expected, found)| {
                let mut found = found.to_vec();
                found.sort_unstable();
                found == **expected
            })
            .count();
    }
    Ok(Some((same, all)))
}

fn greedy(engine: &Engine, golden: &Golden) -> Result<Vec<u32>, EngineError> {
    let mut session = engine.session()?;
    let mut tokens = vec![argmax(session.prefill(&golden.ids)?)];
    while tokens.len() < golden.greedy.len() {
        let last = tokens[tokens.len() - 1];
        tokens.push(argmax(session.step(last)?));
    }
    Ok(tokens)
}

fn common(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

fn same_bits(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
}
