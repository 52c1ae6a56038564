//! A Gaussian that tanh squashes into [-1, 1] (Haarnoja et al. 2018, arXiv:1812.05905, appendix C).

use rlox_core::math::in_place;

use super::super::gemm::Number;

/// The range to which log standard deviations are clipped, as in Stable-Baselines3.
const LOG_STD: (f64, f64) = (-20.0, 2.0);
/// 2 ln 2 + ln sqrt(2 pi), for each number of an action.
const CONSTANT: f64 = 2.0 * std::f64::consts::LN_2 + 0.918_938_533_204_672_8;

/// Sampled actions, with the values that the backward pass needs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Drawn<F> {
    /// tanh u, `[n, dim]`.
    pub(crate) actions: Vec<F>,
    /// Their log-densities, `[n]`.
    pub(crate) log_probs: Vec<F>,
    /// u - mean, `[n, dim]`.
    far: Vec<F>,
}

impl<F: Number> Drawn<F> {
    /// Computes u = mean + std * noise and tanh u from a network's outputs `[n, 2 dim]`, means and
    /// then log deviations, with standard normal `noise` `[n, dim]`.
    ///
    /// log p = sum_i \[log N(u_i; mean_i, std_i) - log(1 - tanh^2 u_i)\] (equation 26). The second
    /// term is computed as 2 (ln 2 - u - softplus(-2 u)), which is finite for any u.
    pub(crate) fn draw(&mut self, said: &[F], noise: &[F], dim: usize) {
        let Self { actions, log_probs, far } = self;
        far.clear();
        for row in said.chunks_exact(2 * dim) {
            far.extend(row.iter().skip(dim).map(|&log_std| limited(log_std)));
        }
        actions.clear();
        actions.extend_from_slice(far); // log deviations for now
        in_place::exp(far);
        log_probs.clear();
        let rows = said.chunks_exact(2 * dim).zip(noise.chunks_exact(dim));
        let places = far.chunks_exact_mut(dim).zip(actions.chunks_exact_mut(dim));
        for ((said, noise), (far, actions)) in rows.zip(places) {
            let mut log_prob = F::ZERO;
            for (((&mean, &noise), far), action) in said.iter().zip(noise).zip(far).zip(actions) {
                *far = *far * noise;
                let (log_std, u) = (*action, mean + *far);
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

    /// Computes the gradient of the network's outputs, `[n, 2 dim]`, from the gradient of the
    /// actions `[n, dim]` and the derivative with respect to the log-densities, the same for all
    /// rows.
    ///
    /// du = da (1 - a^2) + 2 a dlog p. The gradient of the mean is du. The gradient of the log
    /// deviation is du std noise - dlog p where it is not clipped, else 0.
    pub(crate) fn back(
        &self,
        said: &[F],
        (to_actions, to_log_prob): (&[F], F),
        dim: usize,
        to_said: &mut [F],
    ) {
        let rows = said.chunks_exact(2 * dim).zip(self.actions.chunks_exact(dim));
        let rows = rows.zip(self.far.chunks_exact(dim)).zip(to_actions.chunks_exact(dim));
        for ((((said, actions), far), to_actions), to) in
            rows.zip(to_said.chunks_exact_mut(2 * dim))
        {
            let (to_mean, to_log_std) = to.split_at_mut(dim);
            let numbers = actions.iter().zip(far).zip(to_actions).zip(said.iter().skip(dim));
            for ((((&a, &far), &to_a), &log_std), (to_mean, to_log_std)) in
                numbers.zip(to_mean.iter_mut().zip(to_log_std))
            {
                let to_u = to_a * (F::ONE - a * a) + (a + a) * to_log_prob;
                *to_mean = to_u;
                let inside = limited(log_std) == log_std;
                *to_log_std = if inside { to_u * far - to_log_prob } else { F::ZERO };
            }
        }
    }
}

fn limited<F: Number>(log_std: F) -> F {
    let (low, high) = (F::from_f64(LOG_STD.0), F::from_f64(LOG_STD.1));
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
    let wide = x.to_f64();
    F::from_f64(if wide > 20.0 { wide } else { wide.exp().ln_1p() })
}
