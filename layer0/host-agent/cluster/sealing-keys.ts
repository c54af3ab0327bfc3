/**
 * What the cluster's secrets are sealed under, on this host's disk. It is made anew by the host that keeps the platform
 * (docs/trust.md): the ring in the store names the one in use and the one that is to be, and hosts fetch what they lack from
 * one another, over connections on which both sides have shown that they are hosts. So one that was away has it once it is
 * back. What the ring does not name any more is forgotten.
 */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { pause } from '@flynn/kit/clock';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { readTextFile, writeFileAtomic } from '@flynn/kit/files';
import { type Handler, handle } from '@flynn/kit/http-server';
import type { Logger } from '@flynn/kit/log';
import { eitherCommand } from '@flynn/kit/operator-commands';
import { withDeadline } from '@flynn/kit/retry';
import { defineRoute } from '@flynn/kit/routes';
import type { HostRecord } from '@flynn/scheduler/cell';
import { sealKeyOf } from '@flynn/store/sealing/envelope';
import { type Ring, sealedUnder } from '@flynn/store/sealing/ring';
import { z } from 'zod';
import { type AgentAccess, type AgentPlace, agentClient } from '../agent-client.ts';
import { admissionFile } from '../trust/authorities.ts';

/** The one in use; programs of a version before read this one alone. */
export const sealingKeyFile = 'sealing.key';
/** The one that is to be, or was until a moment ago: one a line. */
const othersFile = 'sealing.others';
/** Where bootstrap keeps it, too. */
const copies = ['cluster.json', admissionFile] as const;

const lookMs = 2_000;
const askMs = 5_000;
/** So long the agent waits for keys before it takes jobs. */
const firstMs = 15_000;

export const sealingKeysRoute = defineRoute({
  method: 'GET',
  path: '/sealing-keys',
  response: z.object({ keys: z.array(z.string().min(1)) }),
  summary: "What the cluster's secrets are sealed under; for hosts alone",
});

/** The one in use first; none where bootstrap has not written it yet. */
export async function readSealingKeys(stateDir: string): Promise<string[]> {
  const [own, others = ''] = await Promise.all(
    [sealingKeyFile, othersFile].map((file) => readTextFile(join(stateDir, file))),
  );
  return [...new Set([own ?? '', ...others.split('\n')])].filter((key) => key !== '');
}

/** Those there were before stay, and stay in front: which of them is in use only the ring says. */
export async function addSealingKeys(stateDir: string, keys: readonly string[]): Promise<void> {
  const before = await readSealingKeys(stateDir);
  await writeSealingKeys(stateDir, [...before, ...keys.filter((key) => !before.includes(key))]);
}

/** Whoever reads in between finds all that were there before or are there afterwards. */
async function writeSealingKeys(stateDir: string, [own = '', ...others]: readonly string[]): Promise<void> {
  const othersPath = join(stateDir, othersFile);
  if (others.length > 0) await writeSecret(othersPath, `${others.join('\n')}\n`);
  await writeSecret(join(stateDir, sealingKeyFile), own);
  if (others.length === 0) await rm(othersPath, { force: true });
}

async function writeSecret(file: string, text: string): Promise<void> {
  if ((await readTextFile(file)) !== text) await writeFileAtomic(file, text, { mode: 0o600 });
}

export type SealingKeysDeps = Readonly<{
  stateDir: string;
  /** As the store has it at the moment; undefined while nothing is sealed. */
  readRing: (signal: AbortSignal) => Promise<Ring | undefined>;
  peers: () => readonly AgentPlace[];
  access: AgentAccess;
  log: Logger;
}>;

export class SealingKeys {
  readonly #deps: SealingKeysDeps;
  #ids: readonly string[] = [];
  /** What went wrong the last time: told once. */
  #fault: string | undefined;

  constructor(deps: SealingKeysDeps) {
    this.#deps = deps;
  }

