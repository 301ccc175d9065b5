//! The flags that say which model runs where.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use bloomery_core::hub::{Hub, Reference};
use bloomery_core::{
    CardPick, Context, Engine, EngineBuilder, KvType, ModelSource, Numerics, Placement, Plan,
};
use clap::{Args, ValueEnum};

use crate::args::Alias;
use crate::download::watched;
use crate::exit::{Failure, Status};
use crate::split::SplitArgs;

/// Flags of [`ModelArgs`] that clap cannot spell.
pub const MODEL_ALIASES: [Alias; 11] = [
    ("-ctk", "--cache-type-k"),
    ("-ctv", "--cache-type-v"),
    ("-ngl", "--gpu-layers"),
    ("-hf", "--hf-repo"),
    ("-hfr", "--hf-repo"),
    ("-hff", "--hf-file"),
    ("-hft", "--hf-token"),
    ("-cmoe", "--cpu-moe"),
    ("-ncmoe", "--n-cpu-moe"),
    ("-ot", "--override-tensor"),
    ("-md", "--model-draft"),
];

/// Which model, and how it runs.
#[derive(Debug, Clone, Default, Args)]
pub struct ModelArgs {
    /// GGUF file; of a split file, any part [default: the built-in demo model]
    #[arg(short, long, value_name = "FILE")]
    pub model: Option<PathBuf>,
    /// Model of the Hugging Face hub, downloaded unless it is in the cache; the quantisation is Q4_K_M if there is no
    /// other word (also -hf)
    #[arg(long, alias = "hf", value_name = "USER/REPO[:QUANT]", conflicts_with = "model")]
    pub hf_repo: Option<Reference>,
    /// Exactly this file of the repository (also -hff)
    #[arg(long, value_name = "FILE", requires = "hf_repo")]
    pub hf_file: Option<String>,
    /// The model's own block for the next tokens, where it is a file of its own (also -md)
    #[arg(long, value_name = "FILE")]
    pub model_draft: Option<PathBuf>,
    /// Secret of an account at the hub (also -hft) [default: HF_TOKEN, or what huggingface-cli login has saved]
    #[arg(long, value_name = "TOKEN")]
    pub hf_token: Option<String>,
    /// Models come from the cache only
    #[arg(long)]
    pub offline: bool,
    /// CPU threads [default: the physical cores]
    #[arg(short, long, value_name = "N", default_value_t = -1, hide_default_value = true, allow_negative_numbers = true)]
    pub threads: i32,
    /// Where the model is: auto; cpu; a, gate, or the number of a card: as much as fits on the largest card, the smallest, that
    /// one; cuda, or cuda with a number: all of it; cudaN+cpu: experts on both
    #[arg(long, value_name = "WORD", default_value = "auto")]
    pub place: String,
    /// 0: the CPU; more, or all: as --place a (also -ngl) [default: as --place says]
    #[arg(long, value_name = "N|all", conflicts_with = "place")]
    pub gpu_layers: Option<String>,
    /// Type of cached keys and values (also -ctk) [default: f16, f32 with exact numerics]
    #[arg(long, value_name = "TYPE")]
    pub cache_type_k: Option<CacheType>,
    /// Must equal --cache-type-k (also -ctv)
    #[arg(long, value_name = "TYPE")]
    pub cache_type_v: Option<CacheType>,
    /// Which experts are where.
    #[command(flatten)]
    pub split: SplitArgs,
}

/// llama.cpp's names of cache types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CacheType {
    /// 2 bytes a value.
    #[value(name = "f16")]
    F16,
    /// 34 bytes for 32 values.
    #[value(name = "q8_0")]
    Q8_0,
    /// 4 bytes a value, exact.
    #[value(name = "f32")]
    F32,
}

impl CacheType {
    /// llama.cpp's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::F16 => "f16",
            Self::Q8_0 => "q8_0",
            Self::F32 => "f32",
        }
    }
}

impl From<CacheType> for KvType {
    fn from(cache: CacheType) -> Self {
        match cache {
            CacheType::F16 => Self::F16,
            CacheType::Q8_0 => Self::Q8_0,
            CacheType::F32 => Self::F32,
        }
    }
}

