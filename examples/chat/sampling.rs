//! Sampling flags, laid over what the model file recommends.

use bloomery_core::sampling::{Mirostat, SamplerKind, SamplingParams, Seed};
use bloomery_examples::{Failure, Status};
use clap::Args;

/// llama.cpp's sampling flags. Each is `None` where it was not given.
#[derive(Debug, Clone, Default, PartialEq, Args)]
pub(crate) struct SamplingArgs {
    /// Seed of the random numbers; -1: a new one every time [default: -1]
    #[arg(short, long, value_name = "N", allow_negative_numbers = true)]
    seed: Option<i64>,
    /// Temperature; 0 takes the likeliest token [default: 0.8]
    #[arg(long, alias = "temperature", value_name = "X", allow_negative_numbers = true)]
    temp: Option<f32>,
    /// Tokens kept; 0: all [default: 40]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    top_k: Option<i32>,
    /// Probability mass kept; 1: all [default: 0.95]
    #[arg(long, value_name = "X")]
    top_p: Option<f32>,
    /// Least probability relative to the best token; 0: off [default: 0.05]
    #[arg(long, value_name = "X")]
    min_p: Option<f32>,
    /// Mass of locally typical tokens kept; 1: off [default: 1]
    #[arg(long, aliases = ["typical-p"], value_name = "X")]
    typical: Option<f32>,
    /// Standard deviations below the best logit kept; -1: off [default: -1]
    #[arg(long, aliases = ["top-nsigma"], value_name = "X", allow_negative_numbers = true)]
    top_n_sigma: Option<f32>,
    /// Tokens that penalties look back; 0: off, -1: the context [default: 64]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    repeat_last_n: Option<i32>,
    /// Penalty on repeated tokens; 1: off [default: 1]
    #[arg(long, value_name = "X")]
    repeat_penalty: Option<f32>,
    /// Penalty on tokens that occurred; 0: off [default: 0]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    presence_penalty: Option<f32>,
    /// Penalty on every occurrence; 0: off [default: 0]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    frequency_penalty: Option<f32>,
    /// Scale of the DRY penalty; 0: off [default: 0]
    #[arg(long, value_name = "X")]
    dry_multiplier: Option<f32>,
    /// Growth of the DRY penalty with the length of a repetition [default: 1.75]
    #[arg(long, value_name = "X")]
    dry_base: Option<f32>,
    /// Longest repetition that DRY leaves alone [default: 2]
    #[arg(long, value_name = "N")]
    dry_allowed_length: Option<u32>,
    /// Tokens that DRY looks back; 0: off, -1: the context [default: 64]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    dry_penalty_last_n: Option<i32>,
    /// Text that a repetition does not reach across; may be repeated; "none" clears the defaults
    #[arg(long, value_name = "TEXT")]
    dry_sequence_breaker: Vec<String>,
    /// Chance that XTC acts on a token; 0: off [default: 0]
    #[arg(long, value_name = "X")]
    xtc_probability: Option<f32>,
    /// Probability of a top choice for XTC; above 0.5: off [default: 0.1]
    #[arg(long, value_name = "X")]
    xtc_threshold: Option<f32>,
    /// Half width of the dynamic temperature; 0: off [default: 0]
    #[arg(long, value_name = "X")]
    dynatemp_range: Option<f32>,
    /// Exponent of the dynamic temperature [default: 1]
    #[arg(long, value_name = "X")]
    dynatemp_exp: Option<f32>,
    /// Mirostat: 0 off, 1 or 2 [default: 0]
    #[arg(long, value_name = "N")]
    mirostat: Option<u8>,
    /// Learning rate of Mirostat [default: 0.1]
    #[arg(long, value_name = "X")]
    mirostat_lr: Option<f32>,
    /// Target surprise of Mirostat in bits [default: 5]
    #[arg(long, value_name = "X")]
    mirostat_ent: Option<f32>,
    /// The chain, as names separated by ; [default: penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature]
    #[arg(long, value_name = "NAMES")]
    samplers: Option<String>,
    /// Go on after the model's own end
    #[arg(long)]
    pub(crate) ignore_eos: bool,
}

impl SamplingArgs {
    /// Replaces in `params` what was given.
    pub(crate) fn apply(&self, params: &mut SamplingParams) -> Result<(), Failure> {
        if let Some(seed) = self.seed {
            params.seed = seed_of(seed)?;
        }
        self.apply_numbers(params);
        if !self.dry_sequence_breaker.is_empty() {
            let none = self.dry_sequence_breaker.iter().any(|text| text == "none");
            params.dry_sequence_breakers = if none { Vec::new() } else { self.dry_sequence_breaker.clone() };
        }
        if let Some(version) = self.mirostat {
            params.mirostat = match version {
                0 => Mirostat::Off,
                1 => Mirostat::V1,
                2 => Mirostat::V2,
                n => return Err(Failure::new(Status::Usage, format!("--mirostat {n}: 0, 1 or 2"))),
            };
        }
        if let Some(names) = &self.samplers {
            let kind = |name: &str| {
                SamplerKind::from_name(name).ok_or_else(|| {
                    Failure::new(Status::Usage, format!("--samplers: unknown sampler {name:?}"))
                })
            };
            params.samplers =
                names.split(';').filter(|name| !name.is_empty()).map(kind).collect::<Result<_, _>>()?;
        }
        params.validate().map_err(|error| Failure::new(Status::Usage, error))
    }

