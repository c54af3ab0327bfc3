/** The drains there are: each runs until it is removed. */
import { messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { Outside } from '@flynn/kit/outside';
import { Slots } from '@flynn/kit/slots';
import type { Drain, DrainStatus } from './api.ts';
import { DrainRunner } from './drain.ts';
import type { Places } from './drain.ts';
import { DrainStates } from './drain-state.ts';
import type { DrainState } from './drain-state.ts';
import { openTransport } from './drain-transport.ts';
import { hostOf, parseDrainUrl } from './drain-url.ts';
import type { History } from './history.ts';

/** Clocks of hosts are not quite the same: rather some lines twice than some not at all. */
const clockSlackMs = 60_000;
/** Blocks that are held at once: 296 little ones of 16 KiB, and 16 of 256 KiB. Admins' drains wait for no others. */
const placesOf = {
  apps: { large: 12, keptForQuick: 6, little: 192, failing: 32 },
  admins: { large: 4, keptForQuick: 2, little: 64, failing: 8 },
} as const;
type Counts = Readonly<Record<keyof Places, number>>;
export type DrainPlaces = Readonly<{ apps: Counts; admins: Counts }>;

function openPlaces({ large, keptForQuick, little, failing }: Counts): Places {
  return { large: new Slots(large), keptForQuick, little: new Slots(little), failing: new Slots(failing) };
}

type Running = { runner: DrainRunner; stop: AbortController; ended: Promise<void> };

/** INVARIANT. What was sent of a drain's lines is on disk, and goes with the drain. */
export class Drains {
  readonly #history: History;
  readonly #states: DrainStates;
  readonly #appName: (app: string) => string;
  readonly #log: Logger;
  readonly #running = new Map<string, Running>();
  readonly #places: Readonly<{ apps: Places; admins: Places }>;
  readonly #bornMs: number;
  /** Where drains may lead that no admin of the cluster made. */
  readonly outside = new Outside();

  constructor(options: {
    dir: string;
    history: History;
    /** Since when what is kept is kept there; without it, since before any drain. */
    bornMs?: number;
    places?: DrainPlaces;
    appName: (app: string) => string;
    log: Logger;
  }) {
    const { apps, admins } = options.places ?? placesOf;
    this.#places = { apps: openPlaces(apps), admins: openPlaces(admins) };
    this.#history = options.history;
    this.#states = new DrainStates(options.dir);
    this.#bornMs = options.bornMs ?? 0;
    this.#appName = options.appName;
    this.#log = options.log;
  }

  get status(): DrainStatus[] {
    return Array.from(this.#running.values(), ({ runner }) => runner.status);
  }

  /** A drain never changes, so one that runs goes on. */
  async add(drain: Drain): Promise<void> {
    if (this.#running.has(drain.id)) return;
    const { id } = drain;
    const isOfAdmin = drain.isOutside !== true;
    const outside = isOfAdmin ? Outside.chosen(hostOf(parseDrainUrl(drain.url))) : this.outside;
    const runner = new DrainRunner({
      drain,
      history: this.#history,
      transport: openTransport(drain, outside),
      places: isOfAdmin ? this.#places.admins : this.#places.apps,
      state: await this.#stateOf(drain),
      save: (state) => this.#save(id, state),
      appName: this.#appName,
      log: this.#log,
    });
    const stop = new AbortController();
    this.#running.set(id, { runner, stop, ended: runner.run(stop.signal) });
  }

  /** No place is on disk before the lines that lead to it: others would come to lie there after a power cut, and never be sent. */
  async #save(id: string, state: DrainState): Promise<void> {
    await this.#history.sync();
    await this.#states.write(id, state);
  }

  /**
   * A new drain gets what comes from now on. One that is older than the volume was somewhere in the logs of the one before: it
   * gets all that hosts told again since.
   */
  async #stateOf({ id, appId, createdAt }: Drain): Promise<DrainState> {
    const known = await this.#states.read(id).catch((error: unknown) => {
      this.#log.error({ drain: id }, `a drain begins anew: ${messageOf(error)}`);
    });
    if (known !== undefined) return known;
    const isOlder = createdAt !== undefined && Date.parse(createdAt) < this.#bornMs + clockSlackMs;
    const apps = appId === undefined ? this.#history.apps : [appId];
    const ends = (isOlder ? [] : apps).flatMap((app) => {
      const end = this.#history.find(app)?.end;
      return end === undefined ? [] : [[app, end] as const];
    });
    const state = { positions: Object.fromEntries(ends), sent: 0, failed: 0, skipped: 0 };
    // From now on, also if this process ends before the first line.
    await this.#save(id, state);
    return state;
  }

  async remove(id: string): Promise<void> {
    await this.#end(id);
    await this.#states.remove(id);
  }

  /** Those that are not among these were removed while nobody told. */
  async keepOnly(ids: ReadonlySet<string>): Promise<void> {
    const all = new Set([...this.#running.keys(), ...(await this.#states.ids())]);
    for (const id of all) if (!ids.has(id)) await this.remove(id);
  }

  async #end(id: string): Promise<void> {
    const running = this.#running.get(id);
    if (running === undefined) return;
    running.stop.abort();
    await running.ended;
    this.#running.delete(id);
  }

  async close(): Promise<void> {
    await Promise.all([...this.#running.keys()].map((id) => this.#end(id)));
  }
}
