/** Is etcd well: do its members answer, do they follow each other, is there room in their databases? */
import type { EtcdMemberStatus, EtcdStatus } from '@flynn/store/etcd-status';
import { wantedMembers } from '../cluster/members.ts';
import type { Found } from './finding.ts';

const subject = 'etcd';
const usedMarks = { warning: 60, critical: 80 } as const;
/** A file much larger than what is in it: the rest is only given back by defragmenting. */
const looseShare = 0.5;
const looseLeastBytes = 256 * 1024 ** 2;
const lagMark = 5_000;
const slowMs = 500;

const defragment = 'flynn-host etcd defragment';
const noWrites = 'then nothing can be deployed, scaled or placed any more; what runs goes on';

export type EtcdFacts = Readonly<{
  quotaBytes: number;
  nameOf: (endpoint: string) => string;
  /** The store has just answered, which takes one, whatever members say when each is asked. */
  hasMajority: boolean;
  /** Those that are there, and have been for long enough to have a member. */
  settledHosts: number;
  /** On hosts that the store knows, and takes for away. */
  strangers?: readonly EtcdMemberStatus[];
}>;

export function etcdFindings(status: EtcdStatus, facts: EtcdFacts): Found[] {
  const { members, others } = storesOf(status.members, facts.strangers ?? []);
  const own = findingsOf({ ...status, members }, facts);
  return others.length === 0 ? own : [twoStoresFinding(members, others, facts.nameOf), ...own];
}

/** The members of the store that most of them are of, with those that do not answer, and those of another. */
function storesOf(members: readonly EtcdMemberStatus[], strangers: readonly EtcdMemberStatus[]) {
  const storeOf = ({ answer }: EtcdMemberStatus) => answer?.storeId;
  const told = members.filter((one) => storeOf(one) !== undefined);
  const [main] = [...Map.groupBy(told, storeOf)].toSorted(([, a], [, b]) => b.length - a.length);
  const isOther = (one: EtcdMemberStatus) => storeOf(one) !== undefined && storeOf(one) !== main?.[0];
  return {
    members: members.filter((one) => !isOther(one)),
    others: main === undefined ? [] : [...members, ...strangers].filter(isOther),
  };
}

function twoStoresFinding(
  members: readonly EtcdMemberStatus[],
  others: readonly EtcdMemberStatus[],
  nameOf: EtcdFacts['nameOf'],
): Found {
  const names = (of: readonly EtcdMemberStatus[]) =>
    of
      .filter(({ answer }) => answer !== undefined)
      .map(({ endpoint }) => nameOf(endpoint))
      .join(', ');
  return {
    severity: 'critical',
    subject,
    matter: 'stores',
    what: `there are two stores: ${names(others)} ${others.length === 1 ? 'is' : 'are'} of another than ${names(members)}`,
    why: 'each goes on without the other, which was made anew while hosts were away: what one is told the other never learns, and both run the same jobs',
    remedy:
      'say which is to be gone on with, and save the other: flynn-host snapshot save FILE on a host of it; then what docs/operating.md says under "There are two stores"',
  };
}