    fn apply_numbers(&self, params: &mut SamplingParams) {
        fn set<T: Copy>(field: &mut T, given: Option<T>) {
            *field = given.unwrap_or(*field);
        }
        set(&mut params.temperature, self.temp);
        set(&mut params.top_k, self.top_k);
        set(&mut params.top_p, self.top_p);
        set(&mut params.min_p, self.min_p);
        set(&mut params.typical_p, self.typical);
        set(&mut params.top_n_sigma, self.top_n_sigma);
        set(&mut params.repeat_last_n, self.repeat_last_n);
        set(&mut params.repeat_penalty, self.repeat_penalty);
        set(&mut params.presence_penalty, self.presence_penalty);
        set(&mut params.frequency_penalty, self.frequency_penalty);
        set(&mut params.dry_multiplier, self.dry_multiplier);
        set(&mut params.dry_base, self.dry_base);
        set(&mut params.dry_allowed_length, self.dry_allowed_length);
        set(&mut params.dry_penalty_last_n, self.dry_penalty_last_n);
        set(&mut params.xtc_probability, self.xtc_probability);
        set(&mut params.xtc_threshold, self.xtc_threshold);
        set(&mut params.dynatemp_range, self.dynatemp_range);
        set(&mut params.dynatemp_exponent, self.dynatemp_exp);
        set(&mut params.mirostat_eta, self.mirostat_lr);
        set(&mut params.mirostat_tau, self.mirostat_ent);
    }
}

/// A seed is 32 bits; -1 asks for a random one.
fn seed_of(seed: i64) -> Result<Seed, Failure> {
    match (seed, u32::try_from(seed)) {
        (-1, _) => Ok(Seed::Random),
        (_, Ok(seed)) => Ok(seed.into()),
        _ => Err(Failure::new(Status::Usage, format!("--seed {seed}: -1 or 0 to {}", u32::MAX))),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        sampling: SamplingArgs,
    }

    fn applied(words: &str, to: SamplingParams) -> Result<SamplingParams, Failure> {
        let mut params = to;
        let words = std::iter::once("x").chain(words.split_whitespace());
        Only::try_parse_from(words).unwrap().sampling.apply(&mut params)?;
        Ok(params)
    }

    #[test]
    fn flags_that_are_not_given_keep_the_recommendation_of_the_file() {
        let file =
            SamplingParams { temperature: 0.7, min_p: 0.1, repeat_penalty: 1.15, ..Default::default() };
        assert_eq!(applied("", file.clone()).unwrap(), file);
        let params = applied("--temp 0 --top-k 5", file.clone()).unwrap();
        assert_eq!(params, SamplingParams { temperature: 0.0, top_k: 5, ..file });
    }

    #[test]
    fn every_flag_reaches_its_field() {
        let words = "-s 7 --temp 0.5 --top-k 3 --top-p 0.8 --min-p 0.2 --typical 0.9 --top-n-sigma 1.5 \
            --repeat-last-n -1 --repeat-penalty 1.2 --presence-penalty 0.3 --frequency-penalty -0.4 --dry-multiplier 0.8 \
            --dry-base 2 --dry-allowed-length 4 --dry-penalty-last-n 99 --dry-sequence-breaker none --xtc-probability 0.6 \
            --xtc-threshold 0.25 --dynatemp-range 0.15 --dynatemp-exp 1.25 --mirostat 2 --mirostat-lr 0.2 \
            --mirostat-ent 4 --samplers top_k;temperature";
        let expected = SamplingParams {
            seed: Seed::Fixed(7),
            temperature: 0.5,
            top_k: 3,
            top_p: 0.8,
            min_p: 0.2,
            typical_p: 0.9,
            top_n_sigma: 1.5,
            repeat_last_n: -1,
            repeat_penalty: 1.2,
            presence_penalty: 0.3,
            frequency_penalty: -0.4,
            dry_multiplier: 0.8,
            dry_base: 2.0,
            dry_allowed_length: 4,
            dry_penalty_last_n: 99,
            dry_sequence_breakers: Vec::new(),
            xtc_probability: 0.6,
            xtc_threshold: 0.25,
            dynatemp_range: 0.15,
            dynatemp_exponent: 1.25,
            mirostat: Mirostat::V2,
            mirostat_eta: 0.2,
            mirostat_tau: 4.0,
            samplers: vec![SamplerKind::TopK, SamplerKind::Temperature],
            ..Default::default()
        };
        assert_eq!(applied(words, SamplingParams::default()).unwrap(), expected);
    }

    #[test]
    fn nonsense_is_a_usage_error_that_names_it() {
        for (words, name) in [
            ("--temp NaN", "temperature"),
            ("--mirostat 3", "--mirostat 3"),
            ("--samplers top_k;nosuch", "nosuch"),
            ("--seed -2", "--seed -2"),
            ("--repeat-penalty 0", "repeat_penalty"),
        ] {
            let failure = applied(words, SamplingParams::default()).unwrap_err();
            assert_eq!(failure.status, Status::Usage, "{words}");
            assert!(failure.message.contains(name), "{}", failure.message);
        }
    }

    #[test]
    fn seeds() {
        assert_eq!(seed_of(-1).unwrap(), Seed::Random);
        assert_eq!(seed_of(0).unwrap(), Seed::Fixed(0));
        assert!(seed_of(1 << 32).is_err());
    }
}
