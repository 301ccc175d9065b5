//! Typed questions about a text, answered by a decision model in one pass: what a program does with the answers is in its types.
//! `cargo run --release --example decide MODEL [HEAD] < ticket.txt`; HEAD is the `joint_head.safetensors` of a model whose file
//! has none in it.
#![expect(clippy::print_stdout, reason = "it is a program")]

use std::io::{Read, stdin};

use bloomery_core::decide::{Decider, Json, Question, Value};
use bloomery_core::{Engine, Error};

/// What a ticket turns out to be.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Team {
    Billing,
    Technical,
    Sales,
}

const TEAMS: [(Team, &str, &str); 3] = [
    (Team::Billing, "billing", "Invoices, payments and refunds."),
    (Team::Technical, "technical", "Bugs, outages and errors."),
    (Team::Sales, "sales", "Plans, prices and new contracts."),
];

/// What is done with it.
#[derive(Debug)]
struct Triage {
    team: Team,
    /// How probable that team is.
    sure: f64,
    /// From 0, which can wait, to 2, which is for today.
    urgency: f64,
    /// How probable it is that others have the same trouble.
    outage: f64,
}

fn triage(decider: &Decider, ticket: &str) -> Result<Triage, Box<dyn std::error::Error>> {
    // All questions are answered together, and see each other.
    let questions = [
        Question::choice("team", "Which team should handle this?", TEAMS.map(|(_, name, what)| (name, what))),
        Question::score("urgency", "How urgent is it?", ["Can wait", "This week", "Today"]),
        Question::noul("outage", "Is the service down for everyone?"),
    ];
    let decision = decider.decide(&Json::from(ticket), &questions)?;
    if decision.cut > 0 {
        println!("the last {} tokens had no room", decision.cut);
    }
    // Answers come in the order of the questions.
    match decision.answers.iter().map(|answer| &answer.value).collect::<Vec<_>>()[..] {
        [Value::Choice { best, options }, Value::Score { level, .. }, Value::Noul(outage)] => {
            Ok(Triage { team: TEAMS[*best].0, sure: options[*best].1, urgency: *level, outage: *outage })
        }
        _ => Err("an answer has another kind than its question".into()),
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let model = words.next().ok_or("name a decision model: decide MODEL [HEAD] < TEXT")?;
    let mut builder = Engine::builder(model.as_str());
    if let Some(head) = words.next() {
        builder = builder.head(head);
    }
    let engine = builder.plan()?.load(|_| {}).map_err(Error::from)?;
    let decider = engine.decider()?;

    let mut ticket = String::new();
    stdin().read_to_string(&mut ticket)?;
    let Triage { team, sure, urgency, outage } = triage(&decider, ticket.trim())?;
    println!("for {team:?} ({:.0} %), urgency {urgency:.2} of 2", 100.0 * sure);
    if outage > 0.5 {
        println!("perhaps an outage ({:.0} %)", 100.0 * outage);
    }
    Ok(())
}
