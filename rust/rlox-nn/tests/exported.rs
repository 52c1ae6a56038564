//! Tests of exported policies: they act as they did where they were written, and invalid files are
//! refused.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::float_cmp, missing_docs)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use rlox_core::Error;
use rlox_nn::exported::{Action, Policy};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde_json::{Value, json};

/// A file whose parts a test can change before it is written.
#[derive(Clone)]
struct Draft {
    description: Value,
    tensors: BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>,
}

impl Draft {
    fn from_file(name: &str) -> Self {
        let bytes = fs::read(data().join(name)).unwrap();
        let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
        let text = &header.metadata().as_ref().unwrap()["rlox"];
        let tensors = SafeTensors::deserialize(&bytes).unwrap().tensors().into_iter();
        let owned = tensors.map(|(name, tensor)| {
            let contents = (tensor.dtype(), tensor.shape().to_vec(), tensor.data().to_vec());
            (name, contents)
        });
        Self { description: serde_json::from_str(text).unwrap(), tensors: owned.collect() }
    }

    /// Returns one linear layer with weights `[outputs][inputs]`, and golden vectors with these
    /// outputs.
    fn linear(head: &str, weight: &[&[f32]], obs: &[f32], outputs: &[f32]) -> Self {
        let (inputs, width) = (weight[0].len(), weight.len());
        let description = json!({
            "format": 1, "algorithm": "ppo", "env": "Some-v0", "golden": 1, "normalizer": null,
            "network": {"head": head, "sizes": [inputs, width], "activation": "tanh",
                        "dueling": false, "mean_limit": null},
            "action": {"start": 0},
        });
        let mut draft = Self { description, tensors: BTreeMap::new() };
        let prefix = if head == "q" { "q" } else { "actor" };
        draft.put(&format!("{prefix}.0.weight"), &[width, inputs], &weight.concat());
        draft.put(&format!("{prefix}.0.bias"), &[width], &vec![0.0; width]);
        draft.put("golden.obs", &[1, inputs], obs);
        draft.put("golden.outputs", &[1, width], outputs);
        draft
    }

    fn vectors(mut self, low: &[f32], high: &[f32], action: &[f32]) -> Self {
        self.put("action.low", &[low.len()], low);
        self.put("action.high", &[high.len()], high);
        self.put("golden.actions", &[1, action.len()], action);
        self
    }

    fn choice(mut self, start: i64, action: i64) -> Self {
        self.description["action"]["start"] = json!(start);
        let bytes = action.to_le_bytes().to_vec();
        self.tensors.insert("golden.actions".to_owned(), (Dtype::I64, vec![1], bytes));
        self
    }

    fn put(&mut self, name: &str, shape: &[usize], values: &[f32]) {
        let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        self.tensors.insert(name.to_owned(), (Dtype::F32, shape.to_vec(), bytes));
    }

    fn put_f64(&mut self, name: &str, values: &[f64]) {
        let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        self.tensors.insert(name.to_owned(), (Dtype::F64, vec![values.len()], bytes));
    }

    fn bytes(&self) -> Vec<u8> {
        self.bytes_with(&self.description.to_string())
    }

    fn bytes_with(&self, text: &str) -> Vec<u8> {
        let views = self.tensors.iter().map(|(name, (dtype, shape, bytes))| {
            (name.as_str(), TensorView::new(*dtype, shape.clone(), bytes).unwrap())
        });
        let metadata = [("rlox".to_owned(), text.to_owned())].into();
        safetensors::serialize(views, Some(metadata)).unwrap()
    }

    fn policy(&self) -> Policy {
        Policy::from_bytes(&self.bytes()).unwrap()
    }
}

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

fn refusal(bytes: &[u8]) -> String {
    match Policy::from_bytes(bytes).unwrap_err() {
        error @ Error::Config { .. } => error.to_string(),
        other => format!("another error: {other}"),
    }
}

#[test]
fn every_kind_of_policy_plays_as_it_did_where_it_was_written() {
    let mut kinds = BTreeMap::new();
    for entry in fs::read_dir(data()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "safetensors") {
            let mut policy = Policy::read(&path).unwrap();
            policy.check().unwrap();
            *kinds.entry(policy.algorithm().to_owned()).or_insert(0) += 1;
        }
    }
    let expected = [("a2c", 1), ("bc", 2), ("ddpg", 1), ("dqn", 4), ("ppo", 6), ("sac", 4), ("td3", 2)];
    assert_eq!(kinds, expected.map(|(name, n)| (name.to_owned(), n)).into());
}

