//! Tests batches of normal numbers: the mapping from random words never changes, the numbers do not
//! depend on the sizes of calls, and their distribution is normal.

use rlox_core::seed::Stream;

fn draw_normals(stream: &mut Stream, n: usize) -> Vec<f64> {
    let mut out = vec![0.0; n];
    stream.fill_normal(&mut out);
    out
}

#[test]
fn the_mapping_from_key_to_normal_numbers_never_changes() {
    // The bits come from an independent implementation in Python of ChaCha8, FNV-1a, AS 241 and
    // fdlibm's logarithm.
    let first_bits = |seed, name, index| {
        draw_normals(&mut Stream::new(seed, name, index), 6).into_iter().map(f64::to_bits).collect()
    };
    let vectors: [(Vec<u64>, [u64; 6]); 3] = [
        (
            first_bits(0, "env", 0),
            [
                0x3fc6_1d78_853f_34ed,
                0xbff5_e001_7bbb_7223,
                0xbfd1_147f_1970_0d5e,
                0x3fe0_f483_c177_4127,
                0xbfaf_5666_e06a_6782,
                0xbfd6_0f15_2040_ccfb,
            ],
        ),
        (
            first_bits(42, "env", 7),
            [
                0x3fee_37af_6758_0cc0,
                0x3fe9_472d_4306_d3d0,
                0x3fe8_5ef5_d36e_cf57,
                0xbff4_cbb0_9494_1b86,
                0xbfc5_acf5_4d3f_b54d,
                0xbfb5_998d_f174_6b24,
            ],
        ),
        (
            first_bits(u64::MAX, "policy/λ", 3),
            [
                0xbfee_ddcc_7936_6eb7,
                0x3ff3_aa45_1ce9_6925,
                0x3fc7_5abc_3347_fb26,
                0x3ff2_2b70_875f_557c,
                0xbfe0_5b10_130d_4d96,
                0xbff0_127b_2009_95fe,
            ],
        ),
    ];
    for (got, expected) in vectors {
        assert_eq!(got, expected);
    }
}

#[test]
fn numbers_are_the_same_drawn_in_one_call_or_in_many_from_any_position() {
    for start in [0, 1, 2, 63, 64, 65] {
        let mut stream_at_once = Stream::new(7, "noise", 2);
        stream_at_once.set_position(start);
        let expected = draw_normals(&mut stream_at_once, 2_000);
        assert_eq!(stream_at_once.position(), start + 4_000);

        let mut stream_in_parts = Stream::new(7, "noise", 2);
        stream_in_parts.set_position(start);
        let mut got = Vec::new();
        for n in (0..).map(|i| [1, 3, 0, 7, 64, 255, 257, 2][i % 8]) {
            got.extend(draw_normals(&mut stream_in_parts, n.min(2_000 - got.len())));
            if got.len() == 2_000 {
                break;
            }
        }
        assert_eq!(got, expected, "from word {start}");

        let mut later_stream = Stream::new(7, "noise", 2);
        later_stream.set_position(start + 2 * 777);
        assert_eq!(draw_normals(&mut later_stream, 5), expected[777..782]);
    }
}

#[test]
fn a_number_belongs_to_one_draw_of_64_bits() {
    let mut word_stream = Stream::new(7, "noise", 2);
    let mut number_stream = Stream::new(7, "noise", 2);
    for _ in 0..1_000 {
        let above_half = word_stream.next_u64() >> 63 == 1;
        assert_eq!(draw_normals(&mut number_stream, 1)[0] > 0.0, above_half);
        assert_eq!(number_stream.position(), word_stream.position());
    }
}

#[test]
fn float32_numbers_are_the_float64_ones_rounded() {
    let doubles = draw_normals(&mut Stream::new(7, "noise", 2), 1_000);
    let mut single = vec![0.0_f32; 1_000];
    Stream::new(7, "noise", 2).fill_normal(&mut single);
    #[expect(clippy::cast_possible_truncation, reason = "the test compares with this rounding")]
    let rounded: Vec<f32> = doubles.into_iter().map(|x| x as f32).collect();
    assert_eq!(single, rounded);
}

/// Returns P(Z < x) by the series of the error function (Abramowitz and Stegun 7.1.6), with an error
/// below 1e-13 for |x| < 6.
fn cumulative(x: f64) -> f64 {
    let (mut term, mut sum, mut n) = (x, x, 1.0);
    while term.abs() > 1e-17 * sum.abs() {
        n += 2.0;
        term *= x * x / n;
        sum += term;
    }
    0.5 + sum * (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt()
}

#[test]
#[expect(clippy::cast_precision_loss, reason = "a small count")]
fn a_million_numbers_are_normal_in_moments_tails_and_distribution() {
    let n = 1_000_000_u32;
    let mut numbers = draw_normals(&mut Stream::new(11, "distribution", 0), n as usize);
    let count = f64::from(n);
    // Means lie within 5 standard errors. `mean` and `error` are the mean and the variance of x^power;
    // the variance of x^k is E x^2k - (E x^k)^2.
    for (power, mean, error) in
        [(1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0), (6, 15.0, 10_170.0)]
    {
        let got = numbers.iter().map(|x| x.powi(power)).sum::<f64>() / count;
        assert!((got - mean).abs() < 5.0 * f64::sqrt(error / count), "power {power}: {got}");
    }
    let lag = numbers.windows(2).map(|pair| pair[0] * pair[1]).sum::<f64>() / count;
    assert!(lag.abs() < 5.0 / count.sqrt(), "correlation of neighbours {lag}");
    for bound in [1.0, 2.0, 3.0, 4.0] {
        let p = 2.0 * cumulative(-bound);
        let n_beyond = numbers.iter().filter(|x| x.abs() > bound).count() as f64;
        let error = (count * p).sqrt();
        assert!((n_beyond - count * p).abs() < 5.0 * error, "beyond {bound}: {n_beyond}");
    }
    // Kolmogorov-Smirnov test: sqrt(n) D exceeds 2.23 once in 10,000 times.
    numbers.sort_by(f64::total_cmp);
    let distance = numbers.iter().enumerate().map(|(i, &x)| {
        let below = i as f64 / count;
        (cumulative(x) - below).abs().max((cumulative(x) - below - 1.0 / count).abs())
    });
    let distance = distance.fold(0.0, f64::max) * count.sqrt();
    assert!(distance < 2.23, "sqrt(n) D = {distance}");
}
