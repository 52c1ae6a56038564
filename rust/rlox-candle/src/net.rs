//! Perceptrons with a flat vector of parameters, computed with tensors.

use std::ops::Range;

use candle_core::backprop::GradStore;
use candle_core::{Device, Result as CandleResult, Tensor, Var};
use rlox_core::error::check_len;
use rlox_core::{Layout, Result};
use rlox_nn::cpu::{Activation, parameter_shapes};

use crate::error::to_internal_error;

/// The range and the shape of one array in the parameter vector.
#[derive(Debug, Clone)]
pub(crate) struct ArraySpec {
    range: Range<usize>,
    shape: Vec<usize>,
}

impl ArraySpec {
    pub(crate) fn from_layout(layout: &Layout, name: &str, shape: &[usize]) -> Result<Self> {
        Ok(Self { range: layout.range(name, shape)?, shape: shape.to_vec() })
    }

    pub(crate) fn slice<'a>(&self, parameters: &'a [f32]) -> &'a [f32] {
        parameters.get(self.range.clone()).unwrap_or_default()
    }
}

/// Linear layers with an activation between them.
#[derive(Debug, Clone)]
pub(crate) struct Net {
    /// Weight and bias of each layer.
    pub(crate) layers: Vec<[ArraySpec; 2]>,
    activation: Activation,
    inputs: usize,
    outputs: usize,
}

impl Net {
    /// Makes the layers that `layout` has under `prefix`.
    pub(crate) fn new(
        layout: &Layout,
        prefix: &str,
        sizes: &[usize],
        activation: Activation,
    ) -> Result<Self> {
        let mut layers = Vec::new();
        for pair in parameter_shapes(prefix, sizes).as_chunks::<2>().0 {
            let [(weight, shape), (bias, outputs)] = pair;
            layers.push([
                ArraySpec::from_layout(layout, weight, shape)?,
                ArraySpec::from_layout(layout, bias, outputs)?,
            ]);
        }
        let (inputs, outputs) = (sizes.first().copied(), sizes.last().copied());
        let (inputs, outputs) = (inputs.unwrap_or(0).max(1), outputs.unwrap_or(0));
        Ok(Self { layers, activation, inputs, outputs })
    }

    pub(crate) const fn outputs(&self) -> usize {
        self.outputs
    }

    /// Makes a tensor `[n, inputs]` of `obs`, which must have whole rows.
    pub(crate) fn obs_tensor(&self, obs: &[f32]) -> Result<Tensor> {
        let n = obs.len() / self.inputs;
        check_len("obs", obs.len(), n * self.inputs, "whole rows")?;
        Tensor::from_slice(obs, (n, self.inputs), &Device::Cpu).map_err(to_internal_error)
    }

    /// Computes `[n, outputs]` from `x` `[n, inputs]`.
    pub(crate) fn forward(&self, leaves: &Leaves, x: &Tensor) -> CandleResult<Tensor> {
        let mut x = x.clone();
        for (i, [weight, bias]) in self.layers.iter().enumerate() {
            if i > 0 {
                x = self.activate(&x)?;
            }
            let y = x.matmul(&leaves.get(weight)?.t()?)?;
            x = y.broadcast_add(leaves.get(bias)?)?;
        }
        Ok(x)
    }

    fn activate(&self, x: &Tensor) -> CandleResult<Tensor> {
        match self.activation {
            Activation::Tanh => x.tanh(),
            Activation::Relu => x.relu(),
            Activation::Elu => x.elu(1.0),
            Activation::Silu => x.silu(),
        }
    }
}

/// Arrays of the vector as tensors, which may need gradients.
pub(crate) struct Leaves {
    tensors: Vec<(Range<usize>, Tensor)>,
    len: usize,
}

impl Leaves {
    /// Makes the tensors of some arrays of a vector with `len` numbers.
    pub(crate) fn new<'p>(
        (parameters, len): (&[f32], usize),
        arrays: impl Iterator<Item = &'p ArraySpec>,
        needs_gradient: bool,
    ) -> Result<Self> {
        check_len("parameters", parameters.len(), len, "as in the layout")?;
        let tensor = |array: &ArraySpec| {
            let (numbers, shape) = (array.slice(parameters), array.shape.as_slice());
            if needs_gradient {
                return Ok(Var::from_slice(numbers, shape, &Device::Cpu)?.into_inner());
            }
            Tensor::from_slice(numbers, shape, &Device::Cpu)
        };
        let all = arrays.map(|array| Ok((array.range.clone(), tensor(array)?)));
        Ok(Self { tensors: all.collect::<CandleResult<_>>().map_err(to_internal_error)?, len })
    }

    pub(crate) fn get(&self, spec: &ArraySpec) -> CandleResult<&Tensor> {
        let entry = self.tensors.iter().find(|(range, _)| *range == spec.range);
        let tensor = entry.map(|(_, tensor)| tensor);
        tensor.ok_or_else(|| candle_core::Error::Msg("an array without a tensor".to_owned()))
    }

    /// Writes the gradients into their ranges of the vector, 0 where there is none.
    pub(crate) fn write_gradient(&self, store: &GradStore, gradient: &mut [f32]) -> Result<()> {
        check_len("gradient", gradient.len(), self.len, "as the parameters")?;
        gradient.fill(0.0);
        for (range, tensor) in &self.tensors {
            let (Some(array_gradient), Some(target)) = (store.get(tensor), gradient.get_mut(range.clone()))
            else {
                continue;
            };
            target.copy_from_slice(&to_numbers(array_gradient)?);
        }
        Ok(())
    }
}

/// Returns all numbers of a tensor, in its order.
pub(crate) fn to_numbers(tensor: &Tensor) -> Result<Vec<f32>> {
    tensor.flatten_all().and_then(|flat| flat.to_vec1()).map_err(to_internal_error)
}

/// Copies all numbers of a tensor to `out`.
pub(crate) fn copy_numbers(name: &'static str, tensor: &Tensor, out: &mut [f32]) -> Result<()> {
    let numbers = to_numbers(tensor)?;
    check_len(name, out.len(), numbers.len(), "as many as these observations give")?;
    out.copy_from_slice(&numbers);
    Ok(())
}
