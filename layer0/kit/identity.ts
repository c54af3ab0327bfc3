/**
 * Who speaks on a connection: each host and each job of the platform has a certificate of the cluster with its role in it,
 * `flynn:host/h1` or `flynn:app/controller`. Both sides of a mutual connection show theirs.
 */
import { join } from 'node:path';
import type { PeerCertificate } from 'node:tls';
import { pause } from './clock.ts';
import { booleanFlag } from './config.ts';
import { FlynnError, messageOf } from './errors.ts';
import { readTextFile } from './files.ts';
import type { Logger } from './log.ts';
import type { TaskGroup } from './tasks.ts';
import { z } from 'zod';

/** PEM. `trusted`: the authorities whose certificates count. */
export type Identity = Readonly<{ trusted: string; certificate: string; privateKey: string }>;

/** One that is renewed while it is used: connections that are open go on, later ones show the new one. */
export interface LiveIdentity {
  readonly current: Identity;
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
  readonly #listeners = new Set<() => void>();

  constructor(current: Identity) {
    this.#current = current;
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

/** In the folder of a job: certificate and key in one file, so that nobody reads one of before with one of after. */
export const identityFiles = { own: 'identity.pem', trusted: 'trusted.pem' } as const;

const lookMs = 30_000;

/** `invalid` when there is none: the agent writes it before the job starts. */
export async function readIdentity(folder: string): Promise<Identity> {
  const [own, trusted] = await Promise.all([
    readTextFile(join(folder, identityFiles.own)),
    readTextFile(join(folder, identityFiles.trusted)),
  ]);
  if (own === undefined || trusted === undefined) {
    throw new FlynnError('invalid', `there is no certificate of the cluster in ${folder}`);
  }
  return { trusted, certificate: own, privateKey: own };
}

/** A job's own, as its agent renews it. */
export class FileIdentity extends RenewedIdentity {
  readonly #folder: string;

  private constructor(folder: string, current: Identity) {
    super(current);
    this.#folder = folder;
  }

  static async open(folder: string): Promise<FileIdentity> {
    return new FileIdentity(folder, await readIdentity(folder));
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
    while (!signal.aborted) {
      await pause(everyMs, signal);
      if (signal.aborted) return;
      try {
        this.current = await readIdentity(this.#folder);
      } catch (error) {
        log.warn(`the certificate could not be read again: ${messageOf(error)}`);
      }
    }
  }
}

/** Of every part of the platform. */
export const identityConfig = {
  /** Says to the controller that this release of a part can use a certificate: its jobs are given one. */
  FLYNN_MUTUAL_TLS: booleanFlag.optional(),
  /** Where the agent of its host keeps the job's certificate. */
  FLYNN_IDENTITY_DIR: z.string().startsWith('/').optional(),
};

/** None where the agent gave none: one of a version before, or in tests. Followed in the group. */
export async function ownIdentity(
  config: { FLYNN_IDENTITY_DIR?: string | undefined },
  { log, tasks }: { log: Logger; tasks: TaskGroup },
): Promise<LiveIdentity | undefined> {
  const { FLYNN_IDENTITY_DIR: folder } = config;
  if (folder === undefined) return undefined;
  const identity = await FileIdentity.open(folder);
  tasks.run('certificate', (signal) => identity.follow({ log, signal }));
  return identity;
}
