//! From logits to answers.

use super::encode::Field;
use super::error::DecideError;
use super::json::Json;
use super::question::Criteria;

/// The answers to the questions of one prompt.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Decision {
    /// In the order of the questions.
    pub answers: Vec<Answer>,
    /// Tokens of the prompt.
    pub tokens: usize,
    /// Tokens at the end of the state that had no room in it.
    pub cut: usize,
}

/// The answer to one question.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Answer {
    /// The question's id.
    pub id: String,
    /// What is asked for.
    pub value: Value,
    /// In the order of the question's options; the logits the model gave them.
    pub logits: Vec<f32>,
}

/// An answer's value. Options are in the order of the question, and so are their probabilities.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// How probable the yes is.
    Noul(f64),
    /// One of several names.
    Choice {
        /// Number of the most probable option; of equal ones the first.
        best: usize,
        /// Names and probabilities.
        options: Vec<(String, f64)>,
    },
    /// A level of a scale.
    Score {
        /// The mean of the levels' numbers, from 0.
        level: f64,
        /// What levels mean, and their probabilities.
        levels: Vec<(Json, f64)>,
    },
}

impl Answer {
    /// Reads one question's logits, which are in the order of the prompt.
    pub(super) fn new(field: &Field, logits: &[f32]) -> Result<Self, DecideError> {
        let mut ordered = vec![0.0; logits.len()];
        for (option, &logit) in field.options.iter().zip(logits) {
            if !logit.is_finite() {
                let (question, option) = (field.question.id.clone(), option.id.clone());
                return Err(DecideError::NotFinite { question, option });
            }
            ordered[option.index] = logit;
        }
        let probabilities = softmax(&ordered);
        let value = match &field.question.criteria {
            Criteria::Noul { .. } => Value::Noul(probabilities[0]),
            Criteria::Choice(options) => {
                let names = options.iter().map(|(name, _)| name.clone());
                Value::Choice { best: mode(&probabilities), options: names.zip(probabilities).collect() }
            }
            Criteria::Score(levels) => {
                let level = probabilities.iter().enumerate().map(|(index, p)| index as f64 * p).sum();
                Value::Score { level, levels: levels.iter().cloned().zip(probabilities).collect() }
            }
        };
        Ok(Self { id: field.question.id.clone(), value, logits: ordered })
    }

    /// The probabilities of the options: of a noul yes and no.
    #[must_use]
    pub fn probabilities(&self) -> Vec<f64> {
        match &self.value {
            Value::Noul(yes) => vec![*yes, 1.0 - yes],
            Value::Choice { options, .. } => options.iter().map(|(_, p)| *p).collect(),
            Value::Score { levels, .. } => levels.iter().map(|(_, p)| *p).collect(),
        }
    }

    /// How sure the model is, as its release says it: the probability of the most probable option. A noul has none.
    #[must_use]
    pub fn confidence(&self) -> Option<f64> {
        let probabilities = self.probabilities();
        (!matches!(self.value, Value::Noul(_))).then(|| probabilities[mode(&probabilities)])
    }

    /// How sure the model is, as llama.cpp says it: from 0 for options that are equally probable to 1 for one that is certain.
    /// A choice counts the lead over chance, a score how far from the most probable level the others are. A noul has none.
    #[must_use]
    pub fn certainty(&self) -> Option<f64> {
        let probabilities = self.probabilities();
        let (count, best) = (probabilities.len(), mode(&probabilities));
        match self.value {
            Value::Noul(_) => None,
            _ if count < 2 => Some(1.0),
            Value::Choice { .. } => {
                let chance = 1.0 / count as f64;
                Some(((probabilities[best] - chance) / (1.0 - chance)).max(0.0))
            }
            Value::Score { .. } => {
                let spread: f64 =
                    probabilities.iter().enumerate().map(|(level, p)| p * level.abs_diff(best) as f64).sum();
                let middle = (count - 1) as f64 / 2.0;
                let even = (0..count).map(|level| (level as f64 - middle).abs()).sum::<f64>() / count as f64;
                Some((1.0 - spread / even).max(0.0))
            }
        }
    }

    /// The answer as a member of a response's `answers`: the release's form, numbers rounded to four digits.
    #[must_use]
    pub fn to_json(&self) -> Json {
        let number = |value: f64| Json::Float(rounded(value));
        let text = |text: &str| Json::from(text);
        let mut pairs: Vec<(&str, Json)> = Vec::new();
        match &self.value {
            Value::Noul(yes) => pairs.extend([("type", text("noul")), ("noul", number(*yes))]),
            Value::Choice { best, options } => {
                pairs.extend([("type", text("choice")), ("choice", text(&options[*best].0))]);
                pairs.extend(self.confidence().map(|confidence| ("confidence", number(confidence))));
                let listed = options.iter().map(|(name, p)| (name.clone(), number(*p)));
                pairs.push(("probabilities", Json::Object(listed.collect())));
            }
            Value::Score { level, levels } => {
                pairs.extend([("type", text("score")), ("score", number(*level))]);
                pairs.extend(self.confidence().map(|confidence| ("confidence", number(confidence))));
                let numbered = || levels.iter().enumerate().map(|(index, level)| (index.to_string(), level));
                let legend = numbered().map(|(index, (meaning, _))| (index, meaning.clone()));
                pairs.push(("legend", Json::Object(legend.collect())));
                let listed = numbered().map(|(index, (_, p))| (index, number(*p)));
                pairs.push(("probabilities", Json::Object(listed.collect())));
            }
        }
        Json::Object(pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
    }
}

impl Decision {
    /// A response's `answers`.
    #[must_use]
    pub fn to_json(&self) -> Json {
        Json::Object(self.answers.iter().map(|answer| (answer.id.clone(), answer.to_json())).collect())
    }
}

/// `round(value, 4)` of Python: to the nearest of four digits, by the exact value of the float.
fn rounded(value: f64) -> f64 {
    format!("{value:.4}").parse().unwrap_or(value)
}

fn softmax(logits: &[f32]) -> Vec<f64> {
    let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let weights: Vec<f64> = logits.iter().map(|&logit| (f64::from(logit) - f64::from(most)).exp()).collect();
    let sum: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / sum).collect()
}

