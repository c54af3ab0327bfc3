/** The host examined by the command itself, when its agent does not answer. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { readTextFile } from '@flynn/kit/files';
import { eitherCommand } from '@flynn/kit/operator-commands';
import { withDeadline } from '@flynn/kit/retry';
import type { EtcdStatus } from '@flynn/store/etcd-status';
import { isAgentThere } from '../agent-process.ts';
import { etcdQuotaBytes } from '../cluster/etcd-resident.ts';
import { engineDataDir } from '../docker/data-dir.ts';
import { readUpdate } from '../update/record.ts';
import { addressFindings, readAddress } from './address.ts';
import { certificateFindings } from './certificates.ts';
import type { KnownCertificate } from './certificates.ts';
import { diskFindings, readDisks } from './disks.ts';
import { etcdFindings } from './etcd.ts';
import { examine, together } from './finding.ts';
import type { Check, Found, Verdict } from './finding.ts';
import { kernelFindings, readKernelSettings } from './kernel.ts';
import { countInotify, limitFindings, readKernelCounts } from './limits.ts';
import { updateFindings } from './versions.ts';

const patienceMs = 5_000;
const askMs = 3_000;

export type AlonePlace = Readonly<{
  hostId: string;
  /** Where other hosts reach it, as far as it is known. */
  address?: string | undefined;
  /** The private network behind NAT that it is in. */
  site?: string | undefined;
  cluster?: string | undefined;
  /** Of its containers. */
  bridge?: string | undefined;
  stateDir: string;
}>;

/**
 * `error` is what asking the agent came to. `etcd` asks the members that this host knew last; without it they are not looked at,
 * as where another host tells of them.
 */
export async function examineWithoutAgent(
  options: AlonePlace & {
    certificates: () => Promise<readonly KnownCertificate[]>;
    etcd?: ((signal: AbortSignal) => Promise<EtcdStatus>) | undefined;
    error: unknown;
    now: number;
  },
): Promise<Verdict> {
  const { hostId, stateDir, now, etcd } = options;
  const subject = `host ${hostId}`;
  const { signal } = new AbortController();
  const checks: Check[] = [
    { name: 'disks', find: async () => diskFindings(subject, await readDisks(await placesBelow(stateDir))) },
    { name: 'limits', find: async () => limitFindings(subject, await readKernelCounts(await countInotify())) },
    ...addressChecks(subject, options),
    { name: 'kernel', find: async () => kernelFindings(subject, await readKernelSettings()) },
    { name: 'certificates', find: async () => certificateFindings(subject, await options.certificates(), now) },
    { name: 'update', find: async () => updateFindings(subject, await readUpdate(stateDir)) },
  ];
  const [verdict, members] = await Promise.all([
    examine(checks, { subject, deadlineMs: patienceMs, signal }),
    // Members that do not answer are told by then, which is not the end of this check.
    examine(
      etcd === undefined
        ? []
        : [{ name: 'etcd', find: () => membersFindings(options, etcd, withDeadline(askMs, signal)) }],
      { subject: 'etcd', deadlineMs: patienceMs, signal },
    ),
  ]);
  const away = agentFinding(subject, {
    isThere: await isAgentThere(stateDir),
    error: messageOf(options.error),
    lastWords: await lastWords(options),
  });
  return together([{ findings: [{ check: 'agent', ...away }], unknown: [] }, members, verdict]);
}

/** One that runs waits: for the engine above all, before it can say anything at all. */
export function agentFinding(subject: string, seen: { isThere: boolean; error: string; lastWords: string }): Found {
  const { isThere, error } = seen;
  const last = seen.lastWords === '' ? '' : `; the last line of its log: ${seen.lastWords}`;
  const why =
    'what runs goes on, but nothing is started, healed or announced there; soon the cell takes the host for lost';
  const log = "journalctl -u 'flynn-host-*' -n 50, or the end of agent.log in its state folder";
  return isThere
    ? {
        severity: 'critical',
        subject,
        what: `its agent runs and does not answer: ${error}${last}`,
        why,
        remedy: `it goes on by itself once what it waits for is there: the container engine (systemctl status docker; one that runs and ends nothing it is asked: systemctl restart docker) first of all, else what its log names (${log})`,
      }
    : {
        severity: 'critical',
        subject,
        what: `its agent does not run: ${error}${last}`,
        why,
        remedy: `${eitherCommand('up')} starts it; why it does not run: ${log}`,
      };
}

function addressChecks(subject: string, { address, site, bridge = 'flynn0' }: AlonePlace): Check[] {
  if (address === undefined) return [];
  return [{ name: 'address', find: async () => addressFindings(subject, await readAddress(address, bridge, site)) }];
}

async function membersFindings(
  { stateDir, address }: AlonePlace,
  etcd: (signal: AbortSignal) => Promise<EtcdStatus>,
  signal: AbortSignal,
): Promise<Found[]> {
  const nameOf = (endpoint: string): string =>
    new URL(endpoint).hostname === address ? "this host's member" : `the member at ${endpoint}`;
  const facts = { quotaBytes: await etcdQuotaBytes(stateDir), nameOf, hasMajority: false, settledHosts: 1 };
  return etcdFindings(await etcd(signal), facts);
}

async function placesBelow(stateDir: string): Promise<{ holds: string; path: string }[]> {
  return [
    { holds: "the agent's state", path: stateDir },
    { holds: "the engine's data", path: await engineDataDir() },
  ];
}

/** What the agent said last: systemd has its log, or it is a file. */
async function lastWords({ stateDir, cluster }: AlonePlace): Promise<string> {
  const text = (cluster === undefined ? '' : await journalOf(cluster)) || (await logFile(stateDir));
  return (text.trimEnd().split('\n').at(-1) ?? '').slice(0, 300);
}

/** Nothing where there is no journal, or none of it. */
function journalOf(cluster: string): Promise<string> {
  const args = ['-u', `flynn-host-${cluster}`, '-n', '1', '-o', 'cat', '--quiet'];
  return new Promise((done) => {
    execFile('journalctl', args, { timeout: patienceMs }, (error, stdout) => done(error === null ? stdout : ''));
  });
}

async function logFile(stateDir: string): Promise<string> {
  const text = await readTextFile(join(stateDir, 'agent.log')).catch((error: unknown) => {
    throw new FlynnError('denied', `the agent's log cannot be read: ${messageOf(error)}`, { cause: error });
  });
  return text ?? '';
}
