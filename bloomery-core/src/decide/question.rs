//! What is asked.

use super::error::QuestionError;
use super::json::Json;
use super::render::render;

/// Most options of a choice.
const MOST_OPTIONS: usize = 255;
/// Most levels of a score.
const MOST_LEVELS: usize = 10;
/// What a noul's answers mean where the question does not say.
const TRUE: &str = "The proposition is true or the answer is yes.";
const FALSE: &str = "The proposition is false or the answer is no.";

/// One question about a state: its answer is one of the options that it allows.
///
/// ```
/// use bloomery_core::decide::Question;
///
/// let questions = [
///     Question::choice("team", "Who should handle this?", [("billing", "Invoices"), ("technical", "Bugs")]),
///     Question::score("urgency", "How urgent is it?", ["can wait", "this week", "today"]),
///     Question::noul("outage", "Is the service down for everyone?"),
/// ];
/// # let _ = questions;
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// What the answer is called.
    pub id: String,
    /// What is asked: a text, or any other value, which is shown as JSON. `null` and an empty text stand for the
    /// [`id`](Self::id).
    pub instructions: Json,
    /// The options.
    pub criteria: Criteria,
}

/// The kind of a question, and what its options mean. A description that is `null` is left out of the prompt.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Criteria {
    /// Yes or no, as one probability.
    Noul {
        /// What `true` means.
        yes: Json,
        /// What `false` means.
        no: Json,
    },
    /// One of 1 to 255 options: name and description.
    Choice(Vec<(String, Json)>),
    /// One of 1 to 10 levels, from the lowest.
    Score(Vec<Json>),
}

impl Question {
    /// A question whose answer is yes or no.
    pub fn noul(id: impl Into<String>, instructions: impl Into<Json>) -> Self {
        let criteria = Criteria::Noul { yes: TRUE.into(), no: FALSE.into() };
        Self { id: id.into(), instructions: instructions.into(), criteria }
    }

    /// A question whose answer is one of several names.
    pub fn choice<N: Into<String>, D: Into<Json>>(
        id: impl Into<String>,
        instructions: impl Into<Json>,
        options: impl IntoIterator<Item = (N, D)>,
    ) -> Self {
        let options = options.into_iter().map(|(name, description)| (name.into(), description.into()));
        let criteria = Criteria::Choice(options.collect());
        Self { id: id.into(), instructions: instructions.into(), criteria }
    }

    /// A question whose answer is a level of a scale.
    pub fn score<D: Into<Json>>(
        id: impl Into<String>,
        instructions: impl Into<Json>,
        levels: impl IntoIterator<Item = D>,
    ) -> Self {
        let criteria = Criteria::Score(levels.into_iter().map(Into::into).collect());
        Self { id: id.into(), instructions: instructions.into(), criteria }
    }

    /// The questions of a request's `questions`: an object of
    /// `{"type": "noul" | "choice" | "score", "instructions", "criteria"}` by their ids.
    ///
    /// # Errors
    /// [`QuestionError`] with the first question that is wrong, and how.
    pub fn from_json(questions: &Json) -> Result<Vec<Self>, QuestionError> {
        let questions = match questions {
            Json::Object(pairs) if !pairs.is_empty() => pairs,
            _ => return Err(QuestionError::None),
        };
        questions.iter().map(|(id, value)| Self::read(id, value)).collect()
    }

    fn read(id: &str, value: &Json) -> Result<Self, QuestionError> {
        let wrong = |why: &str| QuestionError::Wrong { id: id.to_owned(), why: why.to_owned() };
        let Json::Object(_) = value else { return Err(wrong("must be an object")) };
        let Some(Json::Text(kind)) = value.get("type") else { return Err(wrong(TYPES)) };
        let instructions = value.get("instructions").cloned().unwrap_or(Json::Null);
        let criteria = match (kind.as_str(), value.get("criteria")) {
            ("noul", None | Some(Json::Null)) => Self::noul(id, "").criteria,
            ("noul", Some(criteria @ Json::Object(_))) => {
                let meaning = |key: &str, usual: &str| criteria.get(key).cloned().unwrap_or(usual.into());
                Criteria::Noul { yes: meaning("true", TRUE), no: meaning("false", FALSE) }
            }
            ("noul", Some(_)) => return Err(wrong("\"criteria\" must be an object")),
            ("choice", Some(Json::Object(pairs))) if !pairs.is_empty() => Criteria::Choice(pairs.clone()),
            ("choice", _) => return Err(wrong("\"criteria\" must be a non-empty object")),
            ("score", Some(Json::List(levels))) if (1..=MOST_LEVELS).contains(&levels.len()) => {
                Criteria::Score(levels.clone())
            }
            ("score", _) => return Err(wrong("\"criteria\" must be an array of 1 to 10 levels")),
            _ => return Err(wrong(TYPES)),
        };
        let question = Self { id: id.to_owned(), instructions, criteria };
        question.check()?;
        Ok(question)
    }

    /// Whether the number of options is possible, and their names are distinct.
    pub(super) fn check(&self) -> Result<(), QuestionError> {
        let found = self.criteria.options();
        let most = match &self.criteria {
            Criteria::Noul { .. } => return Ok(()),
            Criteria::Choice(_) => MOST_OPTIONS,
            Criteria::Score(_) => MOST_LEVELS,
        };
        let wrong = |why: String| Err(QuestionError::Wrong { id: self.id.clone(), why });
        if found == 0 {
            return wrong("has no options".to_owned());
        }
        if found > most {
            return wrong(format!("too many options ({found}), this model supports at most {most}"));
        }
        if let Criteria::Choice(options) = &self.criteria {
            let mut names: Vec<&str> = options.iter().map(|(name, _)| name.as_str()).collect();
            names.sort_unstable();
            if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
                return wrong(format!("has two options {:?}", twice[0]));
            }
        }
        Ok(())
    }

    /// What the prompt asks.
    pub(super) fn asked(&self) -> String {
        match &self.instructions {
            Json::Null => self.id.clone(),
            Json::Text(text) if text.is_empty() => self.id.clone(),
            other => render(other),
        }
    }
}

const TYPES: &str = "\"type\" must be one of: choice, score, noul";

impl Criteria {
    /// How many options there are.
    #[must_use]
    pub fn options(&self) -> usize {
        match self {
            Self::Noul { .. } => 2,
            Self::Choice(options) => options.len(),
            Self::Score(levels) => levels.len(),
        }
    }

    /// The word in prompts.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Noul { .. } => "noul",
            Self::Choice(_) => "choice",
            Self::Score(_) => "score",
        }
    }

    /// The row of the type embedding.
    pub(super) fn number(&self) -> usize {
        match self {
            Self::Noul { .. } => 0,
            Self::Choice(_) => 1,
            Self::Score(_) => 2,
        }
    }

    /// Names and descriptions, in the order of the prompt, each with its place in the question.
    pub(super) fn listed(&self) -> Vec<(usize, String, &Json)> {
        match self {
            Self::Noul { yes, no } => vec![(0, "true".to_owned(), yes), (1, "false".to_owned(), no)],
            Self::Score(levels) => {
                levels.iter().enumerate().map(|(index, level)| (index, index.to_string(), level)).collect()
            }
            Self::Choice(options) => {
                let mut listed: Vec<_> = options
                    .iter()
                    .enumerate()
                    .map(|(index, (name, text))| (index, name.clone(), text))
                    .collect();
                listed.sort_by(|(_, a, _), (_, b, _)| a.cmp(b));
                listed
            }
        }
    }
}
