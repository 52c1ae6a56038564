//! A Gaussian that tanh squashes into [-1, 1] (Haarnoja et al. 2018, arXiv:1812.05905, appendix C).

use rlox_core::math::in_place;

use super::super::gemm::Number;

/// The range to which log standard deviations are clipped, as in Stable-Baselines3.
const LOG_STD_RANGE: (f64, f64) = (-20.0, 2.0);
/// The constant part of -log p for each dimension of an action: 2 ln 2 + ln sqrt(2 pi).
const CONSTANT: f64 = 2.0 * std::f64::consts::LN_2 + 0.918_938_533_204_672_8;

/// Sampled actions, with the values that the backward pass needs.
#[derive(Debug, Clone, Default)]
pub(crate) struct SquashedSample<F> {
    /// tanh u of u = mean + std * noise, `[n, dim]`.
    pub(crate) actions: Vec<F>,
    /// Their log-densities, `[n]`.
    pub(crate) log_probs: Vec<F>,
    /// u - mean, `[n, dim]`.
    offsets: Vec<F>,
}

impl<F: Number> SquashedSample<F> {
    /// Computes u = mean + std * noise and tanh u from a network's outputs `[n, 2 dim]`, means and
    /// then log deviations, with standard normal `noise` `[n, dim]`.
    ///
    /// log p = sum_i \[log N(u_i; mean_i, std_i) - log(1 - tanh^2 u_i)\] (equation 26). The second
    /// term is computed as 2 (ln 2 - u - softplus(-2 u)), which is finite for any u.
    pub(crate) fn draw(&mut self, outputs: &[F], noise: &[F], dim: usize) {
        let Self { actions, log_probs, offsets } = self;
        // `offsets` holds log standard deviations first, then deviations; the loop replaces these by offsets.
        offsets.clear();
        for row in outputs.chunks_exact(2 * dim) {
            offsets.extend(row.iter().skip(dim).map(|&log_std| clip_log_std(log_std)));
        }
        actions.clear();
        actions.extend_from_slice(offsets); // log standard deviations, which the loop replaces by actions
        in_place::exp(offsets);
        log_probs.clear();
        let rows = outputs.chunks_exact(2 * dim).zip(noise.chunks_exact(dim));
        let buffers = offsets.chunks_exact_mut(dim).zip(actions.chunks_exact_mut(dim));
        for ((row_outputs, noise), (row_offsets, actions)) in rows.zip(buffers) {
            let mut log_prob = F::ZERO;
            for (((&mean, &noise), offset), action) in
                row_outputs.iter().zip(noise).zip(row_offsets).zip(actions)
            {
                *offset = *offset * noise;
                let (log_std, u) = (*action, mean + *offset);
                let half = F::from_f64(0.5);
                log_prob += F::from_f64(2.0) * (softplus(-(u + u)) + u)
                    - log_std
                    - half * noise * noise
                    - F::from_f64(CONSTANT);
                *action = u;
            }
            log_probs.push(log_prob);
        }
        in_place::tanh(actions);
    }

    /// Computes the gradient with respect to the network's outputs, `[n, 2 dim]`, from that with
    /// respect to the actions, `[n, dim]`, and the derivative with respect to the log-densities, which
    /// is the same for all rows. `to_x` is the derivative of the loss with respect to `x`.
    ///
    /// Let du, da and dlogp be the derivatives with respect to u, a = tanh u and log p. Then
    /// du = da (1 - a^2) + 2 a dlogp. The derivative with respect to the mean is du. That with respect
    /// to the log deviation is du std noise - dlogp where the deviation is not clipped, else 0.
    pub(crate) fn backward(
        &self,
        outputs: &[F],
        (to_actions, to_log_prob): (&[F], F),
        dim: usize,
        to_outputs: &mut [F],
    ) {
        let rows = outputs.chunks_exact(2 * dim).zip(self.actions.chunks_exact(dim));
        let rows = rows.zip(self.offsets.chunks_exact(dim)).zip(to_actions.chunks_exact(dim));
        for ((((row_outputs, actions), row_offsets), to_actions), to_row) in
            rows.zip(to_outputs.chunks_exact_mut(2 * dim))
        {
            let (to_mean, to_log_std) = to_row.split_at_mut(dim);
            let numbers = actions.iter().zip(row_offsets).zip(to_actions).zip(row_outputs.iter().skip(dim));
            for ((((&a, &offset), &to_a), &log_std), (to_mean, to_log_std)) in
                numbers.zip(to_mean.iter_mut().zip(to_log_std))
            {
                let to_u = to_a * (F::ONE - a * a) + (a + a) * to_log_prob;
                *to_mean = to_u;
                let is_unclipped = clip_log_std(log_std) == log_std;
                *to_log_std = if is_unclipped { to_u * offset - to_log_prob } else { F::ZERO };
            }
        }
    }
}

fn clip_log_std<F: Number>(log_std: F) -> F {
    let (low, high) = (F::from_f64(LOG_STD_RANGE.0), F::from_f64(LOG_STD_RANGE.1));
    if log_std < low {
        low
    } else if log_std > high {
        high
    } else {
        log_std
    }
}

/// Returns ln(1 + e^x), or x if x is above 20, as in torch.
fn softplus<F: Number>(x: F) -> F {
    let x_f64 = x.to_f64();
    F::from_f64(if x_f64 > 20.0 { x_f64 } else { x_f64.exp().ln_1p() })
}
