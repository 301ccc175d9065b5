//! Where a model may live: plans are made and compared before anything is loaded, a refusal carries its numbers, and the
//! context follows from the memory there is. `cargo run --release --example placement [FILE] [MIB]` loads the model with
//! the longest context that fits MIB of memory.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it is a program")]

use std::error::Error;
use std::process::ExitCode;

use bloomery_core::{
    Bytes, CardFacts, Cards, Context, Engine, EngineBuilder, HostFacts, KvType, ModelSource, Placement, Plan,
    PlanError,
};

/// Shorter contexts are of no use to this program.
const SHORTEST: usize = 256;

fn main() -> ExitCode {
    match place() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("placement: {error}");
            ExitCode::FAILURE
        }
    }
}

fn place() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let model = words.next().map_or_else(ModelSource::demo, |path| path.as_str().into());
    let host = HostFacts::read();
    let budget = match words.next() {
        Some(mib) => Bytes(mib.parse::<u64>()?.saturating_mul(1 << 20)),
        None => host.available,
    };
    let builder = Engine::builder(model).sessions(2);

    println!("On this machine:\n");
    for placement in [Placement::auto(), Placement::cpu(), Placement::card(0)] {
        show(&placement.to_string(), builder.clone().placement(placement).plan())?;
    }

    // Plans are pure functions of facts, so a machine that is not here can be asked about as well.
    println!("On another machine:\n");
    let card = Cards::given([CardFacts::new("24 GiB", Bytes(24 << 30))]);
    show("a card of 24 GiB", builder.clone().placement(Placement::card(0)).cards(card).plan())?;

    println!("With {budget} of host memory:\n");
    let builder = builder.placement(Placement::cpu()).host(HostFacts { available: budget, ..host });
    let (kv, plan) = fit(&builder)?;
    println!("loading {} positions with {kv:?} keys and values", plan.context());
    let engine = plan.load(|_| {})?;
    println!("loaded on {}", engine.device());
    Ok(())
}

/// Prints a plan term by term, or the refusal. A file that cannot be run anywhere is an error.
fn show(name: &str, plan: Result<Plan, PlanError>) -> Result<(), PlanError> {
    match plan {
        Ok(plan) => {
            println!("{name}: {}", plan.device());
            for term in plan.terms() {
                println!("  {:<18}{:>12}  {}", term.what, term.bytes.to_string(), term.detail);
            }
            let need: Bytes = plan.terms().iter().map(|term| term.bytes).sum();
            println!("  {:<18}{:>12}  of {}", "sum", need.to_string(), plan.available());
            println!("  {:<18}{:>12}", "context", plan.context());
            println!("  {:<18}{:>12}", "read a token", plan.bytes_per_token().to_string());
            if let Some(why) = plan.why() {
                println!("  no card: {why}");
            }
            println!();
            Ok(())
        }
        Err(error @ PlanError::Load(_)) => Err(error),
        Err(error) => {
            println!("{name}: refused\n  {error}\n");
            Ok(())
        }
    }
}

/// The longest context that fits, halved from what the model was trained for: a smaller cache type comes before a
/// shorter context. Fails with the last refusal.
fn fit(builder: &EngineBuilder) -> Result<(KvType, Plan), PlanError> {
    // What fits is a question of memory alone, so the first plan looks at a machine that has enough.
    let unlimited = HostFacts { available: Bytes(u64::MAX), ..HostFacts::read() };
    let mut context = builder.clone().host(unlimited).plan()?.model().context;
    loop {
        for kv in [KvType::F16, KvType::Q8_0] {
            match builder.clone().context(Context::Tokens(context)).kv(kv).plan() {
                Ok(plan) => return Ok((kv, plan)),
                Err(PlanError::DoesNotFit { need, free, .. }) if context > SHORTEST || kv == KvType::F16 => {
                    println!("{context} positions, {kv:?}: {need} needed, {free} there");
                }
                // Too small a machine, or an error that no other choice would help.
                Err(error) => return Err(error),
            }
        }
        context = (context / 2).max(SHORTEST);
    }
}
