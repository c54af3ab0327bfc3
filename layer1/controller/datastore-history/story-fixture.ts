/** For tests: what the worker does for the history of a datastore, step by step. */
import type { BlobClient } from '@flynn/blobstore/client';
import type { DatastoreWorld } from '../datastore-backups/datastore-fixture.ts';
import { datastoreHistories as routes } from './api.ts';
import { stepCopy } from './copying.ts';
import { stepLook } from './looking.ts';
import { stepMerge } from './merging.ts';
import { stepHistory } from './steps.ts';
import { archiveType, historyType } from './types.ts';

const { signal } = new AbortController();
const minuteMs = 60_000;

/** The log and the clock of its database, minute by minute. */
export class Story {
  readonly at: DatastoreWorld;
  /** Where it is to be another than the world's. */
  blobs: BlobClient;
  nowMs = Date.now();

  constructor(at: DatastoreWorld) {
    this.at = at;
    this.blobs = at.blobs;
  }

  async begin(): Promise<void> {
    await this.at.step(this.nowMs);
    await this.collect();
    await this.copy();
    await this.collect();
  }

  /** A minute later. */
  async collect(minutes = 1): Promise<void> {
    await this.collectAlone(minutes);
    await this.merge();
    await this.look();
  }

  async collectAlone(minutes = 1): Promise<void> {
    this.nowMs += minutes * minuteMs;
    this.at.database.history.nowMs = this.nowMs;
    await stepHistory(this.#deps(), this.blobs, this.at.appId, { signal });
  }

  /** Days, a quarter at a time: clocks that leap by more are not believed. */
  async pass(days: number): Promise<void> {
    for (let quarter = 0; quarter < 4 * days; quarter += 1) await this.collect(6 * 60);
  }

  /** By a clock of the worker's that is so much ahead; the database's is not. */
  async collectAhead(ms: number): Promise<void> {
    const deps = { ...this.#deps(), now: () => this.nowMs + ms };
    await stepHistory(deps, this.blobs, this.at.appId, { signal });
  }

  /** For one look the clocks of both are so much ahead: they run on one host. */
  async collectLeapt(ms: number): Promise<void> {
    this.at.database.history.nowMs = this.nowMs + ms;
    await this.collectAhead(ms);
    this.at.database.history.nowMs = this.nowMs;
  }

  /** As long as something is due. */
  async merge(): Promise<void> {
    const again = await stepMerge(this.#deps(), this.blobs, this.at.appId, { signal });
    if (again?.againInMs === 1) await this.merge();
  }

  /** Where it is due. */
  async look(): Promise<void> {
    await stepLook(this.#deps(), this.blobs, this.at.appId, { signal });
  }

  async copy(): Promise<void> {
    await stepCopy(this.#deps(), this.blobs, this.at.appId, { signal });
  }

  async status() {
    return (await this.at.world.deps.resources.get(historyType, this.at.appId)).status;
  }

  async archive() {
    return (await this.at.world.deps.resources.get(archiveType, this.at.appId)).status;
  }

  view() {
    return this.at.world.client.call(routes.get, { params: this.at.params });
  }

  #deps() {
    return { ...this.at.world.deps, now: () => this.nowMs };
  }
}

export const iso = (ms: number): string => new Date(ms).toISOString();

/** What became of a restoration, once the worker looked. */
export async function restored(at: DatastoreWorld, nowMs: number) {
  await at.step(nowMs);
  return (await at.plan()).status.restore;
}
