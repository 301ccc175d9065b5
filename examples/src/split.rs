//! The flags about models that are bigger than their card.

use std::path::PathBuf;

use bloomery_core::{Bytes, EngineBuilder, HostExperts, ResidencyMode, TensorRules};
use clap::{Args, ValueEnum};

use crate::exit::Failure;

/// Which experts are where.
#[derive(Debug, Clone, Default, Args)]
pub struct SplitArgs {
    /// Most memory of a card to use, such as 12G [default: what is free]
    #[arg(long, value_name = "SIZE")]
    pub card_budget: Option<Bytes>,
    /// Keep all experts in host memory (also -cmoe)
    #[arg(long, conflicts_with_all = ["n_cpu_moe", "override_tensor"])]
    pub cpu_moe: bool,
    /// Keep the experts of the first N layers in host memory (also -ncmoe)
    #[arg(long, value_name = "N", conflicts_with = "override_tensor")]
    pub n_cpu_moe: Option<usize>,
    /// Keep the experts of layers in host memory whose tensors the pattern is found in, such as exps=CPU (also -ot)
    #[arg(long, value_name = "PATTERN=CPU|CUDAN,…")]
    pub override_tensor: Option<String>,
    /// Whether experts that are chosen often move to the card
    #[arg(long, value_name = "WORD", default_value = "adaptive")]
    pub residency: Residency,
    /// Where counts of chosen experts are kept from one start to the next [default: nowhere]
    #[arg(long, value_name = "FILE")]
    pub heat: Option<PathBuf>,
}

/// Words for [`ResidencyMode`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Residency {
    /// They do.
    #[default]
    Adaptive,
    /// They do not: the same text always gives the same bits.
    Off,
}

impl SplitArgs {
    /// The builder with these flags.
    pub(crate) fn apply(&self, builder: EngineBuilder) -> Result<EngineBuilder, Failure> {
        let experts = match (&self.override_tensor, self.n_cpu_moe) {
            (Some(rules), _) => HostExperts::Rules(TensorRules::parse(rules)?),
            (None, Some(layers)) => HostExperts::FirstLayers(layers),
            (None, None) if self.cpu_moe => HostExperts::All,
            (None, None) => HostExperts::AsNeeded,
        };
        let mode = match self.residency {
            Residency::Adaptive => ResidencyMode::Adaptive,
            Residency::Off => ResidencyMode::Off,
        };
        let builder = builder.host_experts(experts).residency(mode);
        let builder = self.card_budget.into_iter().fold(builder, EngineBuilder::card_budget);
        Ok(self.heat.iter().fold(builder, EngineBuilder::heat))
    }
}
