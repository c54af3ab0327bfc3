/**
 * Who speaks on a connection: each host and each job of the platform has a certificate of the cluster with its role in it,
 * `flynn:host/h1` or `flynn:app/controller`. Both sides of a mutual connection show theirs.
 */
import { type KeyObject, createPrivateKey } from 'node:crypto';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { PeerCertificate } from 'node:tls';
import { parseCertificate } from './certificate.ts';
import { pause } from './clock.ts';
import { booleanFlag } from './config.ts';
import { FlynnError, hasErrno, messageOf } from './errors.ts';
import { readTextFile } from './files.ts';
import type { Logger } from './log.ts';
import type { TaskGroup } from './tasks.ts';
import { z } from 'zod';

/** PEM. `trusted`: the authorities whose certificates count. */
export type Identity = Readonly<{ trusted: string; certificate: string; privateKey: string }>;

/** One that is renewed while it is used: connections that are open go on, later ones show the new one. */
export interface LiveIdentity {
  readonly current: Identity;
  /** Whether all of the platform is known to show certificates by now: who shows none is nobody of it. */
  readonly isEverybodyKnown?: boolean;
  /** Answers what ends it. */
  onChange(listener: () => void): () => void;
}

export const hostRole = (hostId: string): string => `flynn:host/${hostId}`;
export const appRole = (app: string): string => `flynn:app/${app}`;

/** Whichever host it is. */
export const anyHost = hostRole('');

export function isOfRole(role: string, wanted: string): boolean {
  return wanted === anyHost ? role.startsWith(anyHost) : role === wanted;
}

/**
 * Of a certificate's alternative names, as Node writes them. It quotes names with a comma in them, which nobody here is given:
 * such a one could be made to look like a role.
 */
export function roleOf(alternativeNames: string | undefined): string | undefined {
  if (alternativeNames === undefined || alternativeNames.includes('"')) return undefined;
  const names = alternativeNames.split(', ');
  return names.find((name) => name.startsWith('URI:flynn:'))?.slice('URI:'.length);
}

/** For clients of TLS, where names and addresses would say less: the other side has to be of this role. */
export function checkRole(role: string): (host: string, certificate: PeerCertificate) => Error | undefined {
  return (host, certificate) => {
    const theirs = roleOf(certificate.subjectaltname);
    if (theirs !== undefined && isOfRole(theirs, role)) return undefined;
    return new FlynnError('unauthenticated', `${host} is ${theirs ?? 'nobody of the cluster'}, not ${role}`);
  };
}

export class RenewedIdentity implements LiveIdentity {
  #current: Identity;
  readonly #isEverybodyKnown: () => boolean;
  readonly #listeners = new Set<() => void>();

  constructor(current: Identity, isEverybodyKnown: () => boolean = () => false) {
    this.#current = current;
    this.#isEverybodyKnown = isEverybodyKnown;
  }

  get isEverybodyKnown(): boolean {
    return this.#isEverybodyKnown();
  }

  get current(): Identity {
    return this.#current;
  }