#[test]
fn a_gaussian_policy_gives_its_mean_clipped_to_the_bounds() {
    let draft = Draft::linear("gaussian", &[&[1.0, 2.0], &[-1.0, 0.0]], &[0.5, 0.25], &[1.0, -0.5]);
    let mut policy = draft.vectors(&[-2.0, -1.0], &[2.0, 1.0], &[1.0, -0.5]).policy();
    let mut action = policy.action();
    policy.act(&[3.0, 4.0], &mut action).unwrap();
    assert_eq!(action, Action::Box(vec![2.0, -1.0]));
    assert_eq!(policy.outputs(&[3.0, 4.0]).unwrap(), [11.0, -3.0]);
    assert_eq!((policy.obs_dim(), policy.env(), policy.algorithm()), (2, "Some-v0", "ppo"));
}

#[test]
fn a_squashed_policy_clips_its_mean_and_scales_tanh_to_the_bounds() {
    let tanh_of_2 = 0.964_027_6; // (e^4 - 1) / (e^4 + 1)
    let make_policy = |limit: Value| {
        let mut draft = Draft::linear("squashed", &[&[1.0]], &[0.0], &[0.0]);
        draft.description["network"]["mean_limit"] = limit;
        draft.vectors(&[1.0], &[5.0], &[3.0]).policy()
    };
    let mut action = Action::Box(vec![0.0]);
    let assert_near = |action: &Action, expected: f32| match action {
        Action::Box(vector) => assert!((vector[0] - expected).abs() < 1e-6, "{vector:?}"),
        Action::Discrete(choice) => assert_eq!(*choice, i64::MAX, "a vector"),
    };
    make_policy(json!(null)).act(&[2.0], &mut action).unwrap();
    assert_near(&action, 3.0 + 2.0 * tanh_of_2);
    make_policy(json!(2.0)).act(&[700.0], &mut action).unwrap();
    assert_near(&action, 3.0 + 2.0 * tanh_of_2);
    make_policy(json!(null)).act(&[-700.0], &mut action).unwrap();
    assert_near(&action, 1.0);
}

#[test]
fn the_greatest_output_is_the_choice_counted_from_the_environments_first() {
    for head in ["categorical", "q"] {
        let draft = Draft::linear(head, &[&[1.0], &[-1.0], &[0.5]], &[1.0], &[1.0, -1.0, 0.5]);
        let mut policy = draft.choice(-3, -3).policy();
        let mut action = policy.action();
        for (obs, expected) in [(2.0, -3), (-2.0, -2), (0.0, -3)] {
            policy.act(&[obs], &mut action).unwrap();
            assert_eq!(action, Action::Discrete(expected), "{head} {obs}");
        }
    }
}

#[test]
fn observations_are_standardised_in_float64_and_clipped() {
    let mut draft = Draft::linear("gaussian", &[&[1.0]], &[1e6], &[0.0]);
    draft.description["normalizer"] = json!({"clip": 3.0});
    draft.put_f64("normalizer.mean", &[1e6]);
    draft.put_f64("normalizer.deviation", &[0.5]);
    let mut draft = draft.vectors(&[-9.0], &[9.0], &[0.0]);
    let mut policy = draft.policy();
    assert_eq!(policy.outputs(&[1e6 + 1.0]).unwrap(), [2.0]);
    assert_eq!(policy.outputs(&[0.0]).unwrap(), [-3.0]);
    draft.description["normalizer"] = json!({"clip": null});
    assert_eq!(draft.policy().outputs(&[0.0]).unwrap(), [-2e6]);
}

