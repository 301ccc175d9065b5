//! The life of the program: flags, log, sockets, model, signals.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Write};
use std::process::{self, ExitCode};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use bloomery_core::chat::ChatTemplate;
use bloomery_core::constrain::Grammar;
use bloomery_core::scheduler::Scheduler;
use bloomery_core::{CardFacts, Cards, HostFacts, Isa, Placement, Progress, Traffic};
use tokio::sync::{oneshot, watch};
use tokio::time::{interval, sleep};

use crate::app::App;
use crate::args::{self, Command, Print, Settings};
use crate::download;
use crate::exit::{Failure, Status};
use crate::http::{self, Listeners, Ready};
use crate::logs;
use crate::signals::Signals;

/// How often loading says how far it is.
const PROGRESS: Duration = Duration::from_secs(2);

/// How often the engine is looked after.
const WATCH: Duration = Duration::from_millis(500);

/// How long `/health` tells of a failed engine before the process ends.
const FAREWELL: Duration = Duration::from_secs(2);

/// Runs the program. `words` are those after its name, `variables` its environment.
pub fn run(
    words: impl Iterator<Item = OsString>,
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> ExitCode {
    match start(words, variables) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Nobody is left to tell if stderr is closed.
            let _ = writeln!(io::stderr(), "error: {}", failure.message);
            ExitCode::from(failure.status as u8)
        }
    }
}

fn start(
    words: impl Iterator<Item = OsString>,
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> Result<(), Failure> {
    let text = |word: OsString| word.to_string_lossy().into_owned();
    let words: Vec<String> = words.map(text).collect();
    let variables: Vec<(String, String)> = variables.map(|(name, value)| (text(name), text(value))).collect();
    let mut settings = match args::parse(&words, &variables)? {
        Command::Print(what) => return print(&printed(what, variables)?),
        Command::Serve(settings) => *settings,
    };
    let log = logs::dispatch(&settings.logs);
    let log = log.map_err(|error| Failure::new(Status::Io, format!("--log-file: {error}")))?;
    // The first and only one of the process.
    tracing::dispatcher::set_global_default(log).map_err(|error| Failure::new(Status::Software, error))?;
    for warning in &settings.warnings {
        tracing::warn!("{warning}");
    }
    if settings.plan_only {
        download::fetch(&mut settings)?;
        let mut plan =
            settings.engine.plan().map_err(|error| Failure::from(error).about(&settings.serve.model_path))?;
        plan.measure();
        return print(&format!("{plan}\n"));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(Status::Software, error))?;
    let result = runtime.block_on(serve(settings));
    // A model that is still loading is not waited for.
    runtime.shutdown_background();
    result
}

fn print(text: &str) -> Result<(), Failure> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::new(Status::Io, error)),
        _ => Ok(()),
    }
}

fn printed(what: Print, variables: Vec<(String, String)>) -> Result<String, Failure> {
    Ok(match what {
        Print::Cached => return download::cached(variables),
        Print::Help => args::help(),
        Print::Version => format!("bloomery-serve {}\n", env!("CARGO_PKG_VERSION")),
        Print::Completion => args::completion(),
        Print::Devices => {
            let HostFacts { available, cores, .. } = HostFacts::read();
            let cpu = format!("CPU: {:?} kernels, {cores} cores, {available} available\n", Isa::detect());
            let cards = Cards::read();
            let card = |number| match cards.facts(number) {
                Ok(CardFacts { name, total, free, .. }) => {
                    format!("CUDA{number}: {name}, {total}, {free} available\n")
                }
                Err(why) => format!("CUDA{number}: {why}\n"),
            };
            match cards.count() {
                0 => cpu + &cards.facts(0).err().map_or_else(String::new, |why| format!("no card: {why}\n")),
                count => (0..count).fold(cpu, |text, number| text + &card(number)),
            }
        }
    })
}

/// Listens, loads, and answers until a signal or a failure.
async fn serve(settings: Settings) -> Result<(), Failure> {
    let mut signals = Signals::new().map_err(|error| Failure::new(Status::Software, error))?;
    let listeners = http::bind(&settings.http).await?;
    announce(&listeners);
    let ready = Ready::default();
    let (stop, mut stopped) = watch::channel(false);
    let options = settings.http.clone();
    let server = tokio::spawn(http::serve(listeners, options, ready.clone(), async move {
        // An error means that the sender is gone, which is a reason to stop too.
        let _ = stopped.wait_for(|stop| *stop).await;
    }));
    let result = tokio::select! {
        signal = signals.next() => {
            tracing::info!("{signal}: stopping; a second signal stops at once");
            Ok(())
        }
        failure = load_and_watch(settings, &ready) => Err(failure),
    };
    stop.send_replace(true);
    tokio::select! {
        _ = server => {}
        signal = signals.next() => {
            tracing::warn!("{signal}: stopping at once");
            process::exit(Status::AtOnce as i32);
        }
    }
    result
}

