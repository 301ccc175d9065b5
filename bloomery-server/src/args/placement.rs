//! Flags that say where a model lives.

use bloomery_core::{Bytes, CardPick, HostExperts, Placement, PlanError, SizeError, TensorRules};

use super::draft::{Draft, Wrong};
use super::error::ArgError;
use super::setters::list;

/// What the flags say, before it is known what they come to together.
#[derive(Debug, Clone, Default)]
pub(super) struct PlacementDraft {
    /// By `--place`, by `--device`, and by `--gpu-layers 0`.
    place: Option<Placement>,
    device: Option<Placement>,
    no_card: bool,
    /// The card that `--main-gpu` names.
    main_card: Option<usize>,
    all_experts: bool,
    first_layers: Option<usize>,
    rules: Vec<String>,
}

impl PlacementDraft {
    /// The card that a flag names takes as much of the model as fits there.
    pub(super) fn placement(&self) -> Placement {
        match (self.place, self.no_card, self.device, self.main_card) {
            (Some(place), ..) => place,
            (None, true, ..) => Placement::Cpu,
            (None, false, Some(device), _) => device,
            (None, false, None, Some(card)) => Placement::Fill(CardPick::Number(card)),
            (None, false, None, None) => Placement::Auto,
        }
    }

    /// Layers whose experts stay in host memory.
    pub(super) fn experts(&self) -> Result<HostExperts, ArgError> {
        let conflict = |text: &str| Err(ArgError::Conflict(text.to_owned()));
        match (self.all_experts, self.first_layers, self.rules.as_slice()) {
            (false, None, []) => Ok(HostExperts::AsNeeded),
            (true, None, []) => Ok(HostExperts::All),
            (false, Some(layers), []) => Ok(HostExperts::FirstLayers(layers)),
            (false, None, rules) => {
                let rules = TensorRules::parse(&rules.join(","));
                Ok(HostExperts::Rules(rules.map_err(|error| ArgError::Conflict(error.to_string()))?))
            }
            (true, Some(_), _) => conflict("--cpu-moe with --n-cpu-moe: one of them is enough"),
            (true, None, _) => conflict("--cpu-moe with --override-tensor: one of them is enough"),
            (false, Some(_), _) => conflict("--n-cpu-moe with --override-tensor: one of them is enough"),
        }
    }
}

pub(super) fn place(draft: &mut Draft, value: &str) -> Result<(), Wrong> {
    draft.placement.place = Some(value.parse().map_err(plain)?);
    Ok(())
}

/// The reason without the name that the library has for the option.
fn plain(error: PlanError) -> Wrong {
    match error {
        PlanError::Invalid { why, .. } => Wrong::Value(why),
        error => Wrong::Value(error.to_string()),
    }
}

/// Layers are not counted: what a card has no room for are experts, of all layers alike.
pub(super) fn gpu_layers(draft: &mut Draft, value: &str) -> Result<(), Wrong> {
    let layers = match value {
        "auto" => -1,
        "all" => 1,
        _ => value.parse::<i64>().map_err(|_| Wrong::expected("a number, auto or all"))?,
    };
    (draft.placement.no_card, draft.engine.asked_for_card) = (layers == 0, layers > 0);
    Ok(())
}

pub(super) fn device(draft: &mut Draft, value: &str) -> Result<(), Wrong> {
    let names: Vec<String> = list(value).collect();
    let wrong = || Wrong::expected("none, or a name of --list-devices");
    draft.placement.device = match names.as_slice() {
        [name] if name.eq_ignore_ascii_case("none") => Some(Placement::Cpu),
        [name] => match name.parse() {
            Ok(Placement::Cpu) => Some(Placement::Cpu),
            Ok(Placement::Card(card)) => Some(Placement::Fill(CardPick::Number(card))),
            _ => return Err(wrong()),
        },
        [] => return Err(wrong()),
        _ => return Err(Wrong::Unsupported("a model on several devices is not in this release".to_owned())),
    };
    Ok(())
}

pub(super) fn main_card(draft: &mut Draft, number: i64) {
    draft.placement.main_card = usize::try_from(number).ok();
}

pub(super) fn cpu_moe(draft: &mut Draft, on: bool) {
    draft.placement.all_experts = on;
}

pub(super) fn n_cpu_moe(draft: &mut Draft, layers: i64) {
    draft.placement.first_layers = usize::try_from(layers).ok();
}

pub(super) fn override_tensor(draft: &mut Draft, value: &str) -> Result<(), Wrong> {
    TensorRules::parse(value).map_err(plain)?;
    draft.placement.rules.push(value.to_owned());
    Ok(())
}

pub(super) fn fit(draft: &mut Draft, word: &str) {
    draft.engine.fit = word == "on";
}

/// Of a list, which llama-server has for several cards, the largest.
pub(super) fn fit_target(draft: &mut Draft, value: &str) -> Result<(), Wrong> {
    let sizes: Option<Vec<u64>> = list(value).map(|part| part.parse().ok()).collect();
    let most = sizes.and_then(|sizes| sizes.into_iter().max());
    let mib = most.ok_or_else(|| Wrong::expected("MiB, such as 1024"))?;
    draft.engine.card_margin = Some(Bytes(mib.saturating_mul(1 << 20)));
    Ok(())
}

pub(super) fn card_budget(draft: &mut Draft, value: &str) -> Result<(), Wrong> {
    let size = value.parse().map_err(|error: SizeError| Wrong::Value(error.to_string()))?;
    draft.engine.card_budget = Some(size);
    Ok(())
}