#[test]
fn invalid_observations_and_actions_of_another_kind_are_refused() {
    let draft = Draft::linear("gaussian", &[&[1.0, 1.0]], &[0.0, 0.0], &[0.0]);
    let mut policy = draft.vectors(&[-1.0], &[1.0], &[0.0]).policy();
    let mut action = policy.action();
    let mut act_error = |obs: &[f32], action: &mut Action| policy.act(obs, action).unwrap_err();
    assert!(matches!(act_error(&[0.0], &mut action), Error::Shape { .. }));
    let nan = act_error(&[0.0, f32::NAN], &mut action).to_string();
    assert_eq!(nan, "observation is NaN at flat index 1, expected a finite number");
    let large = act_error(&[f32::MAX, f32::MAX], &mut action).to_string();
    assert!(large.starts_with("what the policy says is inf at"), "{large}");
    assert!(matches!(act_error(&[0.0; 2], &mut Action::Box(vec![0.0; 2])), Error::Shape { .. }));
    let other = act_error(&[0.0; 2], &mut Action::Discrete(0)).to_string();
    assert!(other.contains("a choice, expected a vector"), "{other}");
}

#[test]
fn the_first_golden_vector_with_another_result_is_named() {
    let mut draft = Draft::from_file("td3.safetensors");
    let (_, shape, bytes) = draft.tensors["golden.outputs"].clone();
    let mut outputs: Vec<f32> = bytes.as_chunks().0.iter().copied().map(f32::from_le_bytes).collect();
    let size = outputs.iter().map(|x| x * x).sum::<f32>() / 32.0;
    outputs[7] += 3e-5 * size.sqrt();
    draft.put("golden.outputs", &shape, &outputs);
    let message = refusal(&draft.bytes());
    assert!(message.starts_with("policy: golden vector 7: its output is off by "), "{message}");
    outputs[7] -= 2.5e-5 * size.sqrt();
    draft.put("golden.outputs", &shape, &outputs);
    draft.policy();
    let mut changed = Draft::from_file("dqn.safetensors");
    let (dtype, shape, mut bytes) = changed.tensors["golden.actions"].clone();
    bytes[8 * 4] = (bytes[8 * 4] + 1) % 3;
    changed.tensors.insert("golden.actions".to_owned(), (dtype, shape, bytes));
    assert!(refusal(&changed.bytes()).contains("golden vector 4: its action is off by inf"));
}

