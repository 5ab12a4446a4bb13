use std::collections::BTreeMap;

/// The level of one station over time.
#[derive(Debug, Default)]
pub struct Gauge {
    readings: BTreeMap<u64, f64>,
}

impl Gauge {
    pub fn record(&mut self, second: u64, level: f64) -> Option<f64> {
        self.readings.insert(second, level)
    }

    pub fn highest(&self) -> Option<(u64, f64)> {
        self.readings
            .iter()
            .map(|(&s, &l)| (s, l))
            .max_by(|a, b| a.1.total_cmp(&b.1))
    }
}

fn main() {
    let mut gauge = Gauge::default();
    gauge.record(0, 1.25);
    gauge.record(600, 1.5);
    println!("{:?}", gauge.highest());
}