  /** What the host says of itself. */
  told(): Pick<HostRecord, 'sealingKeyId' | 'sealingKeyIds'> {
    const [own] = this.#ids;
    return own === undefined ? { sealingKeyIds: [] } : { sealingKeyId: own, sealingKeyIds: [...this.#ids] };
  }

  /** Before the host takes jobs: who joins while the key is made anew, or was away, has both when it does. */
  async start(signal: AbortSignal): Promise<void> {
    await this.#tryLook(withDeadline(firstMs, signal));
  }

  /** Until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await pause(lookMs, signal);
      if (!signal.aborted) await this.#tryLook(signal);
    }
  }

  async #tryLook(signal: AbortSignal): Promise<void> {
    try {
      await this.look(signal);
      this.#fault = undefined;
    } catch (error) {
      if (signal.aborted) return;
      const fault = messageOf(error);
      if (fault !== this.#fault) this.#deps.log.warn(`could not see to the sealing key of this host: ${fault}`);
      this.#fault = fault;
    }
  }

  /** Once. Whatever it finds, no key is lost that the ring names. */
  async look(signal: AbortSignal): Promise<void> {
    const { stateDir, log } = this.#deps;
    const before = await readSealingKeys(stateDir);
    this.#ids = before.map(idOf);
    const ring = await this.#deps.readRing(signal);
    if (ring === undefined) return;
    const wanted = [sealedUnder(ring), ...(ring.next === undefined ? [] : [ring.next])];
    const known = new Map(before.map((key) => [idOf(key), key]));
    await this.#fetch(
      wanted.filter((id) => !known.has(id)),
      known,
      signal,
    );
    const found = wanted.flatMap((id) => known.get(id) ?? []);
    // Without the one in use nothing here is known to be out of use.
    const isWhole = known.has(sealedUnder(ring));
    const keys = isWhole ? found : [...new Set([...before, ...found])];
    if (keys.join() !== before.join()) {
      const gone = before.filter((key) => !keys.includes(key));
      // Whoever is killed in between finds them here still, and does it again.
      await writeSealingKeys(stateDir, [...keys, ...gone]);
      const [own] = keys;
      if (own !== undefined && gone.length > 0) await forget(stateDir, gone, own);
      await writeSealingKeys(stateDir, keys);
      log.info({ keys: keys.map(idOf) }, 'the sealing keys of this host have changed');
    }
    this.#ids = keys.map(idOf);
    const missing = wanted.filter((id) => !known.has(id));
    if (missing.length > 0) {
      throw new FlynnError(
        'unavailable',
        `no other host has the key ${missing.join(' and ')}: ${eitherCommand('up')} on the host that keeps the platform brings it`,
      );
    }
  }

  async #fetch(ids: readonly string[], known: Map<string, string>, signal: AbortSignal): Promise<void> {
    if (ids.length === 0 || this.#deps.access.identity === undefined) return;
    for (const peer of this.#deps.peers()) {
      // It might be anybody: a key that is told goes to hosts that have shown who they are.
      if (peer.mutual === undefined) continue;
      for (const key of await this.#ask(peer, signal)) {
        if (ids.includes(idOf(key))) known.set(idOf(key), key);
      }
      if (ids.every((id) => known.has(id))) return;
    }
  }

  async #ask(peer: AgentPlace, signal: AbortSignal): Promise<readonly string[]> {
    await using client = agentClient(peer, this.#deps.access);
    try {
      return (await client.call(sealingKeysRoute, {}, { signal, timeoutMs: askMs })).keys;
    } catch (error) {
      // It is away, or of a version that has nothing to tell: another may.
      this.#deps.log.debug({ err: error, host: peer.id }, `could not ask ${peer.id} for the sealing key`);
      return [];
    }
  }
}

/** What hosts ask one another; who asks has shown that it is one. */
export function sealingKeyHandlers(stateDir: string): Handler[] {
  return [handle(sealingKeysRoute, async () => ({ keys: await readSealingKeys(stateDir) }))];
}

function idOf(key: string): string {
  return sealKeyOf(key).id;
}

/** What bootstrap keeps has the one in use in the place of those that are out of use. */
async function forget(stateDir: string, gone: readonly string[], own: string): Promise<void> {
  for (const file of copies.map((name) => join(stateDir, name))) {
    const text = await readTextFile(file);
    if (text === undefined) continue;
    const kept: unknown = JSON.parse(text, (name, value: unknown) =>
      // The one of a change stands under another name there, and is out of use only until the ring names it.
      name === 'sealingKey' && gone.some((key) => key === value) ? own : value,
    );
    const after = `${JSON.stringify(kept, undefined, 2)}\n`;
    if (after !== text) await writeFileAtomic(file, after, { mode: 0o600 });
  }
}
