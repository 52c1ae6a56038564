//! Perceptrons with a flat vector of parameters, computed with tensors.

use std::ops::Range;

use burn_tensor::{Device, Gradients, Int, Tensor, TensorData, activation};
use rlox_core::error::{Error, check_len};
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

    /// Returns the number of observations in `obs` `[n, inputs]`, which must have whole rows.
    pub(crate) fn n_rows(&self, obs: &[f32]) -> Result<usize> {
        let n = obs.len() / self.inputs;
        check_len("obs", obs.len(), n * self.inputs, "whole rows")?;
        Ok(n)
    }

    /// Computes `[n, outputs]` from `obs` `[n, inputs]`, which must have whole rows.
    pub(crate) fn forward(&self, leaves: &Leaves, obs: &[f32]) -> Result<Tensor<2>> {
        let n = obs.len() / self.inputs;
        let mut x = to_tensor(obs, &leaves.device).reshape([n, self.inputs]);
        for (i, [weight, bias]) in self.layers.iter().enumerate() {
            if i > 0 {
                x = self.activate(x);
            }
            let [outputs, inputs] = [0, 1].map(|k| weight.shape.get(k).copied().unwrap_or(0));
            let weight = leaves.get(weight)?.reshape([outputs, inputs]);
            x = x.matmul(weight.transpose()) + leaves.get(bias)?.reshape([1, outputs]);
        }
        Ok(x)
    }

    fn activate(&self, x: Tensor<2>) -> Tensor<2> {
        match self.activation {
            Activation::Tanh => x.tanh(),
            Activation::Relu => activation::relu(x),
            // Burn's own ELU also computes e^x of large x, where its gradient is 0 times infinity.
            Activation::Elu => activation::relu(x.clone()) + x.clamp_max(0.0).exp() - 1.0,
            Activation::Silu => activation::silu(x),
        }
    }
}

/// Arrays of the vector as flat tensors, which may need gradients.
pub(crate) struct Leaves {
    tensors: Vec<(Range<usize>, Tensor<1>)>,
    len: usize,
    pub(crate) device: Device,
}

impl Leaves {
    /// Makes the tensors of some arrays of a vector with `len` numbers.
    pub(crate) fn new<'p>(
        (parameters, len): (&[f32], usize),
        arrays: impl Iterator<Item = &'p ArraySpec>,
        needs_gradient: bool,
    ) -> Result<Self> {
        check_len("parameters", parameters.len(), len, "as in the layout")?;
        let device = if needs_gradient { Device::flex().autodiff() } else { Device::flex() };
        let tensor = |array: &ArraySpec| {
            let tensor = to_tensor(array.slice(parameters), &device);
            (array.range.clone(), if needs_gradient { tensor.require_grad() } else { tensor })
        };
        Ok(Self { tensors: arrays.map(tensor).collect(), len, device })
    }

    pub(crate) fn get(&self, spec: &ArraySpec) -> Result<Tensor<1>> {
        let entry = self.tensors.iter().find(|(range, _)| *range == spec.range);
        let tensor = entry.map(|(_, tensor)| tensor.clone());
        tensor.ok_or_else(|| Error::internal("an array without a tensor"))
    }

    /// Writes the gradients into their ranges of the vector, 0 where there is none.
    pub(crate) fn write_gradient(&self, mut store: Gradients, gradient: &mut [f32]) -> Result<()> {
        check_len("gradient", gradient.len(), self.len, "as the parameters")?;
        gradient.fill(0.0);
        for (range, tensor) in &self.tensors {
            let array_gradient = tensor.grad_remove(&mut store);
            if let (Some(array_gradient), Some(target)) = (array_gradient, gradient.get_mut(range.clone())) {
                target.copy_from_slice(&to_numbers(array_gradient)?);
            }
        }
        Ok(())
    }
}

/// Makes a tensor of numbers.
pub(crate) fn to_tensor(numbers: &[f32], device: &Device) -> Tensor<1> {
    Tensor::from_data(TensorData::new(numbers.to_vec(), [numbers.len()]), device)
}

/// Makes a tensor `[n, 1]` of choices.
pub(crate) fn choice_tensor(actions: &[i64], device: &Device) -> Tensor<2, Int> {
    Tensor::from_data(TensorData::new(actions.to_vec(), [actions.len(), 1]), device)
}

/// Returns all numbers of a tensor, in its order.
pub(crate) fn to_numbers<const D: usize>(tensor: Tensor<D>) -> Result<Vec<f32>> {
    let data = tensor.try_into_data().map_err(to_internal_error)?;
    Ok(data.as_slice::<f32>().map_err(to_internal_error)?.to_vec())
}

/// Returns the number of a tensor that has one.
pub(crate) fn to_number(tensor: &Tensor<1>) -> Result<f64> {
    let all = to_numbers(tensor.clone())?;
    all.first().copied().map(f64::from).ok_or_else(|| Error::internal("a tensor without a number"))
}

/// Copies all numbers of a tensor to `out`.
pub(crate) fn copy_numbers<const D: usize>(
    name: &'static str,
    tensor: Tensor<D>,
    out: &mut [f32],
) -> Result<()> {
    let numbers = to_numbers(tensor)?;
    check_len(name, out.len(), numbers.len(), "as many as these observations give")?;
    out.copy_from_slice(&numbers);
    Ok(())
}
