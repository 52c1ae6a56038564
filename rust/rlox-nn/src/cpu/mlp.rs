//! Multilayer perceptrons whose parameters lie in somebody else's vector.

use rlox_core::error::{Error, Result, check_len};
use rlox_core::{Layout, interrupt};

use super::activation::Activation;
use super::dense::Dense;
use super::gemm::Number;

/// Linear layers with an activation between them, none at the end.
///
/// Parameters are those of a `torch.nn.Sequential` of `Linear` layers with activations between: `PREFIX.0.weight`
/// `[outputs, inputs]`, `PREFIX.0.bias`, `PREFIX.2.weight`, ...
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mlp {
    layers: Vec<Dense>,
    activation: Activation,
    /// Whether it stands behind the last layer too.
    ends: bool,
    /// Of the vector that the layers lie in.
    len: usize,
}

/// What a pass through a network leaves for the way back, and room for that.
#[derive(Debug, Clone, Default)]
pub struct Memory<F> {
    /// Rows of the last pass.
    rows: usize,
    /// What each layer gave, after its activation.
    outputs: Vec<Vec<F>>,
    /// The slopes of each hidden layer's activation, where these cannot be told from what it gave.
    slopes: Vec<Vec<F>>,
    /// Gradients of what a layer gave and of what it was given.
    gradients: [Vec<F>; 2],
}

/// Where the gradients of a pass go.
#[derive(Debug, Default)]
pub struct Wanted<'a, F> {
    /// Those of the parameters are added to this vector.
    pub parameters: Option<&'a mut [F]>,
    /// Those of the inputs, `[n, inputs]`.
    pub inputs: Option<&'a mut [F]>,
}

impl<'a, F> Wanted<'a, F> {
    /// Of the parameters only.
    pub const fn parameters(gradient: &'a mut [F]) -> Self {
        Self { parameters: Some(gradient), inputs: None }
    }

    /// Of the inputs only.
    pub const fn inputs(gradient: &'a mut [F]) -> Self {
        Self { parameters: None, inputs: Some(gradient) }
    }
}

/// Names and shapes of a network of these `sizes`, inputs and outputs included, in torch's order.
#[must_use]
pub fn named(prefix: &str, sizes: &[usize]) -> Vec<(String, Vec<usize>)> {
    let pairs = sizes.iter().zip(sizes.iter().skip(1));
    let layers = pairs.enumerate().flat_map(|(i, (&inputs, &outputs))| {
        let name = format!("{prefix}.{}", 2 * i);
        [(format!("{name}.weight"), vec![outputs, inputs]), (format!("{name}.bias"), vec![outputs])]
    });
    layers.collect()
}

impl Mlp {
    /// The network of these `sizes` whose parameters `layout` has under `prefix`.
    ///
    /// # Errors
    /// [`Error::UnknownName`] for a parameter that is missing, [`Error::Shape`] for one of another shape;
    /// [`Error::Config`] for fewer than two sizes.
    pub fn new(
        layout: &Layout,
        prefix: &str,
        sizes: &[usize],
        activation: Activation,
    ) -> Result<Self> {
        let named = named(prefix, sizes);
        if named.is_empty() {
            let expected = "the numbers of inputs and of outputs at least";
            return Err(Error::config(
                format!("sizes of {prefix}"),
                format!("{sizes:?}"),
                expected,
            ));
        }
        let mut layers = Vec::with_capacity(named.len() / 2);
        for pair in named.as_chunks::<2>().0 {
            let [(weight, shape), (bias, outputs)] = pair;
            let (Some(&inputs), Some(&width)) = (shape.last(), outputs.last()) else { continue };
            layers.push(Dense {
                weight: layout.range(weight, shape)?,
                bias: layout.range(bias, outputs)?,
                inputs,
                outputs: width,
            });
        }
        Ok(Self { layers, activation, ends: false, len: layout.len() })
    }