#[test]
fn hostile_files_are_errors_that_name_what_is_wrong() {
    let original = Draft::from_file("ppo_gaussian_normalized.safetensors");
    let refusal_after = |change: &dyn Fn(&mut Draft)| {
        let mut draft = original.clone();
        change(&mut draft);
        refusal(&draft.bytes())
    };
    let refusal_with = |key: &'static str, value: Value| {
        refusal_after(&move |draft: &mut Draft| match key.split_once('.') {
            Some((part, key)) => draft.description[part][key] = value.clone(),
            None => draft.description[key] = value.clone(),
        })
    };
    let refusal_without = |name: &'static str| {
        refusal_after(&|draft: &mut Draft| {
            draft.tensors.remove(name);
        })
    };
    let wide = [usize::MAX, 3, 1 << 40].map(|n| json!(n));
    let mut huge = vec![0xff; 64];
    huge[7] = 0x7f;
    let cases = [
        (refusal(&[]), "0 bytes that are no safetensors file"),
        (refusal(&original.bytes()[..4000]), "4000 bytes that are no safetensors file"),
        (refusal(&huge), "no safetensors file"),
        (refusal(&original.bytes_with("{")), "description is no JSON"),
        (refusal(&original.bytes_with(&"[".repeat(100_000))), "description is no JSON"),
        (refusal(&original.bytes_with(&" ".repeat(1 << 21))), "bytes long"),
        (refusal(&original.bytes_with("[]")), "format is null, expected 1"),
        (refusal_with("format", json!(2)), "format is 2, expected 1; read it with the version of rlox"),
        (refusal_with("network", json!([])), "network is [], expected an object"),
        (refusal_with("network.activation", json!("gelu")), "\"gelu\", expected one of tanh, relu"),
        (refusal_with("network.head", json!("beta")), "\"beta\", expected one of categorical, q"),
        (refusal_with("network.sizes", json!(wide)), "expected a whole number from 1 to 65536"),
        (refusal_with("network.sizes", json!([3, 0, 1])), "network.sizes is 0, expected"),
        (refusal_with("network.sizes", json!(vec![2; 80])), "expected a list of 2 to 65 numbers"),
        (refusal_with("network.sizes", json!([3, 65_536, 65_536, 1])), "actor.0.weight is F32 [64, 3]"),
        (refusal_with("network.dueling", json!(true)), "network.dueling is true"),
        (refusal_with("network.mean_limit", json!(-1)), "network.mean_limit is -1, expected a number"),
        (refusal_with("normalizer.clip", json!("x")), "normalizer.clip is \"x\", expected a number"),
        (refusal_with("golden", json!(0)), "golden is 0, expected a whole number from 1"),
        (refusal_with("golden", json!(60_000)), "golden.actions is F32 [32, 1], expected F32 [60000, 1]"),
        (refusal_with("env", json!(7)), "env is 7, expected text"),
        (refusal_without("actor.2.weight"), "tensor actor.2.weight is missing, expected F32 [16, 64]"),
        (refusal_without("normalizer.mean"), "tensor normalizer.mean is missing"),
        (refusal_without("action.high"), "tensor action.high is missing"),
        (refusal_without("golden.obs"), "tensor golden.obs is missing"),
        (refusal_after(&|d| d.put("actor.4.bias", &[1], &[f32::NAN])), "not finite at flat index 0"),
        (refusal_after(&|d| d.put("actor.4.bias", &[2], &[0.0; 2])), "actor.4.bias is F32 [2]"),
        (refusal_after(&|d| d.put("normalizer.mean", &[3], &[0.0; 3])), "is F32 [3], expected F64 [3]"),
        (refusal_after(&|d| d.put_f64("normalizer.deviation", &[1.0, 0.0, 1.0])), "numbers above 0"),
        (refusal_after(&|d| d.put("action.low", &[1], &[9.0])), "no more than action.high at place 0"),
    ];
    for (message, expected) in &cases {
        assert!(message.starts_with("policy"), "{message}");
        assert!(message.contains(expected), "{message}\n{expected}");
    }
    let plain = safetensors::serialize(Vec::<(String, TensorView<'_>)>::new(), None).unwrap();
    assert!(refusal(&plain).contains("description \"rlox\" is missing"));
}

#[test]
fn golden_vectors_that_would_take_minutes_are_refused() {
    let (width, n) = (2_000, 1_100);
    let mut draft = Draft::linear("gaussian", &[&[0.0]], &[0.0], &[0.0]);
    draft.description["network"]["sizes"] = json!([1, width, width, 1]);
    draft.description["golden"] = json!(n);
    for (layer, outputs, inputs) in [(0, width, 1), (2, width, width), (4, 1, width)] {
        let (weight, bias) = (vec![0.0; outputs * inputs], vec![0.0; outputs]);
        draft.put(&format!("actor.{layer}.weight"), &[outputs, inputs], &weight);
        draft.put(&format!("actor.{layer}.bias"), &[outputs], &bias);
    }
    for name in ["golden.obs", "golden.outputs", "golden.actions"] {
        draft.put(name, &[n, 1], &vec![0.0; n]);
    }
    for name in ["action.low", "action.high"] {
        draft.put(name, &[1], &[0.0]);
    }
    let message = refusal(&draft.bytes());
    let expected = "golden is 1100 vectors of 4004000 weights, expected 4294967296 products at most";
    assert!(message.contains(expected), "{message}");
}

#[test]
fn truncated_files_and_changed_bytes_never_panic() {
    let original = fs::read(data().join("dqn_dueling.safetensors")).unwrap();
    for length in 0..original.len() {
        assert!(Policy::from_bytes(&original[..length]).is_err(), "{length} bytes");
    }
    let mut changed = original.clone();
    let mut refusals = 0;
    for index in 0..original.len() {
        for bits in [0x01, 0xff] {
            changed[index] ^= bits;
            refusals += usize::from(Policy::from_bytes(&changed).is_err());
            changed[index] = original[index];
        }
    }
    assert!(refusals > original.len(), "{refusals} of {}", 2 * original.len());
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let missing_message = Policy::read("nowhere.safetensors").unwrap_err().to_string();
    assert!(missing_message.starts_with("cannot read nowhere.safetensors: "), "{missing_message}");
    let path = std::env::temp_dir().join(format!("rlox-{}.safetensors", std::process::id()));
    fs::write(&path, b"nothing of the kind").unwrap();
    let invalid_message = Policy::read(&path).unwrap_err().to_string();
    fs::remove_file(&path).unwrap();
    assert!(invalid_message.starts_with(&path.display().to_string()), "{invalid_message}");
}
