/**
 * The cluster's authorities on this host's disk while they are made anew (docs/trust.md). The store names, by their
 * fingerprints, those of the latest round; a host that has an earlier one takes them over whole from another host, on a connection
 * on which both have shown that they are hosts. So what is written in the store and nobody has is trusted by nobody.
 */
import { join } from 'node:path';
import { pause } from '@flynn/kit/clock';
import { fingerprintOf } from '@flynn/kit/certificate';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { readJsonFile, writeFileAtomic } from '@flynn/kit/files';
import { type Handler, handle } from '@flynn/kit/http-server';
import type { Logger } from '@flynn/kit/log';
import { eitherCommand } from '@flynn/kit/operator-commands';
import { withDeadline } from '@flynn/kit/retry';
import { defineRoute } from '@flynn/kit/routes';
import type { HostRecord } from '@flynn/scheduler/cell';
import { decodeJson } from '@flynn/store/codec';
import type { Store } from '@flynn/store/store';
import { z } from 'zod';
import { type AgentAccess, type AgentPlace, agentClient } from '../agent-client.ts';
import {
  type AuthoritySettings,
  admissionFile,
  authoritiesSchema,
  readAuthoritySettings,
} from '../trust/authorities.ts';
import { belongTogether } from '../trust/certificate-files.ts';
import type { HostTrust } from '../trust/host-trust.ts';
import { passSecretOf } from './join.ts';
import { readSealingKeys } from './sealing-keys.ts';

/** In the store. */
export const authoritiesKey = '/flynn/keys/authorities';

const lookMs = 5_000;
const askMs = 5_000;
/** So long the agent waits for them before it takes jobs. */
const firstMs = 15_000;

const namedSchema = z.object({
  round: z.int(),
  /** SHA-256 of the certificate of the one that issues, and of the one that counts as well. */
  issuing: z.string(),
  alsoTrusted: z.string().optional(),
  /** When the change began that is not through, ISO 8601. */
  since: z.string().optional(),
});
export type NamedAuthorities = Readonly<z.output<typeof namedSchema>>;

export const authoritiesRoute = defineRoute({
  method: 'GET',
  path: '/authorities',
  response: authoritiesSchema,
  summary: "The cluster's authorities, with the key of the one that issues; for hosts alone",
});

/** As the store names them. */
export function namedOf({ authority, alsoTrusted, authorityRound = 0 }: AuthoritySettings): NamedAuthorities {
  const also = alsoTrusted === undefined ? {} : { alsoTrusted: fingerprintOf(alsoTrusted.certificate) };
  return { round: authorityRound, issuing: fingerprintOf(authority.certificate), ...also };
}

/** Undefined while the cluster has those it was made with. */
export async function readNamed(
  store: Pick<Store, 'get'>,
  signal?: AbortSignal,
): Promise<NamedAuthorities | undefined> {
  const entry = await store.get(authoritiesKey, signal === undefined ? {} : { signal });
  return entry === undefined ? undefined : decodeJson(namedSchema, entry.value, authoritiesKey);
}

export type AuthorityRoundsDeps = Readonly<{
  stateDir: string;
  readNamed: (signal: AbortSignal) => Promise<NamedAuthorities | undefined>;
  trust: Pick<HostTrust, 'renew'>;
  /** Throws while it is not done: what this host's jobs show is of whoever issues, and its member of etcd trusts all there are. */
  followUp: (signal: AbortSignal) => Promise<void>;
  peers: () => readonly AgentPlace[];
  access: AgentAccess;
  log: Logger;
}>;

export class AuthorityRounds {
  readonly #deps: AuthorityRoundsDeps;
  /** As its disk said last. */
  #trusted: number | undefined;
  /** That jobs and etcd have followed to, too. */
  #round: number | undefined;
  /** What went wrong the last time: told once. */
  #fault: string | undefined;

  constructor(deps: AuthorityRoundsDeps) {
    this.#deps = deps;
  }

  /** What the host says of itself: the round whose authorities it, its jobs and its member of etcd trust, and show. */
  told(): Pick<HostRecord, 'authorityRound'> {
    return this.#round === undefined ? {} : { authorityRound: this.#round };
  }

  /** Before the host takes jobs. */
  async start(signal: AbortSignal): Promise<void> {
    await this.#try((limit) => this.#takeOver(limit), withDeadline(firstMs, signal));
  }