function findingsOf({ members, alarms }: EtcdStatus, facts: EtcdFacts): Found[] {
  const { quotaBytes, nameOf } = facts;
  const newest = Math.max(0, ...members.map(({ answer }) => answer?.raftIndex ?? 0));
  const away = members.filter(({ answer }) => answer === undefined);
  const findings: Found[] = alarms.map(({ memberId, kind }) => {
    const member = members.find(({ answer }) => answer?.id === memberId);
    const name = member === undefined ? `member ${memberId}` : nameOf(member.endpoint);
    return kind === 'nospace'
      ? {
          severity: 'critical',
          subject,
          matter: `room ${memberId}`,
          what: `${name} has no room left and takes no more writes (alarm NOSPACE)`,
          why: 'nothing can be deployed, scaled or placed; what runs goes on',
          remedy: `${defragment}, which also ends the alarm`,
        }
      : corruptFinding(memberId === '0' ? undefined : name);
  });
  if (away.length > 0)
    findings.push(
      awayFinding(
        members.length,
        away.map(({ endpoint }) => nameOf(endpoint)),
        { error: away[0]?.error, isAnswering: facts.hasMajority },
      ),
    );
  findings.push(...fewFindings(members.length, facts.settledHosts));
  for (const { endpoint, answer } of members) {
    if (answer === undefined) continue;
    const name = nameOf(endpoint);
    if (answer.leaderId === undefined) {
      findings.push({
        severity: 'critical',
        subject,
        matter: `leader ${endpoint}`,
        what: `${name} knows of no leader`,
        why: 'without one nothing can be written, and it is not sure of what it reads',
        remedy: 'see that a majority of the members run and reach each other on TCP port 2380',
      });
    }
    const percent = Math.round((answer.sizeBytes / quotaBytes) * 100);
    const isLoose = answer.sizeBytes - answer.usedBytes > answer.sizeBytes * looseShare;
    if (percent >= usedMarks.warning) {
      findings.push({
        severity: percent >= usedMarks.critical ? 'critical' : 'warning',
        subject,
        matter: `quota ${endpoint}`,
        what: `the database of ${name} takes ${percent} % of its quota (${mebibytes(answer.sizeBytes)} of ${mebibytes(quotaBytes)}, ${mebibytes(answer.usedBytes)} in use)`,
        why: `at 100 % etcd takes no more writes: ${noWrites}`,
        remedy: isLoose
          ? defragment
          : 'see what fills it: flynn eval list, flynn op list; then flynn-host etcd defragment',
      });
    } else if (isLoose && answer.sizeBytes >= looseLeastBytes) {
      findings.push({
        severity: 'warning',
        subject,
        matter: `loose ${endpoint}`,
        what: `the database of ${name} is ${mebibytes(answer.sizeBytes)} with ${mebibytes(answer.usedBytes)} in it: it needs defragmenting`,
        why: 'it takes disk and memory for nothing, and counts towards the quota',
        remedy: defragment,
      });
    }
    if (newest - answer.raftIndex > lagMark) {
      findings.push({
        severity: 'warning',
        subject,
        matter: `behind ${endpoint}`,
        what: `${name} is ${newest - answer.raftIndex} changes behind the others`,
        why: 'until it has caught up, losing another member may stop all writes',
        remedy: 'look at its disk and its network: a slow disk is the usual cause',
      });
    }
    if (answer.tookMs > slowMs) {
      findings.push({
        severity: 'warning',
        subject,
        matter: `slow ${endpoint}`,
        what: `${name} took ${Math.round(answer.tookMs)} ms to say how it is`,
        why: 'every deployment, scale and placement waits for it',
        remedy: 'look at the load and the disk of its host: iostat -x 1, flynn-host stats',
      });
    }
  }
  return findings;
}

function corruptFinding(name: string | undefined): Found {
  const replace =
    'flynn-host etcd replace --yes, which gives its member up, ends the alarm, and makes it another with all that the others have';
  return {
    severity: 'critical',
    subject,
    matter: 'data',
    what:
      name === undefined
        ? 'the data of its members differs, and none has what most have (alarm CORRUPT)'
        : `the data of ${name} differs from that of the others (alarm CORRUPT)`,
    why: `etcd takes no writes and grants no leases until that is ended: ${noWrites}`,
    remedy:
      name === undefined
        ? `save what each has (flynn-host snapshot save FILE, on each of their hosts), and find out which is not to be gone on with; on that host: ${replace}`
        : `save a backup first: flynn-host snapshot save FILE; then on that host: ${replace}`,
  };
}

function fewFindings(count: number, hosts: number): Found[] {
  const wanted = wantedMembers(hosts);
  if (count === 0 || count >= wanted) return [];
  return [
    {
      severity: 'warning',
      subject,
      matter: 'members',
      what: `it has ${count} member${count === 1 ? '' : 's'}, and should have ${wanted} on the hosts there are`,
      why:
        count === 1
          ? 'all that the cluster knows is on one host, and lost with it'
          : 'if either is lost nothing can be written any more',
      remedy:
        'hosts become members by themselves, one after the other, within minutes; where it stays so, see that they reach each other on TCP port 2380, and what docker logs says of the container that ends with resident-etcd on those without a member',
    },
  ];
}

function awayFinding(
  total: number,
  names: readonly string[],
  { error, isAnswering }: { error: string | undefined; isAnswering: boolean },
): Found {
  const left = total - names.length;
  const hasMajority = left > total / 2;
  const what = `${names.join(', ')} ${names.length === 1 ? 'does' : 'do'} not answer (${left} of ${total} members do)${error === undefined ? '' : `: ${error}`}`;
  if (!hasMajority && isAnswering) {
    return {
      severity: 'warning',
      subject,
      matter: 'away',
      what,
      why: 'the store answers all the same, so a majority is there: they are slow, or out of reach of this host alone',
      remedy:
        'ask again with more patience: flynn-host status --patience 10; then look at the load of these hosts, and whether TCP port 2379 is reached on them from here',
    };
  }
  return {
    severity: 'critical',
    subject,
    matter: 'away',
    what,
    why: hasMajority
      ? left - 1 > total / 2
        ? 'one less may be lost now'
        : 'if one more is lost nothing can be written any more'
      : `there is no majority: ${noWrites}`,
    remedy: hasMajority
      ? 'bring that host back; if it is there and its member does not start: flynn-host etcd replace tells what to do; if it is gone for good: flynn host remove HOST --yes, and another takes its place'
      : 'bring enough of these hosts back, what they have on disk is enough; are their disks gone for good: flynn-host etcd recover tells what to do; has one of them another address by now: docs/operating.md, "Another address"',
  };
}

function mebibytes(bytes: number): string {
  return `${Math.round(bytes / 1024 ** 2)} MiB`;
}
