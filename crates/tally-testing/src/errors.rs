//! How far estimates are from the truth, over many runs.

/// Relative errors of many estimates.
pub struct Errors {
    /// Their mean: the bias.
    pub mean: f64,
    /// Their root mean square.
    pub root_mean_square: f64,
}

/// Relative errors of the estimates of `runs` worlds, each of `truth` elements.
pub fn errors(what: &str, truth: f64, runs: u32, estimate: impl Fn(u64) -> f64) -> Errors {
    let (mut sum, mut squares) = (0.0, 0.0);
    for seed in 0..u64::from(runs) {
        let error = estimate(seed) / truth - 1.0;
        sum += error;
        squares += error * error;
    }
    let found = Errors {
        mean: sum / f64::from(runs),
        root_mean_square: (squares / f64::from(runs)).sqrt(),
    };
    println!(
        "{what}: {truth} elements, {runs} runs: mean {:+.6}, RMSE {:.6}",
        found.mean, found.root_mean_square
    );
    found
}
