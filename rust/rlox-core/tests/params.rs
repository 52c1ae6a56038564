//! Named parameters: their layout, look-up by name, and tensors that are refused.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::float_cmp, missing_docs)]

use rlox_core::{Dtype, Layout, Parameters, TensorView};

fn model() -> Parameters {
    let shapes: [(&str, &[usize]); 4] =
        [("critic.weight", &[1, 4]), ("actor.weight", &[2, 4]), ("log_std", &[]), ("actor.bias", &[2])];
    Parameters::zeros(shapes).unwrap()
}

#[test]
fn parameters_lie_one_after_the_other_in_the_order_of_their_names() {
    let mut model = model();
    let names: Vec<&str> = model.layout().arrays().map(|(name, ..)| name).collect();
    assert_eq!(names, ["actor.bias", "actor.weight", "critic.weight", "log_std"]);
    for (slot, value) in model.values_mut().iter_mut().zip(0_u8..) {
        *slot = f32::from(value);
    }
    assert_eq!(model.values().len(), 2 + 8 + 4 + 1);
    assert_eq!(model.array("actor.weight", &[2, 4]).unwrap(), [2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
    assert_eq!(model.range("critic.weight").unwrap(), 10..14);
    model.array_mut("log_std", &[]).unwrap()[0] = -0.5;
    assert_eq!(model.values()[14], -0.5);
}

#[test]
fn a_wrong_name_suggests_the_nearest_and_a_wrong_shape_names_both_shapes() {
    let model = model();
    let message = model.range("actor.weights").unwrap_err().to_string();
    assert_eq!(message, "unknown parameter \"actor.weights\"; did you mean actor.weight?");
    let message = model.array("actor.weight", &[4, 2]).unwrap_err().to_string();
    assert_eq!(
        message,
        "parameter actor.weight has shape [2, 4], expected [4, 2], the shape that was asked for"
    );
}

#[test]
fn impossible_layouts_are_refused() {
    for (shapes, message_start) in [
        (vec![("a", vec![1]), ("b", vec![]), ("a", vec![2])], "parameter is \"a\""),
        (vec![("", vec![1])], "parameter is \"\""),
        (vec![("a", vec![3, 0])], "shape of parameter a is [3, 0]"),
        (vec![("a", vec![usize::MAX, 2])], "shape of parameter a is"),
        (vec![("a", vec![1 << 33]), ("b", vec![1])], "shape of parameter b is [1]"),
    ] {
        let message = Parameters::zeros(shapes).unwrap_err().to_string();
        assert!(message.starts_with(message_start), "{message}");
    }
    let no_arrays: [(&str, &[usize]); 0] = [];
    assert!(Parameters::zeros(no_arrays).unwrap().values().is_empty());
}

#[test]
fn tensors_of_one_model_are_assigned_to_another_in_any_order() {
    let (mut source, mut target) = (model(), model());
    for (slot, value) in source.values_mut().iter_mut().zip(0_u8..) {
        *slot = f32::from(value) - 3.5;
    }
    let names: Vec<&str> = source.layout().arrays().map(|(name, ..)| name).collect();
    let tensors = names.iter().rev().map(|name| (*name, source.tensor(name).unwrap()));
    target.assign(tensors).unwrap();
    assert_eq!(source, target);
}

#[test]
fn tensors_that_do_not_fit_change_nothing() {
    let (source, mut target) = (model(), model());
    target.values_mut().fill(1.0);
    let before = target.clone();
    let valid_tensors: Vec<_> =
        source.layout().arrays().map(|(name, ..)| (name, source.tensor(name).unwrap())).collect();
    let (bias_shape, bytes) = ([2_usize], [0; 8]);
    let integers = TensorView::new(Dtype::I32, &bias_shape, &bytes).unwrap();
    let replace_first = |name: &'static str, tensor| {
        let mut tensors = valid_tensors.clone();
        tensors[0] = (name, tensor);
        tensors
    };
    for (tensors, message_start) in [
        (valid_tensors[1..].to_vec(), "parameter actor.bias has no tensor, expected one"),
        (
            [&valid_tensors[..], &valid_tensors[..1]].concat(),
            "parameter actor.bias has two tensors, expected one",
        ),
        (replace_first("actor.bia", valid_tensors[0].1), "unknown parameter \"actor.bia\"; did you mean"),
        (
            replace_first("actor.bias", valid_tensors[1].1),
            "parameter actor.bias has shape [2], expected [2, 4]",
        ),
        (replace_first("actor.bias", integers), "dtype is int32, expected float32"),
    ] {
        let message = target.assign(tensors).unwrap_err().to_string();
        assert!(message.starts_with(message_start), "{message}");
        assert_eq!(target, before);
    }
}

#[test]
fn an_aligned_layout_keeps_its_order_and_begins_every_array_at_a_multiple() {
    let shapes: [(&str, &[usize]); 3] = [("w", &[3, 6]), ("b", &[3]), ("a", &[16])];
    let layout = Layout::aligned(16, shapes).unwrap();
    let ranges: Vec<_> = layout.arrays().map(|(name, _, range)| (name.to_owned(), range)).collect();
    let expected = [("w", 0..18), ("b", 32..35), ("a", 48..64)];
    assert_eq!(ranges, expected.map(|(name, range)| (name.to_owned(), range)));
    assert_eq!((layout.len(), layout.is_empty()), (64, false));
    assert_eq!(layout.range("b", &[3]).unwrap(), 32..35);
    assert!(layout.range("b", &[4]).is_err());
    assert!(Layout::aligned(0, shapes).is_err());
    let mut parameters = Parameters::from_layout(layout);
    parameters.array_mut("a", &[16]).unwrap().fill(1.0);
    assert_eq!(parameters.values().iter().sum::<f32>(), 16.0);
    assert_eq!(parameters.values()[48], 1.0);
}
