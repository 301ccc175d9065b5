//! The keys of routed experts.

use super::decoder::Keys;
use crate::def::{Act, Bias, Ffn, Groups, Moe, Router, Scores};
use crate::error::LoadError;

impl Keys<'_> {
    /// Softmax-routed experts, renormalised, none shared.
    pub(super) fn moe(&self) -> Result<Ffn, LoadError> {
        self.only("expert_gating_func", self.opt_count("expert_gating_func")?, 1, "1 (softmax)")?;
        self.only("expert_weights_norm", self.values().opt_bool("expert_weights_norm")?, true, "true")?;
        self.only("expert_shared_count", self.opt_count("expert_shared_count")?, 0, "0")?;
        let moe = self.experts()?;
        let router = Router { renormalize: true, ..moe.router };
        Ok(Ffn::Moe(Moe { router, ..moe }))
    }

    /// Experts as the keys have them, none shared, with weights as they are.
    pub(super) fn experts(&self) -> Result<Moe, LoadError> {
        let experts = self.positive("expert_count")?;
        let used = self.positive("expert_used_count")?;
        if used > experts {
            return Err(self.unsupported("expert_used_count", used, "at most expert_count"));
        }
        let width = match self.opt_count("expert_feed_forward_length")? {
            Some(width) => width,
            None => self.positive("feed_forward_length")? / used,
        };
        let scores = match self.opt_count("expert_gating_func")? {
            None | Some(0 | 1) => Scores::Softmax,
            Some(2) => Scores::Sigmoid,
            Some(4) => Scores::SqrtSoftplus,
            Some(other) => {
                let supported = "1 (softmax), 2 (sigmoid) or 4 (root of softplus)";
                return Err(self.unsupported("expert_gating_func", other, supported));
            }
        };
        // A scale of 0 is how converters write "none".
        let scale = match self.float("expert_weights_scale", 1.0)? {
            0.0 => 1.0,
            scale => scale,
        };
        let renormalize = self.values().opt_bool("expert_weights_norm")?.unwrap_or(false);
        let groups = self.groups(experts)?;
        let router = Router { scores, renormalize, scale, bias: Bias::None, groups, by_token: false };
        Ok(Moe { experts, used, width, router, act: Act::Silu, shared: None })
    }

    fn groups(&self, experts: usize) -> Result<Option<Groups>, LoadError> {
        let count = match self.opt_count("expert_group_count")? {
            None | Some(0 | 1) => return Ok(None),
            Some(count) => count,
        };
        // The value of a group is the sum of its two largest scores.
        if !experts.is_multiple_of(count) || experts / count < 2 {
            return Err(self.unsupported("expert_group_count", count, "groups of two experts or more"));
        }
        let used = self.positive("expert_group_used_count")?;
        if used > count {
            return Err(self.unsupported("expert_group_used_count", used, "at most expert_group_count"));
        }
        Ok(Some(Groups { count, used }))
    }
}