/// For people and programs alike: with `--port 0` this is where the port is told, whatever the log says.
fn announce(listeners: &Listeners) {
    for url in listeners.urls() {
        // Nobody is left to tell if stderr is closed.
        let _ = writeln!(io::stderr(), "bloomery-serve: listening on {url}");
    }
}

/// Only returns when something fails.
async fn load_and_watch(settings: Settings, ready: &Ready) -> Failure {
    let (sender, receiver) = oneshot::channel();
    let work = move || {
        // The receiver is gone when the program is stopping.
        let _ = sender.send(load(settings));
    };
    // A thread of its own and not of the runtime: it may outlive that when the program is stopped early.
    if let Err(error) = thread::Builder::new().name("bloomery-load".to_owned()).spawn(work) {
        return Failure::new(Status::Software, error);
    }
    let app = match receiver.await {
        Ok(Ok(app)) => Arc::new(app),
        Ok(Err(failure)) => return failure,
        Err(_) => return Failure::new(Status::Software, "loading panicked"),
    };
    tracing::info!(
        "{} is ready: {} slots of {} tokens",
        app.id(),
        app.scheduler.options().slots,
        app.context()
    );
    ready.set(Arc::clone(&app));
    let mut ticks = interval(WATCH);
    loop {
        ticks.tick().await;
        if let Some(reason) = app.scheduler.status().failure {
            tracing::error!("the engine failed: {reason}");
            sleep(FAREWELL).await;
            return Failure::new(Status::Software, format!("the engine failed: {reason}"));
        }
    }
}

/// Downloads the model if need be, plans and loads it, and puts together what the routes share.
///
/// # Errors
/// Whatever is wrong with the download, the file, the plan or the template, with the name of the file.
pub fn load(mut settings: Settings) -> Result<App, Failure> {
    download::fetch(&mut settings)?;
    let named = |failure: Failure| failure.about(&settings.serve.model_path);
    let mut plan = settings.engine.plan().map_err(|error| named(error.into()))?;
    if matches!(plan.placement(), Placement::Split(_)) {
        plan.measure();
    }
    // Said twice, because a slow server is noticed late.
    if let Some(why) = plan.why().filter(|_| settings.engine.asked_for_card) {
        match plan.placement() {
            Placement::Cpu => tracing::warn!("the model is not on a card: {why}"),
            _ => tracing::warn!("the card does not have all experts: {why}"),
        }
    }
    tracing::info!("{plan}");
    let began = Instant::now();
    let mut said = began;
    let engine = plan.load(|progress| {
        if said.elapsed() > PROGRESS && progress.done < progress.total {
            said = Instant::now();
            tracing::info!("loading: {}", Loaded(progress));
        }
    });
    let engine = engine.map_err(|error| named(error.into()))?;
    tracing::info!("loaded in {:.1} s", began.elapsed().as_secs_f32());
    if let Some(traffic) = engine.traffic()? {
        tracing::info!("{}", Measured(traffic));
    }
    let template = match &settings.template {
        None => None,
        Some(source) => {
            let tokenizer = engine.tokenizer();
            let text = |id: Option<u32>| id.and_then(|id| tokenizer.piece(id)).unwrap_or_default();
            let template = ChatTemplate::new(source, text(tokenizer.bos()), text(tokenizer.eos()));
            Some(template.map_err(|error| Failure::new(Status::Usage, format!("--chat-template: {error}")))?)
        }
    };
    let mut serve = settings.serve.clone();
    serve.params = settings.params(engine.default_params())?;
    // The first grammar of an engine needs the token trie, half a second for 150,000 tokens.
    if engine.decider().is_err()
        && let Err(error) = engine.constraint(&Grammar::json_object())
    {
        tracing::warn!("requests with grammars will be refused: {error}");
    }
    let scheduler = Scheduler::new(engine, settings.engine.scheduler())?;
    Ok(App::new(scheduler, serve, template)?)
}

/// What decides where experts without a slot are computed.
struct Measured(Traffic);

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Traffic { link_rate, host_rate, served_rows, .. } = self.0;
        let [link, host] = [link_rate, host_rate].map(|rate| rate / 1e9);
        write!(
            f,
            "experts come to the card at {link:.0} GB/s and the host reads {host:.0} GB/s of them: steps of "
        )?;
        write!(f, "more than {served_rows} rows bring what is missing")
    }
}

struct Loaded(Progress);

impl fmt::Display for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Progress { done, total } = self.0;
        let percent = 100 * done.0 / total.0.max(1);
        write!(f, "{percent} % ({done} of {total})")
    }
}