  /** Until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#try((limit) => this.look(limit), signal);
      await pause(lookMs, signal);
    }
  }

  async #try(task: (signal: AbortSignal) => Promise<unknown>, signal: AbortSignal): Promise<void> {
    try {
      await task(signal);
      this.#fault = undefined;
    } catch (error) {
      if (signal.aborted) return;
      const fault = messageOf(error);
      if (fault !== this.#fault) this.#deps.log.warn(`could not see to the authorities of this host: ${fault}`);
      this.#fault = fault;
    }
  }

  /** Once. What is on the disk stays whole: of a round before, or of the one that is named. */
  async look(signal: AbortSignal): Promise<void> {
    const round = await this.#takeOver(signal);
    if (round === undefined || round === this.#round) return;
    // With those it was made with there is nobody else to be trusted.
    if (round > 0) await this.#deps.followUp(signal);
    this.#round = round;
  }

  /** Resolves with the round that this host trusts by now, and issues by. */
  async #takeOver(signal: AbortSignal): Promise<number | undefined> {
    const { stateDir, log } = this.#deps;
    const own = await readAuthoritySettings(stateDir);
    if (own === undefined) return undefined;
    // Before the store is asked: to a host that was left behind, and that was told just now, it says nothing until then.
    await this.#trust(own);
    const named = await this.#deps.readNamed(signal);
    // A later one than is named is of the host that makes it, which is about to name it.
    if (named !== undefined && named.round > namedOf(own).round) {
      // A version before has written them down without their round.
      const ofRound = { ...own, authorityRound: named.round };
      await takeOver(stateDir, isNamed(ofRound, named) ? ofRound : await this.#fetch(named, signal));
      log.info({ named }, 'this host has taken over the authorities of the cluster');
    }
    return await this.#trust((await readAuthoritySettings(stateDir)) ?? own);
  }

  async #trust(settings: AuthoritySettings): Promise<number> {
    const { round } = namedOf(settings);
    if (round !== this.#trusted) await this.#deps.trust.renew();
    this.#trusted = round;
    return round;
  }

  async #fetch(named: NamedAuthorities, signal: AbortSignal): Promise<AuthoritySettings> {
    for (const peer of this.#deps.access.identity === undefined ? [] : this.#deps.peers()) {
      // It might be anybody: who issues from now on is what a host says that has shown that it is one.
      if (peer.mutual === undefined) continue;
      const settings = await this.#ask(peer, signal);
      if (settings !== undefined && isNamed(settings, named)) return settings;
    }
    throw new FlynnError(
      'unavailable',
      `no other host has the authorities of round ${named.round}: ${eitherCommand('up')} on the host that keeps the platform brings them`,
    );
  }

  async #ask(peer: AgentPlace, signal: AbortSignal): Promise<AuthoritySettings | undefined> {
    await using client = agentClient(peer, this.#deps.access);
    try {
      return await client.call(authoritiesRoute, {}, { signal, timeoutMs: askMs });
    } catch (error) {
      // It is away, or of a version that has nothing to tell: another may.
      this.#deps.log.debug({ err: error, host: peer.id }, `could not ask ${peer.id} for the cluster's authorities`);
      return undefined;
    }
  }
}

/** What hosts ask one another; who asks has shown that it is one. */
export function authorityHandlers(stateDir: string): Handler[] {
  const told = async (): Promise<AuthoritySettings> => {
    const settings = await readAuthoritySettings(stateDir);
    if (settings === undefined) throw new FlynnError('not_found', 'this host was set up without an authority');
    return settings;
  };
  return [handle(authoritiesRoute, told)];
}

function isNamed(settings: AuthoritySettings, { round, issuing, alsoTrusted }: NamedAuthorities): boolean {
  const its = namedOf(settings);
  const isSame = its.round === round && its.issuing === issuing && its.alsoTrusted === alsoTrusted;
  return isSame && belongTogether(settings.authority);
}

const clusterSchema = z.looseObject({ sealingKey: z.string().optional(), joinSecret: z.string().optional() });
const admissionSchema = z.looseObject({ settings: clusterSchema });

/** What this host is told of last decides which round it has: whoever dies in between does it again. */
async function takeOver(stateDir: string, settings: AuthoritySettings): Promise<void> {
  const [clusterPath, admissionPath] = [join(stateDir, 'cluster.json'), join(stateDir, admissionFile)];
  const [cluster, admission] = await Promise.all([
    readJsonFile(clusterPath, clusterSchema),
    readJsonFile(admissionPath, admissionSchema),
  ]);
  const [sealingKey] = await readSealingKeys(stateDir);
  // A host of old has the former authority's key in its place.
  const sealed = sealingKey === undefined ? {} : { sealingKey };
  if (cluster !== undefined) await write(clusterPath, { ...sealed, ...withAuthorities(cluster, settings) });
  if (admission === undefined) return;
  const told = { ...sealed, ...withAuthorities(admission.settings, settings) };
  const { joinSecret } = admission.settings;
  const secret = joinSecret === undefined ? {} : { secret: passSecretOf({ ...settings, joinSecret }) };
  await write(admissionPath, { ...admission, ...secret, settings: told });
}

function withAuthorities<T extends object>(before: T, settings: AuthoritySettings): Omit<T, keyof AuthoritySettings> {
  const {
    authority: _1,
    alsoTrusted: _2,
    authorityRound: _3,
    endorsement: _4,
    ...rest
  } = before as T & Partial<AuthoritySettings>;
  return { ...rest, ...settings };
}

async function write(file: string, value: unknown): Promise<void> {
  await writeFileAtomic(file, `${JSON.stringify(value, undefined, 2)}\n`, { mode: 0o600 });
}
