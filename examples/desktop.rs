//! How a desktop program runs a model: a worker thread owns the session, the window's thread never waits for it, and a
//! stop button cancels. No async. The terminal stands for the window: a line is the send button, `/stop` the stop
//! button, `/quit` the close button. `cargo run --release --example desktop [FILE]`.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use bloomery_core::{Cancel, Conversation, Engine, EngineError, Error, ModelSource, Params, Session};

/// Between two frames at 60 Hz.
const FRAME: Duration = Duration::from_micros(16_667);

/// From the window to the worker: a text, and the stop button of its answer.
type Question = (String, Cancel);

/// What the window reacts to.
enum Event {
    Line(String),
    InputEnded,
    Ready(String),
    Piece(String),
    Ended(String),
    Broken(Error),
}

fn main() -> io::Result<ExitCode> {
    let model = std::env::args().nth(1).map_or_else(ModelSource::demo, |path| path.as_str().into());
    let (to_window, events) = mpsc::channel();
    let (to_worker, questions) = mpsc::channel();
    let keyboard = to_window.clone();
    thread::spawn(move || {
        io::stdin().lines().map_while(Result::ok).all(|line| keyboard.send(Event::Line(line)).is_ok());
        // The window may be gone already; so may it wherever else the result of `send` is dropped.
        let _ = keyboard.send(Event::InputEnded);
    });
    let worker = thread::spawn(move || {
        if let Err(error) = work(model, &questions, &to_window) {
            let _ = to_window.send(Event::Broken(error));
        }
    });
    let code = Window::new(to_worker).run(&events)?;
    // The window took its end of the questions with it, so the worker ends after the step it is in.
    Ok(if worker.join().is_ok() { code } else { ExitCode::FAILURE })
}

/// Loads the model and answers questions until the window is gone.
fn work(model: ModelSource, questions: &Receiver<Question>, window: &Sender<Event>) -> Result<(), Error> {
    let engine = Engine::builder(model).plan()?.load(|_| {})?;
    let (mut session, mut chat) = (engine.session()?, Conversation::new());
    let _ = window.send(Event::Ready(engine.model().summary()));
    for (question, cancel) in questions {
        chat.user(&question);
        let ended = answer(&mut chat, &mut session, &cancel, window).unwrap_or_else(|error| {
            chat.pop();
            error.to_string()
        });
        let _ = window.send(Event::Ended(ended));
    }
    Ok(())
}

/// One answer; returns how it ended. What a stopped one has said stays part of the conversation.
fn answer(
    chat: &mut Conversation,
    session: &mut Session,
    cancel: &Cancel,
    window: &Sender<Event>,
) -> Result<String, EngineError> {
    let params = Params { max_tokens: Some(256), ..session.engine().default_params() };
    let mut generation = chat.answer(session, &params)?.cancelled_by(cancel);
    let mut text = String::new();
    for piece in generation.by_ref() {
        let piece = piece?.text;
        text += &piece;
        let _ = window.send(Event::Piece(piece));
    }
    let tokens = generation.timings().generated;
    let reason = generation.stop_reason().map_or_else(String::new, |reason| format!("{reason:?}, "));
    chat.assistant(&text);
    Ok(format!("{reason}{tokens} tokens"))
}

/// Everything that the window's thread owns.
struct Window {
    worker: Sender<Question>,
    /// Of questions that are not answered yet, oldest first.
    running: VecDeque<Cancel>,
    /// Not drawn yet: many pieces can arrive between two frames.
    text: String,
    /// Drawn since the last answer.
    frames: usize,
    input_ended: bool,
}

impl Window {
    fn new(worker: Sender<Question>) -> Self {
        Self { worker, running: VecDeque::new(), text: String::new(), frames: 0, input_ended: false }
    }

    /// The event loop: waits for events until the next frame is due.
    fn run(mut self, events: &Receiver<Event>) -> io::Result<ExitCode> {
        let mut due = Instant::now() + FRAME;
        while !(self.input_ended && self.running.is_empty()) {
            match events.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Ok(Event::Line(line)) if line == "/quit" => break,
                Ok(Event::Line(line)) if line == "/stop" => {
                    self.running.iter().take(1).for_each(Cancel::cancel)
                }
                Ok(Event::Line(text)) => self.ask(text),
                Ok(Event::InputEnded) => self.input_ended = true,
                Ok(Event::Ready(model)) => self.text += &format!("[{model}]\n"),
                Ok(Event::Piece(text)) => self.text += &text,
                Ok(Event::Ended(how)) => {
                    self.running.pop_front();
                    self.text += &format!("\n[{how}, {} frames]\n", std::mem::take(&mut self.frames));
                }
                Ok(Event::Broken(error)) => {
                    writeln!(io::stderr(), "desktop: {error}")?;
                    return Ok(ExitCode::FAILURE);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if Instant::now() >= due {
                self.draw()?;
                due = Instant::now() + FRAME;
            }
        }
        self.running.iter().for_each(Cancel::cancel);
        self.draw()?;
        Ok(ExitCode::SUCCESS)
    }

    fn ask(&mut self, text: String) {
        let cancel = Cancel::default();
        self.running.push_back(cancel.clone());
        let _ = self.worker.send((text, cancel));
    }

    fn draw(&mut self) -> io::Result<()> {
        self.frames += 1;
        io::stdout().write_all(std::mem::take(&mut self.text).as_bytes())?;
        io::stdout().flush()
    }
}
