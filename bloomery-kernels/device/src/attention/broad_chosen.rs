//! Keys and values of chosen positions for many rows of the widest heads: the loads of [`broad`](super::broad), with a page for every four.

use super::super::abi::attention::PAGE;
use super::super::simt::{lane, ld_global_u32x2, shfl};
use super::broad::{EIGHTS, Keys, PAIR, TOGETHER, Values};
use super::chosen::part;
use super::items::Item;
use super::kind::Kind;
use super::{AttendArgs, head_bytes};

impl<K: Kind> Keys<K> {
    /// Of the chunk at `start`, whose fours the lanes have; what is not there is zero or nonsense.
    #[inline(always)]
    pub(super) unsafe fn load_chosen(
        args: &AttendArgs,
        item: &Item,
        dim: u32,
        (start, fours): (u32, u32),
        warp: u32,
        sixth: u32,
    ) -> Self {
        let (g, t) = (lane() / 4, lane() % 4);
        let mut keys = Self { values: [[K::ZERO; 2]; TOGETHER], scales: [[0; 2]; TOGETHER] };
        if start + 16 * warp < item.end {
            let bytes = head_bytes::<K>(dim);
            let place = shfl(fours, 4 * warp + g / 2);
            let base = args.cache.keys + part(args, item, place, bytes);
            let scaled = if K::SCALED { shfl(fours, 4 * warp + t) } else { 0 };
            let scales = args.cache.keys + part(args, item, scaled, bytes);
            let mut c = 0;
            while c < TOGETHER {
                let chunk = TOGETHER as u32 * sixth + c as u32;
                // Beyond the key any of its values will do: queries are zero there.
                let d = (32 * chunk + 8 * t).min(dim - 8);
                let mut i = 0;
                while i < 2 {
                    let offset = place % PAGE + 2 * i as u32 + g % 2;
                    keys.values[c][i] = K::load(base + u64::from(K::BYTES * (offset * dim + d)));
                    i += 1;
                }
                if K::SCALED {
                    let group = chunk.min(dim / 32 - 1);
                    let at = PAGE * dim + 2 * (group * PAGE + scaled % PAGE);
                    keys.scales[c] = ld_global_u32x2(scales + u64::from(at));
                }
                c += 1;
            }
        }
        keys
    }
}

impl<K: Kind> Values<K> {
    /// A pair of sixteens of the chunk at `start`, whose fours the lanes have; what is not there is zero or nonsense.
    #[inline(always)]
    pub(super) unsafe fn load_chosen(
        args: &AttendArgs,
        item: &Item,
        dim: u32,
        (start, fours): (u32, u32),
        warp: u32,
        pair: u32,
    ) -> Self {
        let (g, t) = (lane() / 4, lane() % 4);
        let mut values = Self { values: [[K::ZERO; PAIR]; EIGHTS], scales: [[[0; 2]; PAIR]; EIGHTS / 2] };
        let mut s = 0;
        while s < PAIR {
            let sixteen = PAIR as u32 * pair + s as u32;
            if start + 16 * sixteen < item.end {
                let place = shfl(fours, 4 * sixteen + t);
                let base = args.cache.values + part(args, item, place, head_bytes::<K>(dim));
                let mut e = 0;
                while e < EIGHTS {
                    // One of the values' whatever their width.
                    let d = (16 * (EIGHTS as u32 * warp + e as u32)).min(dim - 16);
                    let at = K::BYTES * 4 * (place % PAGE / 4 * dim + d + 2 * g);
                    values.values[e][s] = K::load(base + u64::from(at));
                    if K::SCALED && e % 2 == 0 {
                        let at = PAGE * dim + 2 * (d / 32 * PAGE + place % PAGE);
                        values.scales[e / 2][s] = ld_global_u32x2(base + u64::from(at));
                    }
                    e += 1;
                }
            }
            s += 1;
        }
        values
    }
}
