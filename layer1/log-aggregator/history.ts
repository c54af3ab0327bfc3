/** The logs of all apps in one directory: `apps/<app>/<first byte>-<first line>.ndjson`. */
import { mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { pause } from '@flynn/kit/clock';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { AppLog } from './app-log.ts';
import type { AppLogLimits } from './app-log.ts';
import type { WindowLimits } from './log-buffer.ts';

export type HistoryLimits = AppLogLimits & {
  /** Of all apps together: the oldest segments go, whosever they are. */
  totalBytes: number;
};

const mebibyte = 1024 * 1024;
/** What goes at once when there is no room, of what is kept of an app. */
const segmentPart = 8;

export function limitsOf(sizes: { appMebibytes: number; totalMebibytes: number }): HistoryLimits {
  const bytes = sizes.appMebibytes * mebibyte;
  return { bytes, segmentBytes: Math.ceil(bytes / segmentPart), totalBytes: sizes.totalMebibytes * mebibyte };
}

const syncEveryMs = 1_000;
const openAtOnce = 8;
/** Ids are never given again, so a deleted app's stays dead. */
const keptRemoved = 10_000;

export type HistoryOptions = {
  dir: string;
  log: Logger;
  limits: HistoryLimits;
  window?: WindowLimits;
  now?: () => number;
};

/** INVARIANTS. A deleted app has no file, and gets none by lines that come late. What was appended survives the process. */
export class History {
  readonly #dir: string;
  readonly #limits: HistoryLimits;
  readonly #window: WindowLimits | undefined;
  readonly #now: () => number;
  readonly #log: Logger;
  readonly #apps = new Map<string, Promise<AppLog>>();
  readonly #opened = new Map<string, AppLog>();
  readonly #removed = new Set<string>();
  #grown = Promise.withResolvers<void>();
  #syncing = Promise.resolve();
  #trimming = Promise.resolve();

  private constructor(options: HistoryOptions) {
    this.#dir = join(options.dir, 'apps');
    this.#limits = options.limits;
    this.#window = options.window;
    this.#now = options.now ?? Date.now;
    this.#log = options.log;
  }

  static async open(options: HistoryOptions): Promise<History> {
    const history = new History(options);
    await mkdir(history.#dir, { recursive: true });
    const apps = await readdir(history.#dir);
    for (let at = 0; at < apps.length; at += openAtOnce) {
      await Promise.all(apps.slice(at, at + openAtOnce).map((app) => history.#openApp(decodeURIComponent(app))));
    }
    await history.#trim();
    return history;
  }

  /** Those that have a log. */
  get apps(): readonly string[] {
    return [...this.#opened.keys()];
  }

  get bytes(): number {
    return [...this.#opened.values()].reduce((sum, { bytes }) => sum + bytes, 0);
  }

  get followers(): number {
    return [...this.#opened.values()].reduce((sum, { followers }) => sum + followers, 0);
  }

  /** Resolves when the next lines were added to any log. */
  get grown(): Promise<void> {
    return this.#grown.promise;
  }

  find(app: string): AppLog | undefined {
    return this.#opened.get(app);
  }

  isRemoved(app: string): boolean {
    return this.#removed.has(app);
  }

  /** An app's log, made if there is none yet; `not_found` of a deleted app. */
  async app(app: string): Promise<AppLog> {
    if (this.#removed.has(app)) throw new FlynnError('not_found', `the app ${app} was deleted`);
    return this.#apps.get(app) ?? this.#openApp(app);
  }

  async #openApp(app: string): Promise<AppLog> {
    const dir = join(this.#dir, encodeURIComponent(app).replaceAll('.', '%2E'));
    const window = this.#window === undefined ? {} : { window: this.#window };
    const opening = AppLog.open({ dir, limits: this.#limits, now: this.#now, ...window });
    this.#apps.set(app, opening);
    try {
      const log = await opening;
      this.#opened.set(app, log);
      return log;
    } catch (error) {
      this.#apps.delete(app);
      throw error;
    }
  }

  /** Resolves once the lines are in the app's file; those of a deleted app go nowhere. */
  async append(app: string, lines: readonly Buffer[]): Promise<void> {
    if (lines.length === 0 || this.#removed.has(app)) return;
    const log = await this.app(app);
    try {
      await log.append(lines);
    } catch (error) {
      if (this.#removed.has(app)) return;
      throw error;
    }
    this.#grown.resolve();
    this.#grown = Promise.withResolvers();
    await this.#trim();
  }

  /** Its followers come to their end. */
  async remove(app: string): Promise<void> {
    this.#removed.add(app);
    for (const oldest of this.#removed) {
      if (this.#removed.size <= keptRemoved) break;
      this.#removed.delete(oldest);
    }
    const log = await this.#apps.get(app);
    this.#apps.delete(app);
    this.#opened.delete(app);
    await log?.remove();
  }

  /** One at a time: two would take for the same room twice. */
  #trim(): Promise<void> {
    this.#trimming = this.#trimming.then(() => this.#trimAll());
    return this.#trimming;
  }

  /** A disk that does not let go of a file keeps nobody from writing. */
  async #trimAll(): Promise<void> {
    const stuck = new Set<AppLog>();
    while (this.bytes > this.#limits.totalBytes) {
      const log = oldestOf([...this.#opened.values()].filter((one) => one.hasMoreThanItsEnd && !stuck.has(one)));
      if (log === undefined) return;
      try {
        if (!(await log.dropOldest())) stuck.add(log);
      } catch (error) {
        stuck.add(log);
        this.#log.warn({}, `no room could be made by the oldest lines: ${messageOf(error)}`);
      }
    }
  }

  /** Keeps what was written safe from a power cut, a second later at most. Resolves when the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await pause(syncEveryMs, signal);
      await this.sync();
    }
  }

  /** What was appended before is safe from a power cut then, but for what a disk refuses, which is logged. */
  sync(): Promise<void> {
    this.#syncing = this.#syncing.then(() => this.#syncAll());
    return this.#syncing;
  }

  async #syncAll(): Promise<void> {
    for (const [app, log] of this.#opened) {
      try {
        await log.sync();
      } catch (error) {
        this.#log.warn({ app }, `the log of an app could not be brought to the disk: ${messageOf(error)}`);
      }
    }
  }

  async close(): Promise<void> {
    await Promise.all([...this.#opened.values()].map((log) => log.close()));
    await this.sync();
  }
}

/** The one whose first segment was written to longest ago. */
function oldestOf(logs: readonly AppLog[]): AppLog | undefined {
  let oldest: AppLog | undefined;
  let atMs = Infinity;
  for (const log of logs) {
    const writtenMs = log.segments[0]?.writtenMs ?? Infinity;
    if (writtenMs >= atMs) continue;
    oldest = log;
    atMs = writtenMs;
  }
  return oldest;
}
