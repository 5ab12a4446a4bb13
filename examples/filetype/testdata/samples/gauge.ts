interface Reading {
  station: string;
  level: number | null;
}

export function highest(readings: readonly Reading[]): Reading | undefined {
  let best: Reading | undefined;
  for (const reading of readings) {
    if (reading.level !== null && (best?.level ?? -Infinity) < reading.level) {
      best = reading;
    }
  }
  return best;
}

const sample: Reading[] = [{ station: 'mill', level: 1.5 }, { station: 'upper', level: null }];
console.log(highest(sample)?.station);
