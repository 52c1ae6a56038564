//! Multilayer perceptrons over a parameter vector that the caller owns.

use std::ops::Range;

use rlox_core::error::{Error, Result, check_len};
use rlox_core::{Layout, interrupt};

use super::activation::Activation;
use super::dense::Dense;
use super::gemm::Number;

/// Linear layers with an activation between them, and none after the last one.
///
/// The parameters are those of a `torch.nn.Sequential` of `Linear` layers with activations between:
/// `PREFIX.0.weight` `[outputs, inputs]`, `PREFIX.0.bias`, `PREFIX.2.weight`, ...
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mlp {
    layers: Vec<Dense>,
    activation: Activation,
    /// Whether the activation follows the last layer too.
    has_output_activation: bool,
    /// The length of the parameter vector.
    n_parameters: usize,
}

/// Activations that a forward pass stores for the backward pass, and its buffers.
#[derive(Debug, Clone, Default)]
pub struct Memory<F> {
    /// Rows of the last pass.
    rows: usize,
    /// The outputs of each layer, after its activation.
    outputs: Vec<Vec<F>>,
    /// The derivatives of each hidden layer's activation, if they cannot be computed from its
    /// outputs.
    slopes: Vec<Vec<F>>,
    /// The gradients with respect to a layer's outputs and to its inputs.
    gradients: [Vec<F>; 2],
    /// Rows of a layer's outputs, or of its derivatives.
    chosen: Vec<F>,
}

/// The slices that receive the gradients of a backward pass.
#[derive(Debug, Default)]
pub struct GradientBuffers<'a, F> {
    /// The vector to which the gradient with respect to the parameters is added.
    pub parameters: Option<&'a mut [F]>,
    /// The slice for the gradient with respect to the inputs, `[n, inputs]`.
    pub inputs: Option<&'a mut [F]>,
}

impl<'a, F> GradientBuffers<'a, F> {
    /// Requests only the gradient with respect to the parameters.
    pub const fn parameters(gradient: &'a mut [F]) -> Self {
        Self { parameters: Some(gradient), inputs: None }
    }

    /// Requests only the gradient with respect to the inputs.
    pub const fn inputs(gradient: &'a mut [F]) -> Self {
        Self { parameters: None, inputs: Some(gradient) }
    }
}

/// Returns the names and shapes of the parameters of a network of these `sizes`, inputs and outputs
/// included, in torch's order.
#[must_use]
pub fn parameter_shapes(prefix: &str, sizes: &[usize]) -> Vec<(String, Vec<usize>)> {
    let pairs = sizes.iter().zip(sizes.iter().skip(1));
    let layers = pairs.enumerate().flat_map(|(i, (&inputs, &outputs))| {
        let name = format!("{prefix}.{}", 2 * i);
        [(format!("{name}.weight"), vec![outputs, inputs]), (format!("{name}.bias"), vec![outputs])]
    });
    layers.collect()
}

impl Mlp {
    /// Returns the network of these `sizes`, whose parameters have `prefix` in `layout`.
    ///
    /// # Errors
    /// [`Error::UnknownName`] for a missing parameter, [`Error::Shape`] for a parameter of another
    /// shape; [`Error::Config`] for fewer than two sizes.
    pub fn new(layout: &Layout, prefix: &str, sizes: &[usize], activation: Activation) -> Result<Self> {
        let shapes = parameter_shapes(prefix, sizes);
        if shapes.is_empty() {
            let expected = "the numbers of inputs and of outputs at least";
            return Err(Error::config(format!("sizes of {prefix}"), format!("{sizes:?}"), expected));
        }
        let mut layers = Vec::with_capacity(shapes.len() / 2);
        for pair in shapes.as_chunks::<2>().0 {
            let [(weight, shape), (bias, outputs)] = pair;
            let (Some(&inputs), Some(&width)) = (shape.last(), outputs.last()) else { continue };
            layers.push(Dense {
                weight: layout.range(weight, shape)?,
                bias: layout.range(bias, outputs)?,
                inputs,
                outputs: width,
            });
        }
        Ok(Self { layers, activation, has_output_activation: false, n_parameters: layout.len() })
    }

    /// Returns networks of these `sizes` whose parameters are stacked: `weights.0` `[members,
    /// outputs, inputs]`, `biases.0` `[members, outputs]`, `weights.1`, ...
    ///
    /// # Errors
    /// As [`Mlp::new`].
    pub(super) fn stacked(
        layout: &Layout,
        members: usize,
        sizes: &[usize],
        activation: Activation,
    ) -> Result<Vec<Self>> {
        let empty =
            Self { layers: Vec::new(), activation, has_output_activation: false, n_parameters: layout.len() };
        let mut all: Vec<Self> = Vec::new();
        for (i, (&inputs, &outputs)) in sizes.iter().zip(sizes.iter().skip(1)).enumerate() {
            let weight = layout.range(&format!("weights.{i}"), &[members, outputs, inputs])?.start;
            let bias = layout.range(&format!("biases.{i}"), &[members, outputs])?.start;
            if all.is_empty() {
                // Only now, because `members` may be any number, which no layout has.
                all.try_reserve_exact(members)
                    .map_err(|_| Error::config("members", members, "networks that fit into memory"))?;
                all.resize(members, empty.clone());
            }
            for (member, net) in all.iter_mut().enumerate() {
                let (weight, bias) = (weight + member * outputs * inputs, bias + member * outputs);
                net.layers.push(Dense {
                    weight: weight..weight + outputs * inputs,
                    bias: bias..bias + outputs,
                    inputs,
                    outputs,
                });
            }
        }
        Ok(all)
    }

