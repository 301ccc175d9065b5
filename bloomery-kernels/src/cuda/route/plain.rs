//! Narrow products of many rows in floats.

use bloomery_gguf::Format;

use super::threads;
use crate::abi::route::{EXPERTS, RouteArgs, SLAB};
use crate::cuda::launch::Grid;
use crate::cuda::module::{Entry, ROUTE};
use crate::cuda::{CudaError, DeviceInfo, Launch, Span, Weight};

const NORM: Entry<RouteArgs> = Entry::new(&ROUTE, "route_norm");
const PLAIN_2: Entry<RouteArgs> = Entry::new(&ROUTE, "route_plain_2");
const PLAIN_4: Entry<RouteArgs> = Entry::new(&ROUTE, "route_plain_4");

const NAME: &str = "narrow products";

/// `out = weight norm(x)` for several narrow weights that are not rounded, nor are the rows: what decides on whole sequences, of many
/// rows, with all bits of floats.
#[derive(Debug, Clone)]
pub struct Narrow {
    /// `[rows][cols]`.
    pub x: Span<f32>,
    /// `[cols]` and the epsilon.
    pub norm: (Span<f32>, f32),
    /// `[outputs][cols]` in F32, F16 or BF16, and `[rows][outputs]`.
    pub parts: Vec<(Weight, Span<f32>)>,
    /// `[rows]`.
    pub scratch: Span<f32>,
}

impl Narrow {
    /// Whether such a weight has these kernels.
    #[must_use]
    pub fn takes(weight: &Weight) -> bool {
        let float = matches!(weight.format(), Format::F32 | Format::F16 | Format::BF16);
        float && weight.rows() <= EXPERTS as usize && weight.cols().is_multiple_of(4)
    }

    /// The norm, then a kernel for each weight.
    ///
    /// # Errors
    /// [`CudaError::NoProduct`] for a weight that it does not [take](Self::takes), [`CudaError::Contract`] when lengths or alignments do
    /// not fit.
    pub fn launches(&self, info: &DeviceInfo) -> Result<Vec<Launch>, CudaError> {
        let Self { x, norm: (gain, eps), parts, scratch } = self;
        let cols = gain.len();
        let rows = x.len() / cols.max(1);
        let equal =
            |what, found: usize, expected: usize| CudaError::equal(NAME, what, found as u64, expected as u64);
        let fits = cols > 0 && cols.is_multiple_of(4) && rows > 0 && rows <= 1 << 20;
        CudaError::require(NAME, "rows", rows as u64, fits, || {
            "1 to 2^20, of a multiple of 4 columns".to_owned()
        })?;
        equal("values of x", x.len(), rows * cols)?;
        equal("scratch values", scratch.len(), rows)?;
        let args = RouteArgs {
            x: x.address(),
            gain: gain.address(),
            weights: scratch.address(),
            eps: *eps,
            cols: cols as u32,
            rows: rows as u32,
            used: 1,
            ..RouteArgs::default()
        };
        let uses: Vec<_> = [x, gain, scratch].map(|span| span.memory().clone()).into();
        let slabs = args.cols.div_ceil(SLAB);
        let grid =
            Grid { blocks: args.rows, threads: threads(args.cols), shared_bytes: 16 * slabs.div_ceil(4) };
        let bytes = 4 * x.len() as u64;
        let mut launches = vec![Launch::new(NORM, grid, args, bytes, uses.clone())];
        for (weight, out) in parts {
            if !Self::takes(weight) {
                return Err(CudaError::NoProduct { what: "a narrow weight", format: weight.format() });
            }
            equal("columns of a weight", weight.cols(), cols)?;
            equal("outputs", out.len(), rows * weight.rows())?;
            let addresses = args.x | args.gain | weight.data().address();
            let rule = || "a multiple of 16".to_owned();
            CudaError::require(NAME, "an address", addresses, addresses.is_multiple_of(16), rule)?;
            let count = weight.rows() as u32;
            let tiles = |side: u32| args.rows.div_ceil(side) * count.div_ceil(side);
            let (entry, side) =
                if count > 32 && tiles(64) * 2 > info.processors { (PLAIN_4, 64) } else { (PLAIN_2, 32) };
            let grid =
                Grid { blocks: tiles(side), threads: 256, shared_bytes: 2 * 2 * 4 * side * (SLAB + 4) };
            let args = RouteArgs {
                router: weight.data().address(),
                keys: out.address(),
                count,
                format: weight.format().id(),
                ..args
            };
            let uses = uses.iter().cloned().chain([weight.data().memory().clone(), out.memory().clone()]);
            launches.push(Launch::new(entry, grid, args, bytes + weight.data().len() as u64, uses.collect()));
        }
        Ok(launches)
    }
}
