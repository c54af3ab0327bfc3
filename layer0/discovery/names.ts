/** What does the cluster answer to a DNS question about its own names? */
import type { Answer, Packet, Question } from 'dns-packet';
import { isIPv4, isIPv6 } from 'node:net';
import type { Instance } from './api.ts';
import { leaderOf } from './election.ts';
import { splitAddress } from './instances.ts';

export const zone = 'flynn';

export const rcodes = { ok: 0, formatError: 1, serverFailure: 2, nameError: 3, notImplemented: 4 } as const;

export type Reply = { rcode: number; answers: Answer[]; additionals: Answer[] };

export function isOwnName(name: string): boolean {
  const lower = name.toLowerCase();
  return lower === zone || lower.endsWith(`.${zone}`);
}

/**
 * `<service>.flynn` has the addresses of all instances, `leader.<service>.flynn` that of the leader, and
 * `<instance>.<service>.flynn`, the target of SRV records, that of one instance. TTL is 0 throughout: an instance that is
 * gone must not be answered from somebody's cache. A name with instances but nothing of the type asked is empty, so that
 * a client asking for AAAA goes on to A.
 */
export function answerQuestion(
  question: Question,
  instancesOf: (service: string) => readonly Instance[],
  random: () => number,
): Reply {
  const instances = shuffle(meantBy(question.name, instancesOf), random);
  if (instances.length === 0) {
    // The zone itself exists although nothing is announced under its bare name.
    const rcode = question.name.toLowerCase() === zone ? rcodes.ok : rcodes.nameError;
    return { rcode, answers: [], additionals: [] };
  }
  const answers: Answer[] = [];
  const additionals: Answer[] = [];
  if (question.type === 'SRV') {
    for (const instance of instances) {
      const { port } = splitAddress(instance.address);
      const target = targetOf(instance);
      answers.push({ type: 'SRV', name: question.name, ttl: 0, data: { port, target, priority: 1, weight: 1 } });
      additionals.push(...addressesOf([instance], target, ['A', 'AAAA']));
    }
  } else if (question.type === 'A' || question.type === 'AAAA') {
    answers.push(...addressesOf(instances, question.name, [question.type]));
  }
  return { rcode: rcodes.ok, answers, additionals };
}

function meantBy(name: string, instancesOf: (service: string) => readonly Instance[]): readonly Instance[] {
  const labels = name.toLowerCase().split('.').slice(0, -1);
  const service = labels.pop();
  if (service === undefined) return [];
  const instances = instancesOf(service);
  if (labels.length === 0) return instances;
  const which = labels.join('.');
  const named = instances.filter((instance) => instance.id.toLowerCase() === which);
  if (which !== 'leader' || named.length > 0) return named;
  const leader = leaderOf(instances);
  return leader === undefined ? [] : [leader];
}

function targetOf(instance: Instance): string {
  const { host } = splitAddress(instance.address);
  const isAddress = isIPv4(host) || isIPv6(host);
  return isAddress ? `${instance.id}.${instance.service}.${zone}` : host;
}

function addressesOf(instances: readonly Instance[], name: string, types: readonly ('A' | 'AAAA')[]): Answer[] {
  const hosts = new Set(instances.map((instance) => splitAddress(instance.address).host));
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
