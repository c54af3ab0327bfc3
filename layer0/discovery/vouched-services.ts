/** Which services are for some processes alone to announce, whether or not anything of them is there at the moment? */
import { pause, systemClock } from '@flynn/kit/clock';
import type { Clock } from '@flynn/kit/clock';
import type { Logger } from '@flynn/kit/log';
import { serviceName } from '@flynn/kit/names';
import { TaskGroup, forever } from '@flynn/kit/tasks';
import { openMirror } from '@flynn/store/mirror';
import type { Mirror } from '@flynn/store/mirror';
import type { Revision, Store } from '@flynn/store/store';
import { z } from 'zod';

/** Not beside what is announced: agents of a version before know what is there, and would complain of anything else. */
const prefix = '/flynn/cluster/vouched-';
const entryOf = (service: string) => `services/${service}`;
const today = 'day';
const recordSchema = z.object({ day: z.int().min(0).default(0) });

const dayMs = 24 * 3_600_000;
/** An app at rest keeps its names for so many days, beside the one on which they were noted last. */
const keptDays = 20;
/** Of hosts that vouch for the same one writes: the others have heard of it before their turn comes. */
const turnsMs = 3_600_000;

type Options = Readonly<{
  store: Store;
  log: Logger;
  signal?: AbortSignal;
  clock?: Pick<Clock, 'sleep'>;
  /** From 0 to 1: when within the first hour of a day this process has its turn. */
  random?: () => number;
}>;

/**
 * INVARIANTS. What is vouched for here is a key in the store with the day on which that was last so; every process of the store
 * reads it. Days are counted in the store, by whoever has seen one last for 24 hours of its own life: no host's clock, no leap of
 * one and no time that the cluster was off ends anything, and of those who count at once one does. Who counted a day
 * removes what was vouched for too long ago. No lease would do: etcd begins all anew when it elects a leader.
 */
export class VouchedServices implements AsyncDisposable {
  readonly #store: Store;
  readonly #mirror: Mirror<number>;
  readonly #tasks: TaskGroup;
  readonly #clock: Pick<Clock, 'sleep'>;
  readonly #random: () => number;
  readonly #unfollow: () => void;
  #own: ReadonlySet<string> = new Set();
  /** The last day whose turn has come here. */
  #due: number;
  #news = new AbortController();

  private constructor(mirror: Mirror<number>, { store, log, signal, ...options }: Options) {
    this.#store = store;
    this.#mirror = mirror;
    this.#clock = options.clock ?? systemClock;
    this.#random = options.random ?? Math.random;
    this.#due = this.#day;
    this.#tasks = new TaskGroup(signal === undefined ? {} : { signal });
    this.#unfollow = mirror.onChange(({ key, after }) => {
      if (key === today) this.#tasks.run('turn', (s) => this.#takeTurn(s));
      else if (after === undefined) this.#news.abort();
    });
    this.#tasks.run('vouched services', (s) =>
      forever('noting vouched services', (l) => this.#keep(l), { signal: s, log }),
    );
    this.#tasks.run('days', (s) => forever('counting days', (l) => this.#count(l), { signal: s, log }));
  }

  /** Waits up to 30 s for the store. */
  static async open(options: Options): Promise<VouchedServices> {
    const decode = (json: unknown) => recordSchema.parse(json).day;
    return new VouchedServices(await openMirror<number>({ ...options, prefix, decode }), options);
  }

  has(service: string): boolean {
    const key = entryOf(service);
    return this.#own.has(service) || this.#mirror.snapshot.entries.has(key) || this.#mirror.unreadable.has(key);
  }

  /** These, and no longer others. They are written in the background, once the store is there. */
  vouchFor(services: readonly string[]): void {
    const own = new Set(services.filter((service) => serviceName.safeParse(service).success));
    const isNews = own.difference(this.#own).size > 0;
    this.#own = own;
    if (isNews) this.#news.abort();
  }

  get #day(): number {
    return this.#mirror.snapshot.entries.get(today)?.value ?? 0;
  }

  /** What is not there at once, what is of a day before in this process's turn of the day; then it waits for news. */
  async #keep(signal: AbortSignal): Promise<void> {
    this.#news = new AbortController();
    for (const service of this.#own) await this.#note(service, signal);
    await pause(dayMs, AbortSignal.any([signal, this.#news.signal]), this.#clock);
  }

  async #takeTurn(signal: AbortSignal): Promise<void> {
    await pause(this.#random() * turnsMs, signal, this.#clock);
    this.#due = this.#day;
    this.#news.abort();
  }

  /** What another writes meanwhile stays: if it removes it, that is news. */
  async #note(service: string, signal: AbortSignal): Promise<void> {
    const known = this.#mirror.snapshot.entries.get(entryOf(service));
    if (known !== undefined && known.value >= Math.min(this.#due, this.#day)) return;
    await this.#putDay(entryOf(service), { day: this.#day, modRevision: known?.modRevision ?? 0 }, signal);
  }

  async #count(signal: AbortSignal): Promise<void> {
    const modRevision = this.#mirror.snapshot.entries.get(today)?.modRevision ?? 0;
    await this.#clock.sleep(dayMs, { signal });
    const day = this.#day + 1;
    // Not if another has counted since: then a day has to pass from there.
    if (await this.#putDay(today, { day, modRevision }, signal)) await this.#forgetBefore(day - keptDays, signal);
  }

  /** Answers whether nobody has written there since that revision. What a version to come wrote is never written over. */
  async #putDay(
    entry: string,
    { day, modRevision }: { day: number; modRevision: Revision },
    signal: AbortSignal,
  ): Promise<boolean> {
    const key = prefix + entry;
    const then = [{ put: key, value: JSON.stringify({ day }) }];
    return (await this.#store.transact({ compare: [{ key, modRevision }], then }, { signal })).succeeded;
  }

  async #forgetBefore(day: number, signal: AbortSignal): Promise<void> {
    for (const [entry, { value, modRevision }] of this.#mirror.snapshot.entries) {
      if (entry === today || value >= day) continue;
      const key = prefix + entry;
      await this.#store.transact({ compare: [{ key, modRevision }], then: [{ delete: key }] }, { signal });
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#unfollow();
    await this.#tasks.stop();
    await this.#mirror[Symbol.asyncDispose]();
  }
}