  set current(next: Identity) {
    const was = this.#current;
    if (next.certificate === was.certificate && next.trusted === was.trusted) return;
    this.#current = next;
    for (const listener of this.#listeners) listener();
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }
}

/**
 * In the folder of a job: certificate and key in one file, so that nobody reads one of before with one of after. `closed`
 * says nothing, and is touched again and again while everybody of the platform shows a certificate.
 */
export const identityFiles = { own: 'identity.pem', trusted: 'trusted.pem', closed: 'closed' } as const;

/** So long after it was touched `closed` counts: an agent that is away, or of a version before, keeps nobody out. */
export const closedForMs = 30_000;

const lookMs = 2_000;
/** Certificates are made again long before they end. */
const turnsPerRenewal = 15;
/** Within so long whoever follows its folder has read what its agent wrote there. */
export const identityReadMs = lookMs * turnsPerRenewal;

/** `invalid` when there is none: the agent writes it before the job starts. */
export async function readIdentity(folder: string): Promise<Identity> {
  const [own, trusted] = await Promise.all([
    readTextFile(join(folder, identityFiles.own)),
    readTextFile(join(folder, identityFiles.trusted)),
  ]);
  if (own === undefined || trusted === undefined) {
    throw new FlynnError('invalid', `there is no certificate of the cluster in ${folder}`);
  }
  // A pair that does not belong together would be found out by those who are about to show it.
  if (!parseCertificate(own).checkPrivateKey(keyIn(own, folder))) throw damaged(folder);
  return { trusted, certificate: own, privateKey: own };
}

function keyIn(own: string, folder: string): KeyObject {
  try {
    return createPrivateKey(own);
  } catch (error) {
    throw damaged(folder, error);
  }
}

function damaged(folder: string, cause?: unknown): FlynnError {
  return new FlynnError('invalid', `the certificate in ${folder} has no key that fits it`, { cause });
}

/** When `closed` was touched last, in milliseconds since the epoch; 0 where it is not there. */
async function readClosedAt(folder: string): Promise<number> {
  try {
    return (await stat(join(folder, identityFiles.closed))).mtimeMs;
  } catch (error) {
    if (hasErrno(error, 'ENOENT')) return 0;
    throw error;
  }
}

/** A job's own, as its agent renews it. */
export class FileIdentity extends RenewedIdentity {
  readonly #folder: string;
  #closedAtMs: number;

  private constructor(folder: string, current: Identity, closedAtMs: number) {
    super(current);
    this.#folder = folder;
    this.#closedAtMs = closedAtMs;
  }

  static async open(folder: string): Promise<FileIdentity> {
    return new FileIdentity(folder, await readIdentity(folder), await readClosedAt(folder));
  }

  /** Whether everybody of the platform shows a certificate, by the word of this host's agent: a key alone is nobody's then. */
  override get isEverybodyKnown(): boolean {
    return Math.abs(Date.now() - this.#closedAtMs) < closedForMs;
  }

  /** Reads it again and again until the signal aborts. */
  async follow({
    log,
    signal,
    everyMs = lookMs,
  }: {
    log: Logger;
    signal: AbortSignal;
    everyMs?: number;
  }): Promise<void> {
    for (let turn = 1; !signal.aborted; turn += 1) {
      await pause(everyMs, signal);
      if (signal.aborted) return;
      const again = turn % turnsPerRenewal === 0 ? [this.#lookForWord(), this.#renew()] : [this.#lookForWord()];
      for (const outcome of await Promise.allSettled(again)) {
        if (outcome.status === 'fulfilled') continue;
        log.warn(`what the host's agent says in ${this.#folder} could not be read: ${messageOf(outcome.reason)}`);
      }
    }
  }

  async #lookForWord(): Promise<void> {
    this.#closedAtMs = await readClosedAt(this.#folder);
  }

  async #renew(): Promise<void> {
    this.current = await readIdentity(this.#folder);
  }
}

/** Of every part of the platform. */
export const identityConfig = {
  /** Says to the controller that this release of a part can use a certificate: its jobs are given one. */
  FLYNN_MUTUAL_TLS: booleanFlag.optional(),
  /** Says besides, of a process, that it shows it to whoever can see it and passes nobody's requests on without it. */
  FLYNN_MUTUAL_ALWAYS: booleanFlag.optional(),
  /** Where the agent of its host keeps the job's certificate. */
  FLYNN_IDENTITY_DIR: z.string().startsWith('/').optional(),
};

/** None where the agent gave none: one of a version before, or in tests. Followed in the group. */
export async function ownIdentity(
  config: { FLYNN_IDENTITY_DIR?: string | undefined },
  { log, tasks }: { log: Logger; tasks: TaskGroup },
): Promise<FileIdentity | undefined> {
  const { FLYNN_IDENTITY_DIR: folder } = config;
  if (folder === undefined) return undefined;
  const identity = await FileIdentity.open(folder);
  tasks.run('certificate', (signal) => identity.follow({ log, signal }));
  return identity;
}
