//! `bloomery-chat`: talk to a GGUF model in the terminal.
#![forbid(unsafe_code)]

mod args;
mod input;
mod interrupt;
mod sampling;
mod talk;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use bloomery_core::{Context, StopReason};
use bloomery_examples::{Failure, Status, load, run};

use args::Args;
use input::{Input, Line};
use interrupt::Interrupts;
use talk::Talk;

const HELP: &str = "/clear  forget the conversation
/quit   leave (also Ctrl-D)
/help   this
Ctrl-C stops an answer; twice at the prompt it leaves.";

fn main() -> ExitCode {
    run(&args::ALIASES, chat)
}

fn chat(args: Args) -> Result<(), Failure> {
    let interrupts = Interrupts::install()?;
    let context = match args.ctx_size {
        0 => Context::Auto,
        n => Context::Tokens(n),
    };
    let name = args.model.name();
    let about = |failure: Failure| failure.about(&name);
    let plan = args.model.builder()?.context(context).plan().map_err(|error| about(error.into()))?;
    if args.verbose {
        note(&plan.to_string());
    }
    let engine = load(plan).map_err(about)?;
    let mut talk = Talk::new(engine, &args, interrupts.clone())?;
    if !talk.has_template() {
        note("the model has no chat template: its text is continued as it stands");
    }
    match args.prompt() {
        Some(prompt) => once(&mut talk, &prompt, args.verbose),
        None => converse(&mut talk, args.verbose),
    }
}

/// One question, one answer; nothing but the answer on stdout.
fn once(talk: &mut Talk, prompt: &str, verbose: bool) -> Result<(), Failure> {
    let stop = answer(talk, prompt, verbose)?;
    match stop {
        Some(StopReason::Cancelled) => Err(Failure::new(Status::Interrupted, "interrupted")),
        _ => Ok(()),
    }
}

/// A message a line until the end of the input.
fn converse(talk: &mut Talk, verbose: bool) -> Result<(), Failure> {
    let interactive = io::stdin().is_terminal();
    let mut input = Input::new(interactive)?;
    let mut first_failure = None;
    loop {
        let message = match input.next()? {
            Line::End => break,
            Line::Message(message) => message,
        };
        match message.trim() {
            "" => {}
            "/quit" | "/exit" => break,
            "/help" => note(HELP),
            "/clear" => {
                talk.clear()?;
                if interactive {
                    note("the conversation is forgotten");
                }
            }
            _ => match answer(talk, &message, verbose) {
                Ok(_) => {}
                Err(failure) if failure.status == Status::Data => {
                    note(&format!("{}: /clear starts over", failure.message));
                    first_failure.get_or_insert(failure);
                }
                Err(failure) => return Err(failure),
            },
        }
    }
    match first_failure.filter(|_| !interactive) {
        Some(failure) => Err(failure),
        None => Ok(()),
    }
}

/// Streams an answer to stdout and says on stderr why it ended, where that is not the model's doing.
fn answer(talk: &mut Talk, message: &str, verbose: bool) -> Result<Option<StopReason>, Failure> {
    let mut out = io::stdout().lock();
    let mut last = None;
    let report = talk.answer(message, |text| {
        last = text.chars().last().or(last);
        out.write_all(text.as_bytes())?;
        out.flush()
    })?;
    if last != Some('\n') {
        out.write_all(b"\n")?;
        out.flush()?;
    }
    if report.stop == Some(StopReason::ContextFull) {
        note(&format!("the context of {} tokens is full: /clear starts over", talk.context()));
    }
    if verbose {
        let timings = report.timings;
        note(&format!(
            "prompt {} tokens ({} cached), {:.1} tokens/s; answer {} tokens, {:.1} tokens/s; context {} of {}",
            timings.prompt + timings.cached,
            timings.cached,
            timings.prompt_rate(),
            timings.generated,
            timings.generate_rate(),
            talk.len(),
            talk.context(),
        ));
    }
    Ok(report.stop)
}

/// A line on stderr. That it cannot be written is no reason to stop talking.
fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}