impl ModelArgs {
    /// The model as messages name it.
    #[must_use]
    pub fn name(&self) -> String {
        match (&self.model, &self.hf_repo) {
            (Some(path), _) => path.display().to_string(),
            (None, Some(reference)) => reference.repo().to_owned(),
            (None, None) => "the demo model".to_owned(),
        }
    }

    /// The model.
    fn source(&self) -> Result<ModelSource, Failure> {
        Ok(match (&self.model, &self.hf_repo, &self.hf_file) {
            // `hf:` is text, whatever the type of paths is.
            (Some(path), ..) => {
                path.to_str().map_or_else(|| ModelSource::from(path.as_path()), ModelSource::from)
            }
            (None, Some(reference), None) => ModelSource::Hub(reference.clone()),
            (None, Some(reference), Some(file)) => ModelSource::Hub(reference.clone().with_file(file)?),
            (None, None, _) => ModelSource::demo(),
        })
    }

    /// The hub of the environment, as the flags change it.
    fn hub(&self) -> Result<Hub, Failure> {
        let mut hub = Hub::from_environment(|name| std::env::var_os(name))?;
        if let Some(token) = &self.hf_token {
            hub = hub.token(token)?;
        }
        Ok(watched(if self.offline { hub.offline(true) } else { hub }))
    }

    /// The cache type that was asked for.
    pub fn cache(&self) -> Result<Option<CacheType>, Failure> {
        match (self.cache_type_k, self.cache_type_v) {
            (k, None) => Ok(k),
            (Some(k), Some(v)) if k == v => Ok(Some(k)),
            (None, Some(v)) if v == CacheType::F16 => Ok(Some(v)),
            (k, Some(v)) => {
                let k = k.unwrap_or(CacheType::F16).name();
                let message =
                    format!("--cache-type-v {} with --cache-type-k {k}: both must be equal", v.name());
                Err(Failure::new(Status::Usage, message))
            }
        }
    }

    /// Where the model was asked to be.
    pub fn placement(&self) -> Result<Placement, Failure> {
        match self.gpu_layers.as_deref() {
            None | Some("auto") => Ok(self.place.parse()?),
            Some("all") => Ok(Placement::Fill(CardPick::Largest)),
            Some(word) => match word.parse::<u32>() {
                Ok(0) => Ok(Placement::Cpu),
                Ok(_) => Ok(Placement::Fill(CardPick::Largest)),
                Err(_) => {
                    let message = format!("--gpu-layers {word}: must be a number, all or auto");
                    Err(Failure::new(Status::Usage, message))
                }
            },
        }
    }

    /// An engine builder with these flags.
    pub fn builder(&self) -> Result<EngineBuilder, Failure> {
        let source = self.source()?;
        let from_hub = matches!(source, ModelSource::Hub(_));
        let mut builder = self.split.apply(Engine::builder(source).placement(self.placement()?))?;
        if from_hub {
            builder = builder.hub(self.hub()?);
        }
        if let Some(file) = &self.model_draft {
            builder = builder.block(file);
        }
        match self.threads {
            -1 => {}
            n => match usize::try_from(n).ok().and_then(NonZeroUsize::new) {
                Some(threads) => builder = builder.threads(threads),
                None => {
                    return Err(Failure::new(
                        Status::Usage,
                        format!("--threads {n}: must be positive, or -1 for the default"),
                    ));
                }
            },
        }
        if let Some(cache) = self.cache()? {
            builder = builder.kv(cache.into());
        }
        Ok(builder)
    }

    /// A plan for one session of `context` positions, with rounded or exact activations.
    pub fn plan_for(&self, context: usize, exact: bool) -> Result<Plan, Failure> {
        let numerics = if exact { Numerics::Exact } else { Numerics::Fast };
        let builder = self.builder()?.numerics(numerics).context(Context::Tokens(context));
        builder.plan().map_err(|error| Failure::from(error).about(self.name()))
    }
}