/// The first of the largest.
fn mode(probabilities: &[f64]) -> usize {
    let mut best = 0;
    for (index, &p) in probabilities.iter().enumerate() {
        if p > probabilities[best] {
            best = index;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::super::question::Question;
    use super::*;
    use crate::decide::encode::FieldOption;

    fn answer(question: Question, logits: &[f32]) -> Answer {
        let option = |(index, id, _): (usize, String, &Json)| FieldOption { id, index, span: 0..1 };
        let options = question.criteria.listed().into_iter().map(option).collect();
        Answer::new(&Field { span: 0..1, options, question }, logits).unwrap()
    }

    /// Logits with these probabilities.
    fn logs(probabilities: &[f32]) -> Vec<f32> {
        probabilities.iter().map(|p| p.ln()).collect()
    }

    fn close(found: Option<f64>, expected: f64) {
        assert!((found.unwrap() - expected).abs() < 1e-6, "{found:?} {expected}");
    }

    #[test]
    fn answers_in_the_form_of_the_release() {
        // The prompt has `billing` first, the question `technical`.
        let choice = answer(Question::choice("d", "?", [("technical", "t"), ("billing", "b")]), &[0.0, 2.0]);
        assert_eq!(
            choice.to_json().to_string(),
            r#"{"type":"choice","choice":"technical","confidence":0.8808,"probabilities":{"technical":0.8808,"billing":0.1192}}"#
        );
        close(choice.certainty(), 0.7615941);
        let score = answer(Question::score("s", "?", ["Can wait", "This week", "Today"]), &[0.0, 1.0, 0.5]);
        assert_eq!(
            score.to_json().to_string(),
            concat!(
                r#"{"type":"score","score":1.1209,"confidence":0.5065,"legend":{"0":"Can wait","1":"This week","2":"Today"},"#,
                r#""probabilities":{"0":0.1863,"1":0.5065,"2":0.3072}}"#
            )
        );
        close(score.certainty(), 0.2597206);
        let noul = answer(Question::noul("n", "?"), &[1.0, -1.0]);
        assert_eq!(noul.to_json().to_string(), r#"{"type":"noul","noul":0.8808}"#);
        assert_eq!((noul.confidence(), noul.certainty()), (None, None));
    }

    #[test]
    fn certainty_goes_from_chance_to_one() {
        let choice = |p: &[f32]| {
            let options = (0..p.len()).map(|index| (index.to_string(), ""));
            answer(Question::choice("c", "?", options), &logs(p)).certainty()
        };
        let score = |p: &[f32]| answer(Question::score("s", "?", vec![""; p.len()]), &logs(p)).certainty();
        close(choice(&[0.7, 0.2, 0.1]), 0.55);
        close(score(&[0.8, 0.1, 0.1]), 0.55);
        for count in 2..9 {
            let even = vec![1.0 / count as f32; count];
            close(choice(&even), 0.0);
            close(score(&even), 0.0);
        }
        close(choice(&[1.0]), 1.0);
        close(score(&[1.0]), 1.0);
        close(score(&[1e-30, 1.0, 1e-30]), 1.0);
    }

    #[test]
    fn the_first_of_equals_in_the_order_of_the_question() {
        let tie = answer(Question::choice("c", "?", [("z", ""), ("a", "")]), &[1.5, 1.5]);
        assert!(matches!(&tie.value, Value::Choice { best: 0, options } if options[0].0 == "z"));
    }

    #[test]
    fn extreme_logits_and_rounding() {
        let sure = answer(Question::noul("n", "?"), &[3.0e38, -3.0e38]);
        assert_eq!(sure.to_json().to_string(), r#"{"type":"noul","noul":1.0}"#);
        // Python: round(0.00005, 4), round(0.12345, 4), round(2.00015, 4).
        assert_eq!([0.00005, 0.12345, 2.00015].map(rounded), [0.0001, 0.1235, 2.0002]);
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let question = Question::noul("n", "?");
            let options = ["true", "false"].iter().enumerate();
            let option =
                |(index, id): (usize, &&str)| FieldOption { id: (*id).to_owned(), index, span: 0..1 };
            let field = Field { span: 0..1, options: options.map(option).collect(), question };
            let error = Answer::new(&field, &[0.0, bad]).unwrap_err();
            assert_eq!(error.to_string(), "questions.n: the logit of option false is not finite");
        }
    }
}
