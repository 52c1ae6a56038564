//! Readers of arguments. A reader has the name of its parameter, which it puts into its messages. So
//! the defaults in a `#[pyo3(signature = ...)]` are plain literals, which Python and the stub show.

/// Defines a module of readers for parameters of one type.
macro_rules! readers {
    ($(#[$doc:meta])* $kind:ident: $type:ty = $read:path; $($name:ident)+) => {
        $(#[$doc])*
        #[allow(clippy::needless_lifetimes, reason = "text borrows from the argument")]
        pub(crate) mod $kind {
            use pyo3::prelude::*;

            $(
                #[doc = concat!("The argument `", stringify!($name), "`.")]
                pub(crate) fn $name<'a>(value: &'a Bound<'_, PyAny>) -> PyResult<$type> {
                    $read(value, stringify!($name))
                }
            )+
        }
    };
}

readers! {
    /// Integers in 0..2**64.
    integer: u64 = crate::convert::coerce::unsigned;
    columns first index n position rollout rows seed
}

readers! {
    /// Integers in 0..2**64, or None.
    optional_integer: Option<u64> = crate::convert::coerce::unsigned_or_none;
    elapsed noise_kept seed
}

readers! {
    /// Integers in 0..2**64; a number beyond `usize` becomes `usize::MAX`, which no array can reach.
    size: usize = crate::convert::coerce::size;
    batch_size ddof given max_len n n_step obs_dim parallel_from shard size step trainings
}

readers! {
    /// Integers in -2**63..2**63.
    signed: i64 = crate::convert::coerce::signed;
    pad_token_id
}

readers! {
    /// Numbers. The code that uses them checks their range.
    number: f64 = crate::convert::coerce::real;
    adam_eps alpha c_bar clip_eps deviation ent_coef eps gamma lam last_value learning_rate rho_bar vf_coef
}

readers! {
    /// Numbers, or None.
    optional_number: Option<f64> = crate::convert::coerce::real_or_none;
    clip max_grad_norm target_kl
}

readers! {
    /// Unicode text.
    text: &'a str = crate::convert::coerce::text;
    activation algorithm env_id estimator kind name precision reduction scale
}
