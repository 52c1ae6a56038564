//! Networks for one observation at a time.
//!
//! A matrix product packs its operands before it multiplies. That takes memory, and ten times as
//! long as the product with a single vector. Here weights are packed once, when the file is read.

use multiversion::multiversion;
use rlox_core::Result;

use super::file::File;
use crate::cpu::Activation;

/// Outputs that are computed together, so that their sums stay in registers.
const BLOCK: usize = 64;

/// The number of partial sums of a dot product.
const LANES: usize = 16;

/// A linear layer, y = W x + b.
#[derive(Debug, Clone)]
struct Linear {
    /// The weights of each block of outputs: those of the first input, then those of the second,
    /// ...
    blocks: Vec<f32>,
    /// The weight rows of the outputs that fill no block, `[outputs, inputs]`.
    rows: Vec<f32>,
    bias: Vec<f32>,
    /// The buffer of the output.
    y: Vec<f32>,
}

impl Linear {
    fn read(file: &File<'_>, name: &str, inputs: usize, outputs: usize) -> Result<Self> {
        let weight: Vec<f32> = file.tensor(&format!("{name}.weight"), &[outputs, inputs])?;
        let bias = file.tensor(&format!("{name}.bias"), &[outputs])?;
        let n_block_weights = outputs / BLOCK * BLOCK * inputs;
        let (block_weights, rows) = weight.split_at_checked(n_block_weights).unwrap_or_default();
        let blocks = block_weights
            .chunks_exact(BLOCK * inputs)
            .flat_map(|block| (0..inputs).flat_map(move |i| block.iter().skip(i).step_by(inputs).copied()));
        let (blocks, rows) = (blocks.collect(), rows.to_vec());
        Ok(Self { blocks, rows, bias, y: vec![0.0; outputs] })
    }
}

/// Linear layers with an activation between them.
#[derive(Debug, Clone)]
pub(super) struct Chain {
    layers: Vec<Linear>,
    activation: Activation,
    /// Whether the activation follows the last layer too.
    has_output_activation: bool,
}

impl Chain {
    /// Reads the layers `PREFIX.0`, `PREFIX.2`, ... of these sizes, inputs and outputs included.
    ///
    /// # Errors
    /// [`rlox_core::Error::Config`] for tensors that are missing or of another shape.
    fn read(
        file: &File<'_>,
        prefix: &str,
        sizes: &[usize],
        activation: Activation,
        has_output_activation: bool,
    ) -> Result<Self> {
        let pairs = sizes.iter().zip(sizes.iter().skip(1)).enumerate();
        let layers = pairs.map(|(i, (&inputs, &outputs))| {
            Linear::read(file, &format!("{prefix}.{}", 2 * i), inputs, outputs)
        });
        Ok(Self { layers: layers.collect::<Result<_>>()?, activation, has_output_activation })
    }

    /// Returns the outputs of the last layer; empty for a chain without layers.
    fn run(&mut self, x: &[f32]) -> &mut [f32] {
        let last = self.layers.len().saturating_sub(1);
        for index in 0..self.layers.len() {
            let (before, from) = self.layers.split_at_mut(index);
            let Some(layer) = from.first_mut() else { continue };
            let x = before.last().map_or(x, |before| before.y.as_slice());
            affine(&layer.blocks, &layer.rows, &layer.bias, x, &mut layer.y);
            if index < last || self.has_output_activation {
                self.activation.apply(&mut layer.y, &mut []);
            }
        }
        self.layers.last_mut().map_or(&mut [], |layer| layer.y.as_mut_slice())
    }
}

/// The network of a policy.
#[derive(Debug, Clone)]
pub(super) enum Network {
    Plain(Chain),
    /// Separate streams for value and advantage (Wang et al. 2016), after shared layers if there
    /// are any.
    Dueling {
        shared: Chain,
        value: Chain,
        advantage: Chain,
    },
}

impl Network {
    /// Reads the network of these sizes, inputs and outputs included. `prefix` starts its tensors'
    /// names.
    ///
    /// # Errors
    /// [`rlox_core::Error::Config`] for tensors that are missing or of another shape.
    pub(super) fn read(
        file: &File<'_>,
        prefix: &str,
        sizes: &[usize],
        activation: Activation,
        dueling: bool,
    ) -> Result<Self> {
        let chain = |prefix: &str, sizes: &[usize], has_output_activation: bool| {
            Chain::read(file, prefix, sizes, activation, has_output_activation)
        };
        let (Some(n_shared), true) = (sizes.len().checked_sub(3), dueling) else {
            return Ok(Self::Plain(chain(prefix, sizes, false)?));
        };
        let (shared, stream) =
            (sizes.get(..=n_shared).unwrap_or_default(), sizes.get(n_shared..).unwrap_or_default());
        let value_sizes = [stream.get(..2).unwrap_or_default(), &[1]].concat();
        Ok(Self::Dueling {
            shared: chain(&format!("{prefix}.shared"), shared, true)?,
            value: chain(&format!("{prefix}.value"), &value_sizes, false)?,
            advantage: chain(&format!("{prefix}.advantage"), stream, false)?,
        })
    }

    /// Returns the outputs for an observation.
    pub(super) fn run(&mut self, x: &[f32]) -> &mut [f32] {
        match self {
            Self::Plain(chain) => chain.run(x),
            Self::Dueling { shared, value, advantage } => {
                let is_shared_empty = shared.layers.is_empty();
                let features = shared.run(x);
                let features = if is_shared_empty { x } else { features };
                let value = value.run(features).first().copied().unwrap_or_default();
                let advantages = advantage.run(features);
                let mean = mean(advantages);
                for q in &mut *advantages {
                    *q = value + *q - mean;
                }
                advantages
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "widths are bounded far below 2^24")]
fn mean(values: &[f32]) -> f32 {
    values.iter().sum::<f32>() / values.len() as f32
}

/// Computes y = W x + b: blocks of outputs input by input, the others as dot products.
#[multiversion(targets("x86_64+avx512f+avx512dq+avx512vl", "x86_64+avx2"))]
fn affine(blocks: &[f32], rows: &[f32], bias: &[f32], x: &[f32], y: &mut [f32]) {
    let (block_biases, rest_biases) = bias.as_chunks::<BLOCK>();
    let (y_blocks, y_rest) = y.as_chunks_mut::<BLOCK>();
    for ((weights, start), y) in blocks.chunks_exact(BLOCK * x.len()).zip(block_biases).zip(y_blocks) {
        let mut sums = *start;
        for (weights, &x) in weights.as_chunks::<BLOCK>().0.iter().zip(x) {
            for (sum, &weight) in sums.iter_mut().zip(weights) {
                *sum += weight * x;
            }
        }
        *y = sums;
    }
    let (x_blocks, x_rest) = x.as_chunks::<LANES>();
    for ((weights, start), y) in rows.chunks_exact(x.len()).zip(rest_biases).zip(y_rest) {
        let (weights, w_rest) = weights.as_chunks::<LANES>();
        let mut lanes = [0.0_f32; LANES];
        for (weights, x) in weights.iter().zip(x_blocks) {
            for ((lane, &weight), &x) in lanes.iter_mut().zip(weights).zip(x) {
                *lane += weight * x;
            }
        }
        let mut width = LANES / 2;
        while width > 0 {
            let (low, high) = lanes.split_at_mut(width);
            for (low, &mut high) in low.iter_mut().zip(high) {
                *low += high;
            }
            width /= 2;
        }
        let [lane_sum, ..] = lanes;
        *y = w_rest.iter().zip(x_rest).fold(*start + lane_sum, |sum, (&w, &x)| sum + w * x);
    }
}