    /// Returns the network with the activation after the last layer too.
    #[must_use]
    pub(super) const fn with_output_activation(mut self) -> Self {
        self.has_output_activation = true;
        self
    }

    /// Returns the length of an input.
    #[must_use]
    pub fn inputs(&self) -> usize {
        self.layers.first().map_or(0, |layer| layer.inputs)
    }

    /// Returns the length of an output.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.layers.last().map_or(0, |layer| layer.outputs)
    }

    /// Runs the network on `x` `[n, inputs]` and returns its outputs `[n, outputs]`.
    ///
    /// # Errors
    /// [`Error::Shape`] unless `x` consists of whole rows and `parameters` is the whole vector.
    pub fn forward<'m, F: Number>(
        &self,
        parameters: &[F],
        x: &[F],
        memory: &'m mut Memory<F>,
    ) -> Result<&'m mut [F]> {
        self.pass(parameters, x, memory, self.activation.keeps_slopes())
    }

    /// Runs [`Mlp::forward`] without storing what only a backward pass needs.
    ///
    /// # Errors
    /// As [`Mlp::forward`].
    pub fn infer<'m, F: Number>(
        &self,
        parameters: &[F],
        x: &[F],
        memory: &'m mut Memory<F>,
    ) -> Result<&'m mut [F]> {
        self.pass(parameters, x, memory, false)
    }

    fn pass<'m, F: Number>(
        &self,
        parameters: &[F],
        x: &[F],
        memory: &'m mut Memory<F>,
        keep_slopes: bool,
    ) -> Result<&'m mut [F]> {
        let rows = self.check_rows(parameters.len(), x.len())?;
        memory.prepare(&self.layers, rows, keep_slopes)?;
        let Memory { outputs, slopes, .. } = memory;
        let n_activated =
            self.layers.len() - usize::from(!self.has_output_activation && !self.layers.is_empty());
        for (i, layer) in self.layers.iter().enumerate() {
            let (before, from) = outputs.split_at_mut(i);
            let Some(y) = from.first_mut() else { continue };
            interrupt::check()?;
            layer.forward(parameters, before.last().map_or(x, Vec::as_slice), y)?;
            if i < n_activated {
                let slopes = slopes.get_mut(i).map_or(&mut [][..], Vec::as_mut_slice);
                self.activation.apply(y, slopes);
            }
        }
        Ok(memory.outputs.last_mut().map_or(&mut [], Vec::as_mut_slice))
    }

    /// Runs backward from the last [`Mlp::forward`], with the same `parameters` and `x`. Turns the
    /// gradient with respect to the outputs, `[n, outputs]`, into the requested gradients.
    ///
    /// # Errors
    /// [`Error::Shape`] for slices of other lengths.
    pub fn backward<F: Number>(
        &self,
        parameters: &[F],
        x: &[F],
        memory: &mut Memory<F>,
        to_outputs: &[F],
        mut buffers: GradientBuffers<'_, F>,
    ) -> Result<()> {
        let rows = self.check_rows(parameters.len(), x.len())?;
        check_len("rows of the backward pass", rows, memory.rows, "as in the forward pass")?;
        check_len("gradient of the outputs", to_outputs.len(), rows * self.outputs(), "as the outputs")?;
        for (name, buffer, len) in [
            ("gradient of the parameters", buffers.parameters.as_deref(), self.n_parameters),
            ("gradient of the inputs", buffers.inputs.as_deref(), x.len()),
        ] {
            buffer.map_or(Ok(()), |given| check_len(name, given.len(), len, "one for each of them"))?;
        }
        let Memory { outputs, slopes, gradients: [above, below], .. } = memory;
        above.clear();
        above.extend_from_slice(to_outputs);
        if self.has_output_activation {
            let last = self.layers.len().saturating_sub(1);
            let net_outputs = outputs.last().map_or(&[][..], Vec::as_slice);
            self.activation.backward(above, net_outputs, slopes.get(last).map_or(&[], Vec::as_slice));
        }
        for (i, layer) in self.layers.iter().enumerate().rev() {
            let before = i.checked_sub(1);
            let previous_outputs = before.and_then(|i| outputs.get(i));
            let inputs = previous_outputs.map_or(x, Vec::as_slice);
            interrupt::check()?;
            if let Some(gradient) = &mut buffers.parameters {
                layer.add_gradient(gradient, inputs, above)?;
            }
            let Some(before) = before else {
                return match &mut buffers.inputs {
                    Some(to_inputs) => layer.backward(parameters, above, &(0..layer.inputs), to_inputs),
                    None => Ok(()),
                };
            };
            resize(below, rows * layer.inputs)?;
            layer.backward(parameters, above, &(0..layer.inputs), below)?;
            self.activation.backward(below, inputs, slopes.get(before).map_or(&[], Vec::as_slice));
            std::mem::swap(above, below);
        }
        Ok(())
    }

    /// Computes the gradient with respect to these `columns` of the inputs, `[rows, columns]`, from
    /// that with respect to the outputs, `[rows, outputs]`, for `rows` of the last [`Mlp::forward`]
    /// with the same `parameters`.
    ///
    /// # Errors
    /// [`Error::Internal`] for slices of other lengths.
    pub(super) fn input_gradient<F: Number>(
        &self,
        parameters: &[F],
        memory: &mut Memory<F>,
        rows: &[usize],
        (to_outputs, columns): (&[F], &Range<usize>),
        to_inputs: &mut [F],
    ) -> Result<()> {
        let Memory { rows: n, outputs, slopes, gradients: [above, below], chosen } = memory;
        let derivatives = if self.activation.keeps_slopes() { slopes } else { outputs };
        let mut times_slopes = |gradient: &mut [F], layer: usize, width: usize| {
            let all = derivatives.get(layer).map_or(&[][..], Vec::as_slice);
            let values = choose_rows(all, (*n, width), rows, chosen);
            self.activation.backward(gradient, values, values);
        };
        above.clear();
        above.extend_from_slice(to_outputs);
        if self.has_output_activation {
            times_slopes(above, self.layers.len().saturating_sub(1), self.outputs());
        }
        for (i, layer) in self.layers.iter().enumerate().rev() {
            interrupt::check()?;
            let Some(before) = i.checked_sub(1) else {
                return layer.backward(parameters, above, columns, to_inputs);
            };
            resize(below, rows.len() * layer.inputs)?;
            layer.backward(parameters, above, &(0..layer.inputs), below)?;
            times_slopes(below, before, layer.inputs);
            std::mem::swap(above, below);
        }
        Ok(())
    }

    fn check_rows(&self, parameters: usize, x: usize) -> Result<usize> {
        check_len("parameters", parameters, self.n_parameters, "as in the layout")?;
        let inputs = self.inputs().max(1);
        check_len("inputs", x, x / inputs * inputs, "whole rows")?;
        Ok(x / inputs)
    }
}

