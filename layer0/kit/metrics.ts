/** Figures as Prometheus reads them: counted here, written when somebody asks. One way for every part of the platform. */
import { readFileSync, readdirSync } from 'node:fs';
import { performance } from 'node:perf_hooks';

export type MetricType = 'counter' | 'gauge' | 'histogram';
export type Labels = Readonly<Record<string, string>>;
export type Sample = Readonly<{ labels?: Labels; value: number }>;
export type Metric = Readonly<{ name: string; help: string; type: 'counter' | 'gauge'; samples: readonly Sample[] }>;

type Add = (labels: Labels, value: number, suffix?: string) => void;

/** The text format, version 0.0.4: https://prometheus.io/docs/instrumenting/exposition_formats/ */
export class MetricsText {
  readonly #parts: string[] = [];

  /** One without samples is left out. */
  metric(name: string, type: MetricType, help: string, samples: (add: Add) => void): void {
    const lines: string[] = [];
    samples((labels, value, suffix = '') => lines.push(`${name}${suffix}${labelText(labels)} ${value}\n`));
    if (lines.length > 0) this.#parts.push(`# HELP ${name} ${help}\n# TYPE ${name} ${type}\n`, ...lines);
  }

  done(): string {
    return this.#parts.join('');
  }
}

export function metricsText(metrics: readonly Metric[]): string {
  const text = new MetricsText();
  for (const { name, type, help, samples } of metrics) {
    text.metric(name, type, help, (add) => {
      for (const { labels = {}, value } of samples) add(labels, value);
    });
  }
  return text.done();
}

function labelText(labels: Labels): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escape(value)}"`);
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`;
}

function escape(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
}

/** Beyond so many sets of labels the rest is counted as one: nobody fills memory by asking for many things. */
const maxSeries = 1_000;
const other = 'other';

/** Seconds: from what memory answers to what somebody gives up on. */
export const latencyBounds = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30] as const;

type Series<T> = { labels: Labels; value: T };

class SeriesOf<T> {
  readonly #known = new Map<string, Series<T>>();
  readonly #initial: () => T;

  constructor(initial: () => T) {
    this.#initial = initial;
  }

  at(labels: Labels): Series<T> {
    const key = JSON.stringify(labels);
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    if (this.#known.size >= maxSeries && !Object.values(labels).every((value) => value === other)) {
      return this.at(Object.fromEntries(Object.keys(labels).map((name) => [name, other])));
    }
    const series = { labels, value: this.#initial() };
    this.#known.set(key, series);
    return series;
  }

  all(): Iterable<Series<T>> {
    return this.#known.values();
  }
}

export type Counter = { add(labels?: Labels, by?: number): void };
export type Histogram = { observe(labels: Labels, value: number): void };
type Read = () => Iterable<Sample> | Promise<Iterable<Sample>>;

/** What one process counts. What is added last is written last; a name belongs to one place only. */
export class Metrics {
  readonly #writers: ((text: MetricsText) => void | Promise<void>)[] = [];

  counter(name: string, help: string): Counter {
    const series = new SeriesOf(() => 0);
    this.#writers.push((text) =>
      text.metric(name, 'counter', help, (add) => {
        for (const { labels, value } of series.all()) add(labels, value);
      }),
    );
    return { add: (labels = {}, by = 1) => void (series.at(labels).value += by) };
  }

  histogram(name: string, help: string, bounds: readonly number[] = latencyBounds): Histogram {
    const series = new SeriesOf(() => ({ counts: Array.from({ length: bounds.length + 1 }, () => 0), sum: 0 }));
    this.#writers.push((text) =>
      text.metric(name, 'histogram', help, (add) => {
        for (const { labels, value } of series.all()) {
          let total = 0;
          for (const [index, count] of value.counts.entries()) {
            total += count;
            const bound = bounds[index];
            add({ ...labels, le: bound === undefined ? '+Inf' : String(bound) }, total, '_bucket');
          }
          add(labels, value.sum, '_sum');
          add(labels, total, '_count');
        }
      }),
    );
    return {
      observe(labels, value) {
        const { value: held } = series.at(labels);
        const index = bounds.findIndex((bound) => value <= bound);
        const place = index < 0 ? bounds.length : index;
        held.counts[place] = (held.counts[place] ?? 0) + 1;
        held.sum += value;
      },
    };
  }

  /** Read when somebody asks. */
  gauge(name: string, help: string, read: Read): void {
    this.#writers.push(reading(name, 'gauge', help, read));
  }

  /** A count that something else keeps; it never goes down. */
  counted(name: string, help: string, read: Read): void {
    this.#writers.push(reading(name, 'counter', help, read));
  }

  async text(): Promise<string> {
    const text = new MetricsText();
    for (const write of this.#writers) await write(text);
    return text.done();
  }
}

function reading(name: string, type: 'counter' | 'gauge', help: string, read: Read) {
  return async (text: MetricsText): Promise<void> => {
    const samples = await read();
    text.metric(name, type, help, (add) => {
      for (const { labels = {}, value } of samples) add(labels, value);
    });
  };
}

/** Figures of the process itself, under the names that Prometheus' own libraries use. */
export function processMetrics(metrics: Metrics): void {
  const one = (value: number): Sample[] => [{ value }];
  metrics.counted('process_cpu_seconds_total', 'Processor time.', () => {
    const { user, system } = process.cpuUsage();
    return one((user + system) / 1e6);
  });
  metrics.gauge('process_resident_memory_bytes', 'Memory held.', () => one(process.memoryUsage.rss()));
  metrics.gauge('process_start_time_seconds', 'When it started.', () => one(startedAt));
  metrics.gauge('process_open_fds', 'Open files and connections.', () => one(readdirSync('/proc/self/fd').length));
  metrics.gauge('process_max_fds', 'How many there may be.', () => one(maxFiles()));
  metrics.gauge('nodejs_heap_size_used_bytes', 'Heap in use.', () => one(process.memoryUsage().heapUsed));
  let before = performance.eventLoopUtilization();
  metrics.gauge(
    'nodejs_eventloop_utilization',
    'Share of the time its one thread was busy, since the last look.',
    () => {
      const now = performance.eventLoopUtilization();
      const { utilization } = performance.eventLoopUtilization(now, before);
      before = now;
      return one(utilization);
    },
  );
}

const startedAt = Date.now() / 1_000 - process.uptime();

function maxFiles(): number {
  const limit = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1];
  return Number(limit ?? 0);
}
