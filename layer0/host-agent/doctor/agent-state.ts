/** Does the agent reach what it needs: the engine, the store, its lease, its own schedulers? */
import { eitherCommand } from '@flynn/kit/operator-commands';
import { hangRemedy } from '../engine/hang.ts';
import { asideRemedy } from '../fencing/other-machine.ts';
import type { KnownRival } from '../fencing/rivals.ts';
import type { Found } from './finding.ts';

export type AgentFacts = Readonly<{
  isEngineConnected: boolean;
  /** Of one that answers and ends nothing; its version may have a known fault. */
  engineHang?: Readonly<{ since: number; version: string }> | undefined;
  /** Why the store does not answer, if so. */
  storeError: string | undefined;
  isFenceOpen: boolean;
  /** Another machine that is this host too. */
  rival?: KnownRival | undefined;
  /** Whether it has its subnet from the cluster. */
  hasLease: boolean;
  /** It has not reached the store since it was started. */
  isWaiting?: boolean;
  /** Why it schedules without the schedulers it was given, if so. */
  schedulerFault: string | undefined;
}>;

export function agentFindings(subject: string, facts: AgentFacts): Found[] {
  const findings: Found[] = [];
  if (!facts.isEngineConnected) {
    findings.push({
      severity: 'critical',
      subject,
      matter: 'engine',
      what: 'the container engine does not answer',
      why: 'what runs goes on, but nothing is started, stopped or healed there',
      remedy: 'systemctl restart docker; its log: journalctl -u docker -n 50',
    });
  } else if (facts.engineHang !== undefined) {
    findings.push({
      severity: 'critical',
      subject,
      matter: 'engine-hang',
      what: 'the container engine hangs: it lists containers, and ends nothing it is asked to do',
      since: new Date(facts.engineHang.since).toISOString(),
      why: 'what runs goes on, but nothing is started, stopped, removed or healed there; until it answers the host takes no new jobs',
      remedy: hangRemedy(facts.engineHang.version),
    });
  }
  if (facts.storeError !== undefined && facts.isWaiting === true) {
    findings.push({
      severity: 'critical',
      subject,
      matter: 'etcd',
      what: `it has waited for etcd since its agent was started: ${facts.storeError}`,
      why: 'what runs goes on without names of the cluster in DNS, but nothing is started, healed or announced there',
      remedy: 'see to etcd, of which more is said here: the agent goes on by itself once it answers',
    });
  } else if (facts.storeError !== undefined) {
    findings.push({
      severity: 'critical',
      subject,
      matter: 'etcd',
      what: `it does not reach etcd: ${facts.storeError}`,
      why: 'it hears of no new jobs, and within seconds the cell takes it for lost',
      remedy:
        'see whether etcd’s members run ("docker ps | grep etcd" on their hosts) and are reached on TCP port 2379',
    });
  }
  if (facts.rival !== undefined) findings.push(rivalFinding(subject, facts.rival, facts.isWaiting));
  // It has a lease then, and the record is not on it.
  if (!facts.isFenceOpen && (facts.rival === undefined || facts.rival.isTakenBack)) {
    findings.push({
      severity: 'critical',
      subject,
      matter: 'lease',
      what: 'its lease is lost: jobs of which there must never be two are stopped',
      why: 'databases and whatever has a volume do not run there until it is back in the cell',
      remedy: 'it takes a new lease by itself once etcd answers it: see to etcd and to its network',
    });
  }
  if (!facts.hasLease) {
    findings.push({
      severity: 'critical',
      subject,
      matter: 'subnet',
      what: 'the cluster has no lease of its subnet: it was removed while it was away, or is leaving',
      why: 'no other host has a way to its containers, and its subnet may be that of another by now: it takes no jobs',
      remedy: `to have it back, there: ${eitherCommand('up')}; to have it out: ${eitherCommand('down')}`,
    });
  }
  if (facts.schedulerFault !== undefined) {
    findings.push({
      severity: 'warning',
      subject,
      matter: 'schedulers',
      what: `it schedules without your own schedulers: ${facts.schedulerFault}`,
      why: 'workloads of their kinds wait',
      remedy: `put the file right, or take it away: FLYNN_SCHEDULERS= ${eitherCommand('up')}`,
    });
  }
  return findings;
}

/** Of one that a copy came up beside, and of the copy. */
function rivalFinding(subject: string, { address, isTakenBack, isGone }: KnownRival, isWaiting = false): Found {
  if (isGone === true) {
    return {
      severity: 'critical',
      subject,
      what: `another machine was this host too, at ${address}, and is not seen any more: one of them was made of a copy of the other's disk`,
      why: 'the agent here does nothing but wait, and starts no member of etcd: by itself it does not take the place of that one',
      remedy: asideRemedy,
    };
  }
  return {
    severity: 'critical',
    subject,
    what: isTakenBack
      ? `another machine announced itself as this host, at ${address}: a copy of this one, made of its disk`
      : `another machine is this host too, at ${address}: one of them was made of a copy of the other's disk`,
    why: isTakenBack
      ? 'it was sent away, but for a moment it did what this host does'
      : isWaiting
        ? 'while it is there the agent here does nothing but wait: none of the jobs of this host run here'
        : 'jobs of which there must never be two are stopped here, and nothing is started, healed or said of jobs while it is there',
    remedy: `switch off the one that is the copy; before it has a network again, remove the state folder and the containers on its disk (docs/operating.md, "Another address"). Not ${eitherCommand('down')}: that would take the host out of the cluster`,
  };
}
