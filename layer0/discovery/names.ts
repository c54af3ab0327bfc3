/** What does the cluster answer to a DNS question about its own names? */
import type { Answer, Packet, Question } from 'dns-packet';
import { createHash } from 'node:crypto';
import { isIPv4, isIPv6 } from 'node:net';
import type { Instance } from './api.ts';
import { findAddress } from './instances.ts';
import type { RegistryReads } from './registry.ts';

export const zone = 'flynn';

export const rcodes = { ok: 0, formatError: 1, serverFailure: 2, nameError: 3, notImplemented: 4 } as const;

export type Reply = { rcode: number; answers: readonly Answer[]; additionals: readonly Answer[] };

export function isOwnName(name: string): boolean {
  const lower = name.toLowerCase();
  return lower === zone || lower.endsWith(`.${zone}`);
}

/**
 * `<service>.flynn` has the addresses of all instances, `leader.<service>.flynn` that of the leader, and
 * `<instance>.<service>.flynn`, the target of SRV records, that of one instance. `_<service>._tcp.<service>.flynn`, or
 * `_<service>._tcp.flynn`, is SRV only (RFC 2782), and so is `_<port>._tcp.<service>.flynn`, the instances with that port.
 * TTL is 0 throughout: an instance that is gone must not be answered from somebody's cache. A name with instances but
 * nothing of the type asked is empty, so that a client asking for AAAA goes on to A.
 */
export function answerQuestion(
  question: Question,
  registry: Pick<RegistryReads, 'instances' | 'leader'>,
  random: () => number,
): Reply {
  const { found, isServiceOnly } = meantBy(question.name, registry);
  const places = shuffle(found.flatMap(placeOf), random);
  if (places.length === 0) {
    // The zone itself exists although nothing is announced under its bare name.
    const rcode = question.name.toLowerCase() === zone ? rcodes.ok : rcodes.nameError;
    return { rcode, answers: [], additionals: [] };
  }
  const answers: Answer[] = [];
  const additionals: Answer[] = [];
  if (question.type === 'SRV') {
    for (const place of places) {
      const { port, target } = place;
      answers.push({ type: 'SRV', name: question.name, ttl: 0, data: { port, target, priority: 1, weight: 1 } });
      additionals.push(...addressesOf([place], target, ['A', 'AAAA']));
    }
  } else if ((question.type === 'A' || question.type === 'AAAA') && !isServiceOnly) {
    answers.push(...addressesOf(places, question.name, [question.type]));
  }
  return { rcode: rcodes.ok, answers, additionals };
}

type Meant = { found: readonly Instance[]; isServiceOnly: boolean };

function meantBy(name: string, registry: Pick<RegistryReads, 'instances' | 'leader'>): Meant {
  const labels = name.toLowerCase().split('.').slice(0, -1);
  const last = labels.pop() ?? '';
  if (last === '_tcp') {
    const service = labels.length === 1 && labels[0]?.startsWith('_') === true ? labels[0].slice(1) : '';
    return { found: registry.instances(service), isServiceOnly: true };
  }
  const instances = registry.instances(last);
  const [first, second] = labels;
  if (first === undefined) return { found: instances, isServiceOnly: false };
  if (second === '_tcp' && labels.length === 2) {
    const which = first.slice(1);
    const found =
      first === `_${last}`
        ? instances
        : instances.filter((one) => first.startsWith('_') && one.address.endsWith(`:${which}`));
    return { found, isServiceOnly: true };
  }
  const which = labels.join('.');
  const named = instances.filter((instance) => labelsOf(instance) === which);
  if (which !== 'leader' || named.length > 0) return { found: named, isServiceOnly: false };
  const leader = registry.leader(last);
  return { found: leader === undefined ? [] : [leader], isServiceOnly: false };
}

type Place = { host: string; port: number; target: string };

/** None for what is no address: whoever put it into the store past this program must not cost the others their answer. */
function placeOf(instance: Instance): Place[] {
  const address = findAddress(instance.address);
  if (address === undefined) return [];
  const { host, port } = address;
  const isAddress = isIPv4(host) || isIPv6(host);
  return [{ host, port, target: isAddress ? `${labelsOf(instance)}.${instance.service}.${zone}` : host }];
}

/** The instance's id where that can be part of a name (RFC 1035, 2.3.4: labels up to 63 bytes, 255 together). */
function labelsOf({ id }: Instance): string {
  const isUsable = id.length <= 180 && id.split('.').every((label) => label !== '' && label.length <= 63);
  return isUsable ? id.toLowerCase() : `id-${createHash('sha256').update(id).digest('hex').slice(0, 32)}`;
}

function addressesOf(places: readonly Place[], name: string, types: readonly ('A' | 'AAAA')[]): Answer[] {
  const hosts = new Set(places.map(({ host }) => host));
  return [...hosts].flatMap((data): Answer[] => {
    const type = isIPv4(data) ? 'A' : isIPv6(data) ? 'AAAA' : undefined;
    return type !== undefined && types.includes(type) ? [{ type, name, ttl: 0, data }] : [];
  });
}

/** Clients take the first answer: a different one first each time spreads them. */
function shuffle<T>(values: readonly T[], random: () => number): T[] {
  return values
    .map((value) => ({ value, at: random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ value }) => value);
}

/** How large an answer over UDP may be: what the client says in its OPT record, else the classic 512 bytes. */
export function udpLimitOf(query: Packet): number {
  const opt = query.additionals?.find((record) => record.type === 'OPT');
  return opt === undefined ? 512 : Math.min(Math.max(opt.udpPayloadSize, 512), 4_096);
}
