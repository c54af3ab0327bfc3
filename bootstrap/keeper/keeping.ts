/**
 * Pure. What the host that keeps the platform has in its cluster.json and the others have not: as another takes it over, and as
 * it is once another has.
 */
import type { LiveKeys } from '@flynn/controller/access/live-keys';
import type { NamedAuthorities } from '@flynn/host-agent/cluster/authority-rounds';
import type { Keeper } from '@flynn/host-agent/cluster/keeper';
import { fingerprintOf, isEndorsement, parseCertificate } from '@flynn/kit/certificate';
import type { Ring } from '@flynn/store/sealing/ring';
import { formerDomainsIn } from '../domain/domain.ts';
import { commands } from '../origin.ts';
import type { Begun } from '../rotation/rotation.ts';
import { type Cluster } from '../settings.ts';
import { httpsPortOf } from '../domain/urls.ts';

/** As the store has it: what the one before gave the platform, and what it was about to change. */
export type Kept = Readonly<{
  /** Of the controller's live release; empty before there is one. */
  env: Readonly<Record<string, string>>;
  named: NamedAuthorities | undefined;
  ring: Ring | undefined;
  /** Where the ring names one that is to be: that one, as far as this host has it, or another. */
  nextSealingKey: string;
}>;

export function isKeeper({ hostId, hasPlatform }: Pick<Cluster, 'hostId' | 'hasPlatform'>, keeper: Keeper | undefined) {
  return keeper === undefined ? hasPlatform : keeper.hostId === hostId;
}

/** Of a host that was set up anew under its name, or broke off as it took over, for people. */
export function unkeptText(cluster: Pick<Cluster, 'hostId' | 'hasPlatform'>, keeper: Keeper | undefined): string {
  if (cluster.hasPlatform || keeper?.hostId !== cluster.hostId) return '';
  return `; the platform is said to be kept here, and what that takes is not here: ${commands.takeOver} gets it`;
}

/** What is being made anew, in words; nothing where nothing is. */
export function underChange(
  { named, ring }: Pick<Kept, 'named' | 'ring'>,
  live: LiveKeys | undefined,
): string | undefined {
  if (named?.since !== undefined) return 'the authority';
  if (ring?.next !== undefined || ring?.rewriting !== undefined) return 'the sealing key';
  const { rootKeys = [], rounds = [] } = live ?? {};
  return rootKeys.length > 1 || rounds.length > 1 ? 'the root key or the tokens' : undefined;
}

/**
 * With what the steps go on from: root key and tokens they read in the store themselves. Of an authority that was to be made
 * anew nobody else had the key before it issued: `isLost` then, and another one is begun with.
 */
export function withPlatform(cluster: Cluster, kept: Kept, begun: Begun): { cluster: Cluster; isLost: boolean } {
  const { named, ring } = kept;
  const domain = kept.env['FLYNN_DOMAIN'] ?? cluster.domain;
  const told: Cluster = { ...withPorts(cluster, kept.env), domain, ...formerDomainsIn(kept.env) };
  // Where the sample app is not there by now somebody has deleted it.
  const taken: Cluster = { ...told, hasPlatform: true, sample: 'live' };
  if (ring?.next !== undefined) taken.sealingKeyChange = { ...begun, next: kept.nextSealingKey };
  else if (ring?.rewriting !== undefined) taken.sealingKeyChange = { id: begun.id, since: ring.rewriting.since };
  if (named?.since === undefined) return { cluster: taken, isLost: false };
  const phase = phaseOf(cluster);
  if (phase === 'opening') return { cluster: taken, isLost: true };
  return { cluster: { ...taken, authorityChange: { id: begun.id, since: named.since, phase } }, isLost: false };
}

/** A later `up` of the one before may have changed them, which the others are not told; nor were controllers of old. */
function withPorts(cluster: Cluster, env: Kept['env']): Cluster {
  const { FLYNN_HTTP_PORT: http, FLYNN_HTTPS_PORT: https, FLYNN_GIT_URL: gitUrl } = env;
  const gitPort = gitUrl === undefined ? cluster.gitPort : Number(new URL(gitUrl).port || 22);
  if (http === undefined || https === undefined) return { ...cluster, gitPort };
  const { httpsPort: _before, ...rest } = cluster;
  const [httpPort, httpsPort] = [Number(http), Number(https)];
  return { ...rest, gitPort, httpPort, ...(httpsPort === httpsPortOf({ httpPort }) ? {} : { httpsPort }) };
}

/** Of a change of the authority that is under way, by what all hosts have of it. */
function phaseOf({ authority, alsoTrusted, endorsement }: Cluster): 'opening' | 'issuing' | 'closing' {
  if (alsoTrusted === undefined) return 'closing';
  if (endorsement === undefined) return 'opening';
  const pair = { authority: authority.certificate, former: alsoTrusted.certificate };
  return isEndorsement(parseCertificate(endorsement), pair) ? 'issuing' : 'opening';
}

/** `peers`: the addresses of the others. */
type AmongOthers = Readonly<{ peers: readonly string[]; live: LiveKeys | undefined; named: Kept['named'] }>;

/** One of the others from now on. */
export function withoutPlatform(cluster: Cluster, { peers, live, named }: AmongOthers): Cluster {
  const {
    tokens: _1,
    domains: _2,
    rootKeyChange: _3,
    sealingKeyChange: _4,
    authorityChange: _5,
    sample: _6,
    ...rest
  } = { ...withoutUnnamed(cluster, named), hasPlatform: false, peers: [...peers] };
  return live === undefined ? rest : { ...rest, controllerKey: live.rootKeys[0], domain: live.domain };
}

/** Without an authority that it was about to name, of which nobody else has heard. */
function withoutUnnamed(cluster: Cluster, named: Kept['named']): Cluster {
  const { alsoTrusted, authorityRound = 0, ...rest } = cluster;
  const next = cluster.authorityChange?.next?.certificate;
  if (next === undefined || alsoTrusted?.certificate !== next || named?.alsoTrusted === fingerprintOf(next))
    return cluster;
  return { ...rest, authorityRound: authorityRound - 1 };
}