    /// Networks of these `sizes` whose parameters lie one after the other: `weights.0` `[members, outputs,
    /// inputs]`, `biases.0` `[members, outputs]`, `weights.1`, ...
    ///
    /// # Errors
    /// As [`Mlp::new`].
    pub(super) fn stacked(
        layout: &Layout,
        members: usize,
        sizes: &[usize],
        activation: Activation,
    ) -> Result<Vec<Self>> {
        let empty = Self { layers: Vec::new(), activation, ends: false, len: layout.len() };
        let mut all = vec![empty; members];
        for (i, (&inputs, &outputs)) in sizes.iter().zip(sizes.iter().skip(1)).enumerate() {
            let weight = layout.range(&format!("weights.{i}"), &[members, outputs, inputs])?.start;
            let bias = layout.range(&format!("biases.{i}"), &[members, outputs])?.start;
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

    /// The same with the activation behind the last layer too.
    #[must_use]
    pub(super) const fn activated(mut self) -> Self {
        self.ends = true;
        self
    }

    /// Numbers of an input.
    #[must_use]
    pub fn inputs(&self) -> usize {
        self.layers.first().map_or(0, |layer| layer.inputs)
    }

    /// Numbers of an output.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.layers.last().map_or(0, |layer| layer.outputs)
    }

    /// A pass through the network of `x` `[n, inputs]`, which gives `[n, outputs]`.
    ///
    /// # Errors
    /// [`Error::Shape`] unless `x` are whole rows and `parameters` the whole vector.
    pub fn forward<'m, F: Number>(
        &self,
        parameters: &[F],
        x: &[F],
        memory: &'m mut Memory<F>,
    ) -> Result<&'m mut [F]> {
        self.pass(parameters, x, memory, self.activation.keeps_slopes())
    }

    /// [`Mlp::forward`] without a way back.
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
        keep: bool,
    ) -> Result<&'m mut [F]> {
        let rows = self.rows(parameters.len(), x.len())?;
        memory.fit(&self.layers, rows, keep)?;
        let Memory { outputs, slopes, .. } = memory;
        let activated = self.layers.len() - usize::from(!self.ends && !self.layers.is_empty());
        for (i, layer) in self.layers.iter().enumerate() {
            let (before, from) = outputs.split_at_mut(i);
            let Some(y) = from.first_mut() else { continue };
            interrupt::check()?;
            layer.forward(parameters, before.last().map_or(x, Vec::as_slice), y)?;
            if i < activated {
                let slopes = slopes.get_mut(i).map_or(&mut [][..], Vec::as_mut_slice);
                self.activation.apply(y, slopes);
            }
        }
        Ok(memory.outputs.last_mut().map_or(&mut [], Vec::as_mut_slice))
    }

    /// The way back of the last [`Mlp::forward`], of the same `parameters` and `x`: from the gradient of
    /// what it gave, `[n, outputs]`, to what is `wanted`.
    ///
    /// # Errors
    /// [`Error::Shape`] for slices of other lengths.
    pub fn backward<F: Number>(
        &self,
        parameters: &[F],
        x: &[F],
        memory: &mut Memory<F>,
        to_outputs: &[F],
        mut wanted: Wanted<'_, F>,
    ) -> Result<()> {
        let rows = self.rows(parameters.len(), x.len())?;
        check_len("rows of the way back", rows, memory.rows, "as in the pass before")?;
        check_len(
            "gradient of the outputs",
            to_outputs.len(),
            rows * self.outputs(),
            "as the outputs",
        )?;
        for (name, given, len) in [
            ("gradient of the parameters", wanted.parameters.as_deref(), self.len),
            ("gradient of the inputs", wanted.inputs.as_deref(), x.len()),
        ] {
            given.map_or(Ok(()), |given| check_len(name, given.len(), len, "as they are"))?;
        }
        let Memory { outputs, slopes, gradients: [above, below], .. } = memory;
        above.clear();
        above.extend_from_slice(to_outputs);
        if self.ends {
            let last = self.layers.len().saturating_sub(1);
            let given = outputs.last().map_or(&[][..], Vec::as_slice);
            self.activation.back(above, given, slopes.get(last).map_or(&[], Vec::as_slice));
        }
        for (i, layer) in self.layers.iter().enumerate().rev() {
            let before = i.checked_sub(1);
            let given = before.and_then(|i| outputs.get(i));
            let inputs = given.map_or(x, Vec::as_slice);
            interrupt::check()?;
            if let Some(gradient) = &mut wanted.parameters {
                layer.learn(gradient, inputs, above)?;
            }
            let Some(before) = before else {
                return match &mut wanted.inputs {
                    Some(to_inputs) => layer.back(parameters, above, to_inputs),
                    None => Ok(()),
                };
            };
            resize(below, rows * layer.inputs)?;
            layer.back(parameters, above, below)?;
            self.activation.back(below, inputs, slopes.get(before).map_or(&[], Vec::as_slice));
            std::mem::swap(above, below);
        }
        Ok(())
    }

    fn rows(&self, parameters: usize, x: usize) -> Result<usize> {
        check_len("parameters", parameters, self.len, "as in the layout")?;
        let inputs = self.inputs().max(1);
        check_len("inputs", x, x / inputs * inputs, "whole rows")?;
        Ok(x / inputs)
    }
}

/// Room for so many numbers; what they are is of no account.
///
/// # Errors
/// [`Error::Config`] if memory has not that much: an allocation that fails would end the process.
pub(super) fn resize<F: Number>(numbers: &mut Vec<F>, len: usize) -> Result<()> {
    let more = len.saturating_sub(numbers.len());
    numbers.try_reserve_exact(more).map_err(|_| {
        Error::config("numbers of a pass", len, "what fits into memory; make minibatches smaller")
    })?;
    numbers.resize(len, F::ZERO);
    Ok(())
}

impl<F: Number> Memory<F> {
    fn fit(&mut self, layers: &[Dense], rows: usize, keep: bool) -> Result<()> {
        self.rows = rows;
        self.outputs.resize_with(layers.len(), Vec::new);
        self.slopes.resize_with(if keep { layers.len() } else { 0 }, Vec::new);
        for (output, layer) in self.outputs.iter_mut().zip(layers) {
            resize(output, rows * layer.outputs)?;
        }
        for (slope, layer) in self.slopes.iter_mut().zip(layers) {
            resize(slope, rows * layer.outputs)?;
        }
        Ok(())
    }

    /// What the last pass gave.
    pub(crate) fn given(&self) -> &[F] {
        self.outputs.last().map_or(&[], Vec::as_slice)
    }

    /// What the last hidden layer gave in it; nothing of a network without one.
    pub(crate) fn features(&self) -> &[F] {
        let hidden = self.outputs.len().checked_sub(2);
        hidden.and_then(|i| self.outputs.get(i)).map_or(&[], Vec::as_slice)
    }
}
