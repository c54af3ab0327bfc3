/** What is counted while requests pass: plain numbers, read when somebody asks. */
import { latencyBoundsMs } from '@flynn/controller/routes/latency';
import type { RouteStats } from '@flynn/controller/routes/stats';

const bounds = Float64Array.from(latencyBoundsMs);

/** The index of the first bound that is not exceeded; one past the last for what exceeds all. */
function bucketOf(ms: number): number {
  let index = 0;
  while (index < bounds.length && ms > (bounds[index] ?? 0)) index += 1;
  return index;
}

/** Answers by class of status: index 0 is 1xx. */
export class Answers {
  readonly #counts = new Float64Array(5);

  /** A status of 0, no answer, is not counted. */
  add(status: number): void {
    const index = ((status / 100) | 0) - 1;
    const before = this.#counts[index];
    if (before !== undefined) this.#counts[index] = before + 1;
  }

  read(): RouteStats['answers'] {
    const [one = 0, two = 0, three = 0, four = 0, five = 0] = this.#counts;
    return { '1xx': one, '2xx': two, '3xx': three, '4xx': four, '5xx': five };
  }
}

/** Of one route. It outlives changes of the route, not its removal. */
export class RouteFigures {
  readonly sinceMs: number;
  readonly answers = new Answers();
  readonly latency = new Float64Array(bounds.length + 1);
  readonly refusals = new Map<string, number>();
  latencySumMs = 0;
  requests = 0;
  active = 0;
  clientsGone = 0;
  brokenOff = 0;
  retries = 0;
  bytesIn = 0;
  bytesOut = 0;

  constructor(sinceMs: number) {
    this.sinceMs = sinceMs;
  }

  refused(code: string): void {
    this.refusals.set(code, (this.refusals.get(code) ?? 0) + 1);
  }

  took(ms: number): void {
    const index = bucketOf(ms);
    this.latency[index] = (this.latency[index] ?? 0) + 1;
    this.latencySumMs += ms;
  }
}

/** Of one backend, of all routes to it. */
export class BackendFigures {
  readonly answers = new Answers();
  failures = 0;
  ejections = 0;
}
