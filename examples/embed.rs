//! The smallest program that runs a model: `cargo run --release --example embed [FILE]`.

use std::error::Error;
use std::io::{Write, stdout};

use bloomery_core::{Conversation, Engine, ModelSource};

fn main() -> Result<(), Box<dyn Error>> {
    let model = std::env::args().nth(1).map_or_else(ModelSource::demo, |path| path.as_str().into());
    let engine = Engine::builder(model).plan()?.load(|_| {})?;
    let mut session = engine.session()?;
    let mut chat = Conversation::new();
    chat.user("Tell me a story about a fox.");
    for piece in chat.answer(&mut session, &engine.default_params())? {
        write!(stdout(), "{}", piece?.text)?;
        stdout().flush()?;
    }
    writeln!(stdout())?;
    Ok(())
}
