// The points of a run that the browser has, merged by number: what changes comes again.

export class Past {
  constructor() {
    this.rows = new Map();
    this.revision = 0;
  }

  // Take an answer of the endpoint. Columns that were left out hold nothing but gaps or zeros.
  take(points) {
    points.number.forEach((number, i) => {
      const at = (columns) => Object.fromEntries(Object.entries(columns ?? {}).map(([name, column]) => [name, column[i]]));
      this.rows.set(number, {
        number,
        length: points.length[i],
        percentiles: Object.fromEntries(
          Object.entries(points.percentiles ?? {}).map(([metric, ranks]) => [metric, ranks.map((column) => column[i])]),
        ),
        counters: at(points.counters),
        outcomes: at(points.outcomes),
        inFlight: at(points.in_flight),
        chunks: at(points.chunks),
        tokens: at(points.tokens),
        cpu: points.cpu?.[i] ?? null,
        lag: points.lag_ms?.[i] ?? null,
        delay: points.delay_ms?.[i] ?? null,
      });
    });
    this.revision = points.revision;
  }

  // Return the rows in order; a point that never came is a gap.
  ordered() {
    const numbers = [...this.rows.keys()].sort((a, b) => a - b);
    const rows = [];
    numbers.forEach((number, i) => {
      if (i && number > numbers[i - 1] + 1) rows.push({ number: numbers[i - 1] + 1, gap: true });
      rows.push(this.rows.get(number));
    });
    return rows;
  }
}

// Output tokens of one row: chunks times what a chunk has held so far, as in the terminal.
export function tokensOf(row, workloads, perChunk) {
  return workloads.reduce(
    (sum, name) => sum + (row.chunks[name] ?? 0) * (perChunk[name] ?? 1) + (row.tokens[name] ?? 0),
    0,
  );
}
