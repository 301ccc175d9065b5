//! Which expert takes which rows.

use std::cmp::Reverse;
use std::ops::Range;

use super::super::dots::Pick;
use super::super::gemm::{LANES, MANY};
use super::super::product::Operand;
use super::super::scratch::Forms;
use super::super::{Cpu, Matrix};
use super::{NO_EXPERT, Routes};

/// The (row, slot) pairs in the order of their experts; kept between calls.
#[derive(Debug, Default)]
pub(in super::super) struct Plan {
    /// Row of the pair at each place.
    pub(super) rows: Vec<u32>,
    /// Place of pair `row * used + slot`; [`NO_EXPERT`] of one that is left out.
    pub(super) places: Vec<u32>,
    /// Experts that any row selects, those with the most rows first.
    pub(super) groups: Vec<Group>,
    /// Place (or nothing) of each lane of the tiles.
    pub(super) lanes: Vec<Option<u32>>,
}

/// The pairs of one expert.
#[derive(Debug, Clone, Copy)]
pub(super) struct Group {
    pub(super) expert: usize,
    /// First place.
    pub(super) first: usize,
    /// Pairs.
    count: usize,
    /// First lane, if the group has tiles.
    lane: usize,
}

impl Group {
    fn places(&self) -> Range<usize> {
        self.first..self.first + self.count
    }

    fn many(&self) -> bool {
        self.count >= MANY
    }
}

impl Plan {
    /// Sorts the pairs by expert; within an expert they stay in order.
    pub(super) fn sort(&mut self, routes: &Routes, experts: usize) {
        let mut ends = vec![0_usize; experts + 1];
        for &expert in routes.experts.iter().filter(|expert| **expert != NO_EXPERT) {
            ends[expert as usize + 1] += 1;
        }
        self.groups.clear();
        for expert in 0..experts {
            let count = ends[expert + 1];
            ends[expert + 1] += ends[expert];
            if count > 0 {
                self.groups.push(Group { expert, first: ends[expert], count, lane: 0 });
            }
        }
        self.rows.resize(ends[experts], 0);
        self.places.clear();
        self.places.resize(routes.experts.len(), NO_EXPERT);
        for (pair, &expert) in routes.experts.iter().enumerate() {
            if expert == NO_EXPERT {
                continue;
            }
            let place = &mut ends[expert as usize];
            self.rows[*place] = (pair / routes.used) as u32;
            self.places[pair] = *place as u32;
            *place += 1;
        }
        self.groups.sort_unstable_by_key(|group| (Reverse(group.count), group.expert));
        self.lanes.clear();
        for group in self.groups.iter_mut().filter(|group| group.many()) {
            group.lane = self.lanes.len();
            self.lanes.extend(group.places().map(|place| Some(place as u32)));
            self.lanes.resize(self.lanes.len().next_multiple_of(LANES), None);
        }
    }

    /// Rows of the busiest expert.
    pub(super) fn most(&self) -> usize {
        self.groups.first().map_or(0, |group| group.count)
    }

    /// The prepared activations of a group: by row of the call, or by place.
    pub(super) fn operand<'a>(
        &'a self,
        cpu: &Cpu,
        group: &Group,
        weight: &Matrix<'_>,
        forms: &'a Forms,
        floats: &'a [f32],
        by: By,
    ) -> Operand<'a> {
        match (cpu.gemm(weight, group.count), by) {
            (Some(gemm), _) => {
                Operand::Tiles(gemm, forms.tiles(weight), group.lane..group.lane + group.count)
            }
            (None, By::Row) => {
                Operand::Rows(forms.input(cpu, weight, floats), Pick::List(&self.rows[group.places()]))
            }
            (None, By::Place) => Operand::Rows(forms.input(cpu, weight, floats), Pick::Range(group.places())),
        }
    }
}

/// What indexes the rows of activations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// The rows of the call.
    Row,
    /// The places of the plan.
    Place,
}
