/** The host examined by the command itself, when its agent does not answer. */
import { join } from 'node:path';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { readTextFile } from '@flynn/kit/files';
import { eitherCommand } from '@flynn/kit/operator-commands';
import { readUpdate } from '../update-record.ts';
import { certificateFindings } from './certificates.ts';
import type { KnownCertificate } from './certificates.ts';
import { diskFindings, readDisks } from './disks.ts';
import { examine, together } from './finding.ts';
import type { Verdict } from './finding.ts';
import { kernelFindings, readKernelSettings } from './kernel.ts';
import { countInotify, limitFindings, readKernelCounts } from './limits.ts';
import { updateFindings } from './versions.ts';

const patienceMs = 5_000;

/** `error` is what asking the agent came to. */
export async function examineWithoutAgent(options: {
  hostId: string;
  stateDir: string;
  certificates: () => Promise<readonly KnownCertificate[]>;
  error: unknown;
  now: number;
}): Promise<Verdict> {
  const { hostId, stateDir, now } = options;
  const subject = `host ${hostId}`;
  const verdict = await examine(
    [
      { name: 'disks', find: async () => diskFindings(subject, await readDisks(placesBelow(stateDir))) },
      { name: 'limits', find: async () => limitFindings(subject, await readKernelCounts(await countInotify())) },
      { name: 'kernel', find: async () => kernelFindings(subject, await readKernelSettings()) },
      { name: 'certificates', find: async () => certificateFindings(subject, await options.certificates(), now) },
      { name: 'update', find: async () => updateFindings(subject, await readUpdate(stateDir)) },
    ],
    { subject, deadlineMs: patienceMs, signal: new AbortController().signal },
  );
  const last = await lastWords(stateDir);
  const away: Verdict = {
    findings: [
      {
        check: 'agent',
        severity: 'critical',
        subject,
        what: `its agent does not answer: ${messageOf(options.error)}${last}`,
        why: 'what runs goes on, but nothing is started, healed or announced there; soon the cell takes the host for lost',
        remedy: `${eitherCommand('up')} starts it; why it does not run: journalctl -u 'flynn-host-*' -n 50, or the end of agent.log in its state folder`,
      },
    ],
    unknown: [],
  };
  return together([away, verdict]);
}

function placesBelow(stateDir: string): { holds: string; path: string }[] {
  return [
    { holds: "the agent's state", path: stateDir },
    { holds: "the engine's data", path: '/var/lib/docker' },
  ];
}

/** What the agent said last, where its log is a file. */
async function lastWords(stateDir: string): Promise<string> {
  const text = await readTextFile(join(stateDir, 'agent.log')).catch((error: unknown) => {
    throw new FlynnError('denied', `the agent's log cannot be read: ${messageOf(error)}`, { cause: error });
  });
  const last = text?.trimEnd().split('\n').at(-1);
  return last === undefined || last === '' ? '' : `; the last line of its log: ${last.slice(0, 300)}`;
}