/// Returns these rows of `all` `[n, width]`, copied to `chosen` unless they are all n rows.
fn choose_rows<'a, F: Number>(
    all: &'a [F],
    (n, width): (usize, usize),
    rows: &[usize],
    chosen: &'a mut Vec<F>,
) -> &'a [F] {
    if rows.len() == n {
        return all;
    }
    chosen.clear();
    for row in rows {
        chosen.extend_from_slice(all.get(row * width..(row + 1) * width).unwrap_or_default());
    }
    chosen
}

/// Returns `len` zeros.
///
/// # Errors
/// As [`resize`].
pub(super) fn zeros<F: Number>(len: usize) -> Result<Vec<F>> {
    let mut buffer = Vec::new();
    resize(&mut buffer, len)?;
    Ok(buffer)
}

/// Resizes `numbers`; the values are unspecified.
///
/// # Errors
/// [`Error::Config`] if memory does not suffice: a failed allocation would end the process.
pub(super) fn resize<F: Number>(numbers: &mut Vec<F>, len: usize) -> Result<()> {
    let more = len.saturating_sub(numbers.len());
    numbers.try_reserve_exact(more).map_err(|_| {
        Error::config("numbers of a pass", len, "what fits into memory; make minibatches smaller")
    })?;
    numbers.resize(len, F::ZERO);
    Ok(())
}

impl<F: Number> Memory<F> {
    fn prepare(&mut self, layers: &[Dense], rows: usize, keep_slopes: bool) -> Result<()> {
        self.rows = rows;
        self.outputs.resize_with(layers.len(), Vec::new);
        self.slopes.resize_with(if keep_slopes { layers.len() } else { 0 }, Vec::new);
        for (output, layer) in self.outputs.iter_mut().zip(layers) {
            resize(output, rows * layer.outputs)?;
        }
        for (slope, layer) in self.slopes.iter_mut().zip(layers) {
            resize(slope, rows * layer.outputs)?;
        }
        Ok(())
    }

    /// Returns the outputs of the last pass.
    pub(crate) fn last_outputs(&self) -> &[F] {
        self.outputs.last().map_or(&[], Vec::as_slice)
    }

    /// Returns the last hidden layer's outputs of the last pass; empty if the network has no hidden
    /// layer.
    pub(crate) fn features(&self) -> &[F] {
        let hidden = self.outputs.len().checked_sub(2);
        hidden.and_then(|i| self.outputs.get(i)).map_or(&[], Vec::as_slice)
    }
}
