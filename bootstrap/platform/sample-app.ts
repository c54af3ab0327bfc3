/** The sample app, pushed as people push theirs. */
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { get } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { knownNameOf } from '@flynn/cli/clusters/known-hosts';
import { FlynnError } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import type { SshKey } from '../cli/config.ts';
import { root } from '../origin.ts';
import type { Cluster } from '../settings.ts';
import { runProgram, tryProgram } from '../machine/program.ts';

export const sampleName = 'hello';
/** Some seconds, and many minutes on a slow machine: what it does is shown, and whoever waits may interrupt it. */
const pushMs = 20 * 60_000;

/**
 * Once it was there it is not pushed again: an app of its name without a release is somebody's own, and the key that it was pushed
 * with may have been taken away.
 */
export function sampleStanding(
  app: Readonly<{ releaseId?: string | undefined }> | undefined,
  before: Cluster['sample'],
): 'live' | 'gone' | 'to be pushed' {
  if (app?.releaseId !== undefined) return 'live';
  return before === undefined ? 'to be pushed' : 'gone';
}

export type PushOptions = { gitUrl: string; key: SshKey; knownHostsFile: string; report: (line: string) => void };

export async function pushSample({ gitUrl, key, knownHostsFile, report }: PushOptions): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'flynn-sample-'));
  try {
    await commitSample(folder);
    const env = { ...gitEnv(folder), GIT_SSH_COMMAND: sshCommand({ gitUrl, key, knownHostsFile }) };
    const said: string[] = [];
    const result = await tryProgram('git', ['push', `${gitUrl}/${sampleName}.git`, 'main'], {
      cwd: folder,
      env,
      timeoutMs: pushMs,
      onLine: (line) => {
        said.push(line);
        report(line.replace(/^remote: ?/, '').trimEnd());
      },
    });
    if (result.code !== 0) {
      throw new FlynnError('internal', `git push of the sample app failed:\n${said.slice(-20).join('\n')}`);
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** What whoever calls has set for git of their own is not for this, such as signatures and hooks. */
function gitEnv(home: string): Record<string, string> {
  const date = '2026-01-01T00:00:00Z';
  return {
    GIT_AUTHOR_NAME: 'Flynn',
    GIT_AUTHOR_EMAIL: 'flynn@localhost',
    GIT_COMMITTER_NAME: 'Flynn',
    GIT_COMMITTER_EMAIL: 'flynn@localhost',
    // The same commit each time.
    GIT_AUTHOR_DATE: date,
    GIT_COMMITTER_DATE: date,
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_CONFIG_GLOBAL: '/dev/null',
    // Before 2.32 git does not know that variable.
    HOME: home,
    XDG_CONFIG_HOME: home,
    GIT_TERMINAL_PROMPT: '0',
  };
}

/** In that folder, on the branch main. By a git as old as that of Debian 10, 2.20. */
export async function commitSample(folder: string, extra: Record<string, string> = {}): Promise<void> {
  await cp(join(root, 'bootstrap/sample'), folder, { recursive: true });
  const env = { ...gitEnv(folder), ...extra };
  const git = (...args: string[]): Promise<string> => runProgram('git', args, { cwd: folder, env, timeoutMs: 30_000 });
  await git('init', '--quiet');
  await git('symbolic-ref', 'HEAD', 'refs/heads/main');
  await git('add', '--all');
  await git('commit', '--quiet', '--message', 'A web app that says hello');
}

/** To the git receiver by this machine itself: the domain may lead here only once whoever made the cluster has told their DNS. */
export function sshCommand({ gitUrl, key, knownHostsFile }: Omit<PushOptions, 'report'>): string {
  const { hostname, port } = new URL(gitUrl);
  const options = [
    'IdentitiesOnly=yes',
    'BatchMode=yes',
    'StrictHostKeyChecking=yes',
    `UserKnownHostsFile=${knownHostsFile}`,
    'HostName=127.0.0.1',
    // As it is known there.
    `HostKeyAlias=${knownNameOf({ host: hostname, port: Number(port || 22) })}`,
    'ConnectTimeout=10',
  ];
  return ['ssh', '-F', '/dev/null', '-i', key.privateFile, ...options.flatMap((option) => ['-o', `'${option}'`])].join(
    ' ',
  );
}

/** Through the router, as everybody else: 127.0.0.1 with the app's name. */
export async function untilAnswers(url: string, deadlineMs: number): Promise<void> {
  const { hostname, port } = new URL(url);
  await waitFor(() => isAnswering(hostname, Number(port === '' ? 80 : port)), {
    what: url,
    deadlineMs,
    intervalMs: 150,
  });
}

function isAnswering(hostname: string, port: number): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const outgoing = get(
      { host: '127.0.0.1', port, path: '/ping', headers: { host: hostname }, agent: false, timeout: 5_000 },
      (answer) => {
        answer.resume();
        answer.once('end', () => resolve(answer.statusCode === 200));
      },
    );
    outgoing.once('timeout', () => outgoing.destroy(new Error('no answer within 5 s')));
    outgoing.once('error', reject);
  });
}
